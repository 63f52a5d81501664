// The page as a whole: what is shown, what is selected, and who is told.

/** The lists of values of two recordings. */
const BEFORE = 0;
const AFTER = 1;

class App {
  constructor(data) {
    this.data = data;
    this.names = new Names(data.head);
    /** Of two recordings: what the columns of values have as threads is before and after. */
    this.isComparison = data.head.comparison !== undefined;
    this.metric = data.head.metric;
    this.threads = this.isComparison ? [AFTER] : data.head.threads.map((_, thread) => thread);
    this.modules = null;
    this.tab = "tree";
    this.inverted = false;
    this.selected = null;
    this.hasCode = document.getElementById("data-code") !== null;
    this.listings = null;
    this.search = new Search(this);
    const section = (id) => document.getElementById(id);
    this.makeView();
    this.moduleSums = this.sumModules();
    this.colours = new Colours(this.moduleSums);
    this.treeView = new TreeView(this, section("tree"));
    this.flameView = new FlameView(this, section("flame"));
    this.functionsView = new FunctionsView(this, section("functions"), this.isComparison ? FUNCTION_CHANGES : FUNCTION_VALUES);
    this.details = new Details(this, section("details"));
    this.controls = new Controls(this);
    this.search.update();
    this.showModels(false);
    this.treeView.unfold(this.treeView.hottestPath(-1));
    this.details.show(null);
    this.focus();
  }

  /** What has contexts. */
  get what() {
    return this.data.head.metrics[0].noun === "execution" ? "basic block" : "function";
  }

  /** One of what is counted. */
  get noun() {
    return this.data.head.metrics[this.metric].noun;
  }

  /** What was counted in each module by all threads. */
  sumModules() {
    const sums = new Array(this.names.modules.length).fill(0);
    const all = this.data.head.threads.map((_, thread) => thread);
    const view = this.isWhole && !this.isComparison ? this.view : new View(this.data, this.names, this.metric, all, null);
    view.perName().own.forEach((own, name) => {
      const module = this.names.module(name);
      if (module >= 0) sums[module] += own;
    });
    return sums;
  }

  // What is looked at.

  makeView() {
    const { data, names, metric, threads, modules } = this;
    const base = this.isComparison ? new View(data, names, metric, [BEFORE], modules) : null;
    this.view = new View(data, names, metric, threads, modules, base);
    this.callTree = new CallTree(this.view);
    this.lazyCallers = undefined;
  }

  get callerTree() {
    this.lazyCallers ??= new CallerTree(this.view, this.data.head.k);
    return this.lazyCallers;
  }

  get model() {
    return this.inverted ? this.callerTree : this.callTree;
  }

  /** Whether nothing is left out. */
  get isWhole() {
    return !this.modules && (this.isComparison || this.threads.length === this.data.head.threads.length);
  }

  setThreads(threads) {
    this.threads = threads;
    this.changeView();
  }

  setModules(modules) {
    this.modules = modules;
    this.changeView();
  }

  setMetric(metric) {
    this.metric = metric;
    this.modules = null;
    this.changeView();
    this.moduleSums = this.sumModules();
  }

  changeView() {
    this.makeView();
    this.search.update();
    this.showModels(!this.inverted);
    if (this.selected && !this.view.isNameShown(this.selected.name)) this.selected = null;
    if (this.selected?.callers) this.selected.callers = null;
    this.details.show(this.selected);
    this.carrySelection();
    this.sayFound();
  }

  /** Gives the views what they show; `keeps`: the nodes are those of before. */
  showModels(keeps) {
    const { noun } = this;
    const title = noun[0].toUpperCase() + noun.slice(1) + "s";
    const what = this.what[0].toUpperCase() + this.what.slice(1);
    const texts = { name: this.inverted ? `${what}, callers below` : "Context", module: "Module", place: "Source" };
    const { treeView, functionsView } = this;
    nameHeads(treeView.header, [...treeView.columns, ...TEXT_COLUMNS], title, texts);
    nameHeads(functionsView.header, [...functionsView.columns, ...TEXT_COLUMNS], title, { ...texts, name: what });
    const { total, before = 0 } = this.data.head.metrics[this.metric];
    const digits = grouped(Math.max(total, before)).length;
    document.documentElement.style.setProperty("--digits", Math.max(digits, 8));
    const { classList } = document.getElementById("views");
    classList.toggle("inverted", this.inverted);
    classList.toggle("comparison", this.isComparison);
    this.treeView.setModel(this.model, keeps);
    this.flameView.setModel(this.model, keeps);
    this.functionsView.setTable(new FunctionTable(this.view));
    this.update();
  }

  /** Shows the tab that is chosen. */
  update() {
    for (const section of document.querySelectorAll("#views > section")) section.hidden = section.id !== this.tab;
    document.getElementById("empty").hidden = !this.view.isEmpty;
    this.controls.update();
    this.sayFound();
  }

  show(tab) {
    this.tab = tab;
    this.update();
    this.carrySelection();
    this.focus();
  }

  /** What is selected in the table, in the tree. */
  open() {
    this.show("tree");
  }

  invert(inverted) {
    if (this.tab === "functions" || inverted === this.inverted) return;
    this.inverted = inverted;
    this.showModels(false);
    this.carrySelection();
    this.focus();
  }

  showSelected(tab, inverted) {
    this.tab = tab;
    if (inverted !== this.inverted) {
      this.inverted = inverted;
      this.showModels(false);
    }
    this.show(tab);
  }

  /** That of the tab that is chosen. */
  get shownView() {
    const { treeView, flameView, functionsView } = this;
    return { tree: treeView, flame: flameView, functions: functionsView }[this.tab];
  }

