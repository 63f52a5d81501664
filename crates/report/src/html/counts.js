// The page of counts: tables of functions, basic blocks and lines; and of what is selected
// there, source and instructions of the function.

const COUNT_VALUES = {
  executed: plain("own", (table, row) => table.executed[row], () => "Executed", () => "Instructions executed"),
  share: share((table, row) => table.executed[row], (table) => table.sum, () => "Share", () => "Share of all executed instructions"),
  insns: plain("contexts", (table, row) => table.insns[row], () => "Instructions", () => "Distinct instructions that were executed"),
  times: (head, about) => plain("total", (table, row) => table.times[row], () => head, () => about),
};

/** A table of the page, as a view of rows takes it. */
class CountTable {
  constructor(columns, page) {
    Object.assign(this, columns);
    this.page = page;
    this.sum = page.head.executed;
    this.count = columns.name.length;
    this.text = columns.name;
    this.modules = page.head.modules;
  }

  rows() {
    const { module } = this.page;
    const all = Array.from({ length: this.count }, (_, row) => row);
    return module < 0 ? all : all.filter((row) => this.module[row] === module);
  }

  weight(row) {
    return this.executed[row];
  }
}

/** What is shown of the rows of a table besides numbers. */
class CountNames {
  constructor(table, head) {
    this.table = table;
    this.head = head;
    this.text = table.name;
    this.modules = head.modules;
  }

  isFunction() {
    return true;
  }

  module(row) {
    return this.table.module[row];
  }

  moduleText(module) {
    return baseName(this.modules[module].path);
  }

  file(row) {
    const file = this.table.file[row];
    return file < 0 ? "" : this.head.files[file];
  }

  line(row) {
    return this.table.line[row];
  }

  place(row) {
    const file = baseName(this.file(row));
    return file ? `${file}:${this.line(row)}` : "";
  }
}

/** Lines are named by their place; what stands there is their function. */
class LineNames extends CountNames {
  place(row) {
    return this.head.functions.name[this.table.function[row]];
  }
}

/** Rows whose name or place contains what is searched for. */
class Filter extends Search {
  constructor(names) {
    super(null);
    this.names = names;
  }

  setQuery(text) {
    this.query = text.trim().toLowerCase();
  }

  matches(row) {
    const { names } = this;
    return visible(`${names.text[row]}\n${names.place(row)}`.toLowerCase()).includes(this.query);
  }
}

class CountsPage {
  constructor(head) {
    this.head = head;
    this.module = -1;
    this.tab = "functions";
    this.listings = null;
    this.hasCode = document.getElementById("data-code") !== null;
    this.panel = null;
    this.selected = null;
    const weights = new Array(head.modules.length).fill(0);
    head.functions.module.forEach((module, row) => (weights[module] += head.functions.executed[row]));
    this.weights = weights;
    this.colours = new Colours(weights);
    const { executed, share, insns, times } = COUNT_VALUES;
    this.views = {
      functions: this.makeView("functions", CountNames, [executed, share, times("Entered", "Executions of the first instruction"), insns]),
      blocks: this.makeView("blocks", CountNames, [executed, share, times("Executions", "Of the block"), insns]),
      lines: this.makeView("lines", LineNames, [executed, share, times("Times", "Executions of the line's most executed instruction"), insns]),
    };
    document.documentElement.style.setProperty("--digits", Math.max(grouped(head.executed).length, 9));
    this.fillHead();
    this.fillModules();
    this.listen();
    splitter(document.getElementById("splitter"), document.getElementById("details"));
    this.show("functions");
    this.showDetails();
  }

  makeView(id, Names, columns) {
    const table = new CountTable(this.head[id], this);
    const names = new Names(table, this.head);
    const search = new Filter(names);
    const host = { names, search, colours: this.colours, selectName: (row) => this.select(id, row), open: () => {} };
    const view = new FunctionsView(host, document.getElementById(id), columns);
    const texts = { name: { functions: "Function", blocks: "Basic block", lines: "Line" }[id], module: "Module", place: id === "lines" ? "Function" : "Source" };
    nameHeads(view.header, [...columns, ...TEXT_COLUMNS], "", texts);
    view.setTable(table);
    return view;
  }

  fillHead() {
    const { head } = this;
    const get = (id) => document.getElementById(id);
    get("command").textContent = visible(head.command);
    get("command").title = visible(head.command);
    get("about").append(head.end, " · ", timeOf(head.started_unix_ms), " · ", make("span", { id: "totals" }, head.totals[0]));
    for (const [name, value] of head.options) get("about").append(" · ", make("code", {}, visible(`--${name} ${value}`)));
    fillNotes(get("notes"), [...head.totals.slice(1), ...head.notes, `recorded by ${head.producer}`]);
  }

