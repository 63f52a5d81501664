// A table, such as that of all functions that were counted. What is searched for is
// all that it shows.

class FunctionsView {
  /**
   * @param app gives names, colours and search; is told what is selected and what is to be opened
   * @param columns of numbers, before those of text
   */
  constructor(app, host, columns) {
    this.app = app;
    this.host = host;
    this.columns = columns;
    this.order = { key: "share", rising: false };
    this.rows = [];
    this.selected = -1;
    this.header = makeHeader([...this.columns, ...TEXT_COLUMNS], (key) => this.sort(key));
    this.scroller = make("div", { className: "scroller", tabIndex: 0, role: "grid" });
    host.append(this.scroller);
    this.list = new List(this.scroller, this.header, () => this.makeRow(), (row, at) => this.fill(row, at));
    this.scroller.addEventListener("click", (event) => {
      const at = rowOf(event);
      if (at !== undefined) this.select(at);
    });
    this.scroller.addEventListener("dblclick", (event) => {
      if (rowOf(event) !== undefined) this.app.open();
    });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param table values of rows, which are names of the app */
  setTable(table) {
    this.table = table;
    this.update();
  }

  sort(key) {
    this.order = nextOrder(this.order, key);
    this.update();
  }

  /** Chooses the rows anew: those that were counted and match. */
  update() {
    const { search, names } = this.app;
    const rows = this.table.rows().filter((name) => !search.query || search.matches(name));
    this.rows = rows.sort(comparison(this.columns, this.order, this.table, names, (name) => name));
    showOrder(this.header, this.order);
    this.list.setCount(this.rows.length);
    const at = this.rows.indexOf(this.selected);
    if (at >= 0) this.list.center(at);
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
    if (event.key === "Enter" && at >= 0) this.app.open();
    else if (to !== undefined && last >= 0) this.select(Math.max(0, Math.min(to, last)));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  makeRow() {
    const cells = {
      numbers: makeCells(this.columns),
      dot: make("span", { className: "dot" }),
      text: make("span", { className: "text" }),
      module: make("span", { className: "module" }),
      place: make("span", { className: "place" }),
    };
    const name = make("span", { className: "name" }, cells.dot, cells.text);
    const row = make("div", { className: "row", role: "row" });
    row.append(...cells.numbers, name, cells.module, cells.place);
    row.cells = cells;
    return row;
  }

  fill(row, at) {
    const { names, search, colours } = this.app;
    const name = this.rows[at];
    const { numbers, dot, text, module, place } = row.cells;
    fillCells(numbers, this.columns, this.table, name);
    row.ariaSelected = String(name === this.selected);
    putText(text, names.text[name], search);
    text.title = visible(names.text[name]);
    text.classList.toggle("special", !names.isFunction(name));
    putModule(dot, module, names, colours, name);
    place.textContent = visible(names.place(name));
    place.title = visible(names.file(name));
  }
}
