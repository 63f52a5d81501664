// The table of all functions that were counted. What is searched for is all
// that it shows.

const FUNCTION_COLUMNS = [
  { key: "own", className: "number own" },
  { key: "share", className: "share", title: "Share of all that is shown" },
  { key: "contexts", className: "number contexts", title: "In how many contexts" },
  { key: "total", className: "number total" },
  { key: "name", className: "name", title: "Order by name" },
  { key: "module", className: "module", title: "Order by module" },
  { key: "place", className: "place", title: "Order by source line" },
];

class FunctionsView {
  constructor(app, host) {
    this.app = app;
    this.host = host;
    this.order = { key: "own", rising: false };
    this.rows = [];
    this.selected = -1;
    this.header = makeHeader(FUNCTION_COLUMNS, (key) => this.sort(key));
    this.scroller = make("div", { className: "scroller", tabIndex: 0, role: "grid" });
    host.append(this.scroller);
    this.list = new List(this.scroller, this.header, () => this.makeRow(), (row, at) => this.fill(row, at));
    this.scroller.addEventListener("click", (event) => {
      const at = rowOf(event);
      if (at !== undefined) this.select(at);
    });
    this.scroller.addEventListener("dblclick", (event) => {
      if (rowOf(event) !== undefined) this.app.show("tree");
    });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
  }

  setView(view) {
    this.view = view;
    this.update();
  }

  sort(key) {
    const { order } = this;
    const isText = ["name", "module", "place"].includes(key);
    if (key === "share") key = "own";
    this.order = { key, rising: order.key === key ? !order.rising : isText };
    this.update();
  }

  /** Chooses the rows anew: those that were counted and match. */
  update() {
    const { own } = this.view.perName();
    const { search } = this.app;
    const names = [];
    for (let name = 0; name < own.length; name++) {
      if (own[name] > 0 && (!search.query || search.matches(name))) names.push(name);
    }
    this.rows = names.sort(this.compare());
    showOrder(this.header, this.order);
    this.list.setCount(this.rows.length);
    const at = this.rows.indexOf(this.selected);
    if (at >= 0) this.list.center(at);
  }

  compare() {
    const { names } = this.app;
    const columns = this.view.perName();
    const { key, rising } = this.order;
    const sign = rising ? 1 : -1;
    const text = {
      name: (name) => names.text[name],
      module: (name) => names.moduleText(names.module(name)),
      place: (name) => names.file(name),
    }[key];
    const most = (a, b) => columns.own[b] - columns.own[a] || a - b;
    if (!text) return (a, b) => sign * (columns[key][a] - columns[key][b]) || most(a, b);
    const line = key === "place" ? (name) => names.line(name) : () => 0;
    return (a, b) => {
      const [left, right] = [text(a), text(b)];
      const texts = left < right ? -1 : left > right ? 1 : line(a) - line(b);
      return sign * texts || most(a, b);
    };
  }

  select(at) {
    this.selected = this.rows[at];
    this.list.reveal(at);
    this.app.selectName(this.selected);
  }

  /** Shows a function that somebody else has selected. */
  reveal(name) {
    this.selected = name;
    const at = this.rows.indexOf(name);
    if (at >= 0) this.list.center(at);
    else this.list.draw();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.rows.indexOf(this.selected);
    const { page } = this.list;
    const last = this.rows.length - 1;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: last }[event.key];
    if (event.key === "Enter" && at >= 0) this.app.show("tree");
    else if (to !== undefined && last >= 0) this.select(Math.max(0, Math.min(to, last)));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  makeRow() {
    const cells = {
      own: make("span", { className: "number own" }),
      bar: make("i"),
      percent: make("span"),
      contexts: make("span", { className: "number contexts" }),
      total: make("span", { className: "number total" }),
      dot: make("span", { className: "dot" }),
      text: make("span", { className: "text" }),
      module: make("span", { className: "module" }),
      place: make("span", { className: "place" }),
    };
    const share = make("span", { className: "share" }, cells.bar, cells.percent);
    const name = make("span", { className: "name" }, cells.dot, cells.text);
    const row = make("div", { className: "row", role: "row" });
    row.append(cells.own, share, cells.contexts, cells.total, name, cells.module, cells.place);
    row.cells = cells;
    return row;
  }

  fill(row, at) {
    const { names, search, colours } = this.app;
    const name = this.rows[at];
    const columns = this.view.perName();
    const { own, bar, percent: share, contexts, total, dot, text, module, place } = row.cells;
    own.textContent = grouped(columns.own[name]);
    bar.style.width = `${(columns.own[name] * 100) / this.view.sum}%`;
    share.textContent = percent(columns.own[name], this.view.sum);
    contexts.textContent = grouped(columns.contexts[name]);
    total.textContent = grouped(columns.total[name]);
    row.ariaSelected = String(name === this.selected);
    putText(text, names.text[name], search);
    text.title = visible(names.text[name]);
    text.classList.toggle("special", !names.isFunction(name));
    putModule(dot, module, names, colours, name);
    place.textContent = visible(names.place(name));
    place.title = visible(names.file(name));
  }
}