  focus() {
    this.shownView.scroller.focus({ preventScroll: true });
  }

  // What is selected.

  /** A view says that a node of its model was selected. */
  select(model, node) {
    const name = model.name(node);
    const isCallTree = model === this.callTree;
    this.selected = { name, node: isCallTree ? node : -1, callers: isCallTree ? null : { model, node } };
    this.details.show(this.selected);
    this.sayFound();
  }

  /** A function, in whichever context. */
  selectName(name) {
    this.selected = { name, node: -1, callers: null };
    this.details.show(this.selected);
    this.carrySelection();
    this.sayFound();
  }

  /** A context: goes to it in the view, or in the tree. */
  goTo(node) {
    this.selected = { name: this.view.contexts.name[node], node, callers: null };
    this.details.show(this.selected);
    this.showSelected(this.tab === "functions" ? "tree" : this.tab, false);
  }

  /** Shows in the view what is selected; without a context, the function's hottest. */
  carrySelection() {
    if (!this.selected) return;
    const { name, callers } = this.selected;
    if (this.tab === "functions") {
      this.functionsView.reveal(name);
      return;
    }
    const view = this.tab === "tree" ? this.treeView : this.flameView;
    let node;
    if (this.inverted) {
      node = callers?.model === this.callerTree ? callers.node : this.callerTree.tops.find((top) => this.callerTree.name(top) === name);
    } else {
      node = this.selected.node;
      if (node < 0 || !this.view.isShown(node)) node = this.hottest(name);
    }
    if (node !== undefined) view.reveal(node);
  }

  /** The context of a function with most counted in it, or below it. */
  hottest(name) {
    const [own] = this.view.hottestOf(name);
    if (own !== undefined) return own;
    const { start, list } = this.view.contexts.byName(this.names.count);
    let hottest;
    for (const node of list.subarray(start[name], start[name + 1])) {
      const weight = this.callTree.weight(node);
      if (this.view.isShown(node) && (hottest === undefined || weight > this.callTree.weight(hottest))) hottest = node;
    }
    return hottest;
  }

  /** The code has been read, behind everything else. */
  setListings(listings) {
    this.listings = listings;
    if (this.details.tab === "code") this.details.show(this.selected);
  }

  // What is searched for.

  searchFor(text) {
    this.controls.query.value = text;
    this.setQuery(text);
  }

  setQuery(text) {
    this.search.setQuery(text);
    this.treeView.list.draw();
    this.flameView.drawSoon();
    this.functionsView.update();
    this.sayFound();
  }

  /** Children in the order of the tree, in the flame graph the widest first; of -1 the roots. */
  get siblings() {
    if (this.tab === "tree") return (node) => this.treeView.children(node);
    const { callTree } = this;
    const largestFirst = (a, b) => callTree.weight(b) - callTree.weight(a) || a - b;
    return (node) => (node < 0 ? callTree.roots() : callTree.children(node)).sort(largestFirst);
  }

  /** What the view shows and matches, where that is a list: rows of functions, or callers. */
  get matchingRows() {
    if (this.tab === "functions") return this.functionsView.rows;
    if (!this.inverted) return undefined;
    const tops = this.tab === "tree" ? this.treeView.children(-1) : this.callerTree.roots();
    return tops.filter((top) => this.search.matches(this.callerTree.name(top)));
  }

  nextMatch(isForward) {
    if (!this.search.query) return;
    const rows = this.matchingRows;
    if (!rows) {
      const node = this.search.next(this.current(), this.siblings, isForward);
      if (node < 0) return;
      this.select(this.callTree, node);
      (this.tab === "tree" ? this.treeView : this.flameView).reveal(node);
      this.sayFound();
    } else if (rows.length > 0) {
      const at = rows.indexOf(this.current());
      const next = at < 0 ? (isForward ? 0 : rows.length - 1) : (at + (isForward ? 1 : -1) + rows.length) % rows.length;
      if (this.tab === "functions") {
        this.functionsView.select(next);
      } else {
        this.select(this.callerTree, rows[next]);
        this.carrySelection();
      }
    }
  }

  /** What is selected, as the view names it. */
  current() {
    if (!this.selected) return -1;
    if (this.tab === "functions") return this.selected.name;
    return this.inverted ? (this.selected.callers?.node ?? -1) : this.selected.node;
  }

  sayFound() {
    const { search, view, controls } = this;
    if (!search.query) {
      controls.say("", "");
      return;
    }
    const rows = this.matchingRows;
    const current = this.current();
    const all = rows ? rows.length : search.contexts;
    let place = 0;
    if (rows) place = rows.indexOf(current) + 1;
    else if (current >= 0 && search.isMatch(current)) place = search.place(current, this.siblings);
    const share = percent(search.covered, view.sum);
    controls.say(
      all === 0 ? "no match" : `${place ? `${grouped(place)} of ` : ""}${grouped(all)} · ${share}`,
      `${counted(search.contexts, "context")} of ${counted(search.functions.length, "function")}; ${counted(search.covered, this.noun)} in them and below`,
    );
  }

  // Beside the pointer.

  /** @param event where; null: nothing */
  tip(event, parts = []) {
    const tip = document.getElementById("tip");
    tip.hidden = event === null;
    if (tip.hidden) return;
    tip.replaceChildren(...parts);
    const { width, height } = tip.getBoundingClientRect();
    const x = event.clientX + 14 + width > innerWidth ? event.clientX - width - 8 : event.clientX + 14;
    const y = event.clientY + 18 + height > innerHeight ? event.clientY - height - 8 : event.clientY + 18;
    tip.style.transform = `translate(${Math.max(4, x)}px, ${Math.max(4, y)}px)`;
  }
}

start(load, App);