  fillModules() {
    const select = document.getElementById("one-module");
    const order = [...this.weights.keys()].filter((module) => this.weights[module] > 0).sort((a, b) => this.weights[b] - this.weights[a]);
    select.append(new Option("All modules", -1));
    for (const module of order) {
      const { path } = this.head.modules[module];
      select.append(new Option(visible(`${baseName(path)} (${percent(this.weights[module], this.head.executed)})`), module));
    }
    select.addEventListener("change", () => {
      this.module = Number(select.value);
      for (const view of Object.values(this.views)) view.update();
      this.sayShown();
    });
  }

  listen() {
    const query = document.getElementById("query");
    for (const tab of document.querySelectorAll("#tabs button")) tab.addEventListener("click", () => this.show(tab.dataset.tab));
    query.addEventListener("input", () => this.setQuery(query.value));
    query.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && query.value) {
        query.value = "";
        this.setQuery("");
      } else if (["Escape", "Enter", "ArrowDown"].includes(event.key)) {
        this.view.scroller.focus();
      } else {
        return;
      }
      event.preventDefault();
    });
    document.addEventListener("keydown", (event) => this.key(event, query));
    document.addEventListener("pointerdown", (event) => {
      const notes = document.getElementById("notes");
      if (!notes.contains(event.target)) notes.open = false;
    });
  }

  key(event, query) {
    const isTyping = event.target.closest?.("input, select");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === document.body) this.view.key(event);
    if (event.defaultPrevented) return;
    const act = {
      "/": () => query.select(),
      1: () => this.show("functions"),
      2: () => this.show("blocks"),
      3: () => this.show("lines"),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  get view() {
    return this.views[this.tab];
  }

  setQuery(text) {
    for (const view of Object.values(this.views)) {
      view.app.search.setQuery(text);
      view.update();
    }
    this.sayShown();
  }

  show(tab) {
    this.tab = tab;
    for (const section of document.querySelectorAll("#views > section")) section.hidden = section.id !== tab;
    for (const button of document.querySelectorAll("#tabs button")) button.ariaSelected = String(button.dataset.tab === tab);
    this.view.update();
    this.view.scroller.focus({ preventScroll: true });
    this.sayShown();
  }

  sayShown() {
    const { rows, table } = this.view;
    document.getElementById("empty").hidden = table.count > 0;
    const sum = rows.reduce((sum, row) => sum + table.executed[row], 0);
    const isAll = rows.length === table.count;
    document.getElementById("shown").textContent = isAll ? grouped(table.count) : `${grouped(rows.length)} of ${grouped(table.count)} · ${percent(sum, table.sum)}`;
  }

  select(id, row) {
    this.selected = { id, row };
    this.showDetails();
  }

  setListings(listings) {
    this.listings = listings;
    this.showDetails();
  }

  /** The function of what is selected, with that marked. */
  showDetails() {
    const host = document.getElementById("details");
    const hint = (text) => make("p", { className: "hint", id: "no-code" }, visible(text));
    this.panel = null;
    host.classList.toggle("with-code", this.selected !== null);
    if (!this.selected) {
      host.replaceChildren(hint("Select a function, a basic block or a line to see its source and instructions, and how often each was executed."));
      return;
    }
    const { id, row } = this.selected;
    const { table, app } = this.views[id];
    const name = table.function[row];
    const { functions, modules } = this.head;
    const facts = make("p", { className: "hint" }, visible(modules[functions.module[name]].path));
    const numbers = make("p", {}, `${counted(functions.executed[name], "instruction")} executed (${percent(functions.executed[name], table.sum)})`);
    const listing = this.listings?.of(name);
    const title = make("h2", {}, visible(functions.name[name]));
    let code;
    if (!this.hasCode) code = hint("The page was written without code (--html-code 0).");
    else if (!this.listings) code = hint("Reading the code…");
    else if (!listing) code = hint(this.listings.left ?? "Its code is not in the page.");
    else {
      const marked = id === "functions" ? undefined : this.markedBy(id, table, row, listing, app.names);
      this.panel = new CodePanel(listing, this.listings.files, { executions: (at) => listing.count[at], marked });
      code = this.panel.element;
    }
    host.replaceChildren(title, facts, numbers, code);
    this.panel?.reveal();
  }

  /** Whether an instruction is of the block or the line that is selected. */
  markedBy(id, table, row, listing, names) {
    if (id === "blocks") {
      const first = listing.at.indexOf(table.at[row]);
      return (at) => at >= first && at < first + table.insns[row];
    }
    const isLine = (line) => line >= 0 && listing.number[line] === table.line[row] && this.listings.files[listing.file[line]] === names.file(row);
    return (at) => isLine(listing.row[at]);
  }
}

start(loadHead, CountsPage);
