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
    this.columns = columns;
    this.sum = page.head.executed;
    this.count = columns.name.length;
    this.text = columns.name;
    this.modules = page.head.modules;
  }

  rows() {
    const { module } = this.page;
    const all = Array.from({ length: this.count }, (_, row) => row);
    return all.filter((row) => this.insns[row] > 0 && (module < 0 || this.module[row] === module));
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

/** What each thread counted, by instruction. */
class CountThreads {
  constructor({ names, executed, left, ...rows }, values) {
    Object.assign(this, { names, executed, left, rows, values });
    this.ofFunction = new Map();
    rows.function.forEach((row, at) => listIn(this.ofFunction, row).push(at));
  }

  choose(thread) {
    [this.counts, this.taken] = this.values.map((values) => {
      const all = new Float64Array(this.rows.function.length);
      values.add(thread, all);
      return all;
    });
  }

  /** Zeros for the numbers of a table. */
  static zeros({ name: { length } }) {
    return { executed: new Float64Array(length), times: new Float64Array(length), insns: new Float64Array(length) };
  }

  functions(columns) {
    const values = CountThreads.zeros(columns);
    for (const [row, all] of this.ofFunction) {
      if (row < 0) continue;
      for (const at of all) this.addTo(values, row, at);
      // Where all threads together have entered it, its first instruction is the first.
      if (columns.times[row] > 0) values.times[row] = this.counts[all[0]];
    }
    return values;
  }

  blocks(columns) {
    const values = CountThreads.zeros(columns);
    this.rows.first.forEach((first, row) => {
      for (let at = first; at < first + columns.insns[row]; at++) this.addTo(values, row, at);
      values.times[row] = this.counts[first];
    });
    return values;
  }

  lines(columns) {
    const values = CountThreads.zeros(columns);
    this.rows.line.forEach((row, at) => {
      if (row < 0) return;
      this.addTo(values, row, at);
      values.times[row] = Math.max(values.times[row], this.counts[at]);
    });
    return values;
  }

  addTo({ executed, insns }, row, at) {
    executed[row] += this.counts[at];
    insns[row] += this.counts[at] > 0;
  }

  /** The code of a function with the thread's counts. */
  listing(listing, row) {
    const all = this.ofFunction.get(row);
    const taken = listing.taken.map((taken, at) => (taken === null ? null : this.taken[all[at]]));
    // Where indirect branches went is known of all threads together.
    return { ...listing, went: [], count: all.map((at) => this.counts[at]), taken };
  }
}

class CountsPage {
  constructor({ head, threads }) {
    this.head = head;
    this.threads = threads;
    this.thread = -1;
    this.module = -1;
    this.tab = "functions";
    this.listings = null;
    this.hasCode = document.getElementById("data-code") !== null;
    this.panel = null;
    this.selected = null;
    this.colours = new Colours(this.weightsOf(head.functions));
    const { executed, share, insns, times } = COUNT_VALUES;
    this.views = {
      functions: this.makeView("functions", CountNames, [executed, share, times("Entered", "Executions of the first instruction"), insns]),
      blocks: this.makeView("blocks", CountNames, [executed, share, times("Executions", "Of the block"), insns]),
      lines: this.makeView("lines", LineNames, [executed, share, times("Times", "Executions of the line's most executed instruction"), insns]),
    };
    document.documentElement.style.setProperty("--digits", Math.max(grouped(head.executed).length, 9));
    this.fillHead();
    this.fillThreads();
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

  /** What was executed of each module. */
  weightsOf({ module, executed }) {
    const weights = new Array(this.head.modules.length).fill(0);
    module.forEach((module, row) => (weights[module] += executed[row]));
    return weights;
  }

  fillThreads() {
    const { threads } = this;
    const select = document.getElementById("threads");
    select.hidden = threads === null;
    if (select.hidden) return;
    const { names, executed, left } = threads;
    select.append(new Option(`All: ${counted(names.length + left, "thread")}`, -1));
    names.forEach((name, thread) => select.append(new Option(visible(`${name} (${counted(executed[thread], "instruction")})`), thread)));
    if (left > 0) select.append(new Option(`${counted(left, "thread")} with fewer instructions`, -2));
    for (const option of select.options) option.disabled = option.value === "-2";
    select.addEventListener("change", () => this.setThread(Number(select.value)));
  }

  /** Shows what one thread counted; -1: all. */
  setThread(thread) {
    this.thread = thread;
    if (thread >= 0) this.threads.choose(thread);
    for (const [id, { table }] of Object.entries(this.views)) {
      const { columns } = table;
      Object.assign(table, thread < 0 ? columns : this.threads[id](columns));
      table.sum = thread < 0 ? this.head.executed : this.threads.executed[thread];
    }
    this.fillModules();
    this.showRows();
    this.showDetails();
  }

  fillModules() {
    const select = document.getElementById("one-module");
    const { table } = this.views.functions;
    const weights = this.weightsOf(table);
    const isShown = (module) => weights[module] > 0 || module === this.module;
    const order = [...weights.keys()].filter(isShown).sort((a, b) => weights[b] - weights[a]);
    select.replaceChildren(new Option("All modules", -1));
    for (const module of order) {
      const { path } = this.head.modules[module];
      select.append(new Option(visible(`${baseName(path)} (${percent(weights[module], table.sum)})`), module));
    }
    select.value = String(this.module);
  }

  /** Other rows of the tables are shown, or other numbers. */
  showRows() {
    for (const view of Object.values(this.views)) view.update();
    this.sayShown();
  }

  listen() {
    const query = document.getElementById("query");
    const modules = document.getElementById("one-module");
    modules.addEventListener("change", () => {
      this.module = Number(modules.value);
      this.showRows();
    });
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
    const all = table.insns.reduce((all, insns) => all + (insns > 0), 0);
    document.getElementById("shown").textContent = rows.length === all ? grouped(all) : `${grouped(rows.length)} of ${grouped(all)} · ${percent(sum, table.sum)}`;
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
    const { modules } = this.head;
    const functions = this.views.functions.table;
    const facts = make("p", { className: "hint" }, visible(modules[functions.module[name]].path));
    const numbers = make("p", {}, `${counted(functions.executed[name], "instruction")} executed (${percent(functions.executed[name], table.sum)})`);
    const known = this.listings?.of(name);
    const listing = known && this.thread >= 0 ? this.threads.listing(known, name) : known;
    const title = make("h2", {}, visible(functions.name[name]));
    let code;
    if (!this.hasCode) code = hint("The page was written without code (--html-code 0).");
    else if (!this.listings) code = hint("Reading the code…");
    else if (!listing) code = hint(this.listings.left ?? "Its code is not in the page.");
    else {
      const marked = id === "functions" ? undefined : this.markedBy(id, table, row, listing, app.names);
      const executions = (at) => listing.count[at];
      if (listing.graph) numbers.append(" ", this.graphButton());
      if (listing.graph && this.showsGraph) code = graphOf(listing, executions);
      else {
        this.panel = new CodePanel(listing, this.listings.files, { executions, marked });
        code = this.panel.element;
      }
    }
    host.replaceChildren(title, facts, numbers, code);
    this.panel?.reveal();
  }

  /** Shows the function's graph, or its code again. */
  graphButton() {
    const button = make("button", { id: "graph", type: "button" }, this.showsGraph ? "Code" : "Graph");
    button.addEventListener("click", () => {
      this.showsGraph = !this.showsGraph;
      this.showDetails();
    });
    return button;
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

/** Everything that the page carries, but for code. */
async function loadCounts() {
  const head = await loadHead();
  if (!document.getElementById("data-threads")) return { head, threads: null };
  const threads = await inflatedJson("data-threads");
  const values = [];
  for (let m = 0; m < 2; m++) values.push(new Values(await inflated(`data-values-${m}`), threads.names.length));
  return { head, threads: new CountThreads(threads, values) };
}

start(loadCounts, CountsPage);
