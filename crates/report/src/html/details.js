// The pane beside the views: everything about the selected function, and about
// the context in which it was selected.

/** Entries of a list before "more". */
const FEW = 8;
/** Functions listed before one is selected. */
const HOTTEST = 30;
/** Last functions of a path that are always shown. */
const TAIL = 12;
/** Functions of a path that can be clicked. */
const LONGEST = 400;

class Details {
  constructor(app, host) {
    this.app = app;
    this.host = host;
    this.tab = "calls";
  }

  /** @param selected name, node of the call tree or -1, path of callers or null */
  show(selected) {
    this.selected = selected;
    this.panel = null;
    const isCode = selected !== null && this.tab === "code";
    this.host.classList.toggle("with-code", isCode);
    const parts = selected ? this.parts(selected) : this.nothing();
    this.host.replaceChildren(...parts);
    this.host.scrollTop = 0;
    this.panel?.reveal();
    const path = this.host.querySelector(".path");
    if (path) path.scrollTop = path.scrollHeight;
  }

  /** As long as nothing is selected: the hottest functions, whatever their contexts. */
  nothing() {
    const { view, noun } = this.app;
    const hint = make("p", { className: "hint" }, "Select a function to see where it is, who called it and in which contexts.");
    if (view.base) return [hint];
    const { own } = view.perName();
    const list = view.countedNames().map((name) => [name, own[name]]);
    list.sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    return [...this.functionList("hottest", `Functions by ${noun}s`, list, HOTTEST), hint];
  }

  parts({ name, node, callers }) {
    const { app } = this;
    const parts = [make("h2", {}, visible(app.names.text[name])), this.actions(name, node), ...this.tabs()];
    if (this.tab === "code") return [...parts, this.code(name)];
    parts.push(this.facts(name));
    if (node >= 0) parts.push(this.context(node));
    else if (callers) parts.push(this.callerPath(callers));
    parts.push(this.numbers(name));
    parts.push(...this.neighbours("Callers", app.view.callersOf(name)));
    parts.push(...this.neighbours("Callees", app.view.calleesOf(name)));
    parts.push(...this.contexts(name, node));
    return parts;
  }

  actions(name, node) {
    const { app } = this;
    const action = (text, title, act) => {
      const button = make("button", { title }, text);
      button.addEventListener("click", act);
      return button;
    };
    return make(
      "div",
      { className: "actions" },
      action("Tree", "Show it in the tree", () => app.showSelected("tree", false)),
      action("Callers", "Show its callers as a tree", () => app.showSelected("tree", true)),
      action("Flame graph", "Show it in the flame graph", () => app.showSelected("flame", false)),
      action("Search", "Find all contexts of this name", () => app.searchFor(app.names.text[name])),
    );
  }

  /** What is shown of the function: who calls whom, or its code, if the page has any. */
  tabs() {
    if (!this.app.hasCode) return [];
    const tab = (key, text, title) => {
      const button = make("button", { role: "tab", title, ariaSelected: String(this.tab === key) }, text);
      button.dataset.part = key;
      button.addEventListener("click", () => this.choose(key));
      return button;
    };
    return [
      make("div", { className: "group", id: "parts", role: "tablist" }, tab("calls", "Calls", "Numbers, callers, callees and contexts (c)"), tab("code", "Code", "Source and instructions (c)")),
    ];
  }

  choose(tab) {
    if (!this.app.hasCode) return;
    this.tab = tab;
    this.show(this.selected);
  }

  /** Source and instructions of the function; of a basic block, of the function that it is in. */
  code(name) {
    const { listings, names } = this.app;
    const hint = (text) => make("p", { className: "hint", id: "no-code" }, visible(text));
    if (!listings) return hint("Reading the code…");
    if (!names.isFunction(name)) return hint("It is no function and has no code.");
    const listing = listings.of(name);
    if (!listing) return hint(listings.left ?? "Its code is not in the page.");
    if (listing.problem) return hint(listing.problem);
    this.panel = new CodePanel(listing, listings.files, listing.block ? this.ofBlocks(listing, name) : {});
    return this.panel.element;
  }

  /** Instructions are executed as often as their block, in what is shown. */
  ofBlocks({ block }, name) {
    const { names, view } = this.app;
    const { own } = view.perName();
    return {
      executions: (at) => own[block[at]],
      titleOf: (at) => (block[at] === block[at - 1] ? null : names.text[block[at]]),
      marked: (at) => block[at] === name,
    };
  }

  facts(name) {
    const { names, data } = this.app;
    const list = make("dl");
    const fact = (term, text) => text && list.append(make("dt", {}, term), make("dd", {}, visible(text)));
    if (!names.isFunction(name)) {
      fact("What", aboutSpecial(names.text[name], data.head.k));
      return list;
    }
    const { functions } = names;
    const module = names.modules[names.module(name)];
    fact("Source", names.file(name) && names.file(name) + (names.line(name) ? `:${names.line(name)}${functions.column?.[name] ? `:${functions.column[name]}` : ""}` : ""));
    fact("Module", module?.path);
    fact("Offset", functions.offset[name] && `${functions.offset[name]} in the file`);
    const { processes } = data.head;
    const where = processes.length > 1 ? ` in process ${processes[functions.process[name]].pid}` : "";
    fact("Address", functions.address[name] && functions.address[name] + where);
    fact("Build id", module?.build_id);
    return list;
  }

  /** A line of value, share and what it is; of two recordings, of both values and the change. */
  number(value, before, what) {
    const { view } = this.app;
    if (!view.base) {
      return [make("tr", {}, make("td", {}, grouped(value)), make("td", {}, percent(value, view.sum)), make("td", {}, what))];
    }
    const change = value === before ? "" : `${signed(value - before)}  ${growth(before, value)}`;
    const colour = value > before ? "rose" : "fell";
    return [
      make("tr", { className: "what" }, make("td", { colSpan: 2 }, what)),
      make("tr", {}, make("td", {}, `${grouped(before)} → ${grouped(value)}`), make("td", { className: colour }, change)),
    ];
  }

  numbersTable(...lines) {
    return make("table", { className: this.app.view.base ? "numbers both" : "numbers" }, ...lines.flat());
  }

  /** The same of a list's entry: its share of the list; of two recordings, the change. */
  share(value, before, sum) {
    if (!this.app.view.base) return [grouped(value), percent(value, sum)];
    return [value === before ? "0" : signed(value - before), growth(before, value)];
  }

  numbers(name) {
    const { view, noun } = this.app;
    const { own, contexts, total } = view.perName();
    const before = view.base?.perName();
    const table = this.numbersTable(
      this.number(own[name], before?.own[name], `${noun}s, in ${counted(contexts[name], "context")}`),
      this.number(total[name], before?.total[name], "with everything below"),
    );
    return make("section", { id: "of-function" }, make("h3", {}, "Function"), table);
  }

  context(node) {
    const { view, noun, data } = this.app;
    const table = this.numbersTable(
      this.number(view.own[node], view.base?.own[node], `${noun}s here`),
      this.number(view.withCallees(node), view.base?.total(node), view.inclusive ? "with everything called" : "with everything below"),
    );
    const begun = this.begun(node);
    if (begun > 0) table.append(make("tr", {}, make("td", {}, grouped(begun)), make("td"), make("td", {}, "times begun")));
    const path = data.contexts.path(node).map((at) => [at, data.contexts.name[at]]);
    return make("section", { id: "of-context" }, make("h3", {}, "This context"), table, this.path(path));
  }

  /** How often a thread or a handler began there. */
  begun(node) {
    const { view, data } = this.app;
    let times = 0;
    for (const thread of view.threads) {
      for (const [at, value] of data.head.threads[thread].begun) if (at === node) times += value;
    }
    return times;
  }

  path(steps) {
    const { names } = this.app;
    const list = make("ol", { className: "path" });
    const left = Math.max(0, steps.length - LONGEST);
    if (left > 0) list.append(make("li", {}, `… ${grouped(left)} more`));
    for (const [node, name] of steps.slice(left)) {
      const button = make("button", {}, visible(names.text[name]));
      button.addEventListener("click", () => this.app.goTo(node));
      list.append(make("li", {}, button));
    }
    return list;
  }

  /** Of a node of the callers: outermost first, as a path of calls. */
  callerPath({ model, node }) {
    const { view, noun, names } = this.app;
    const steps = [];
    for (let at = node; at >= 0; at = model.parent(at)) steps.push(model.name(at));
    const what = `${noun}s of ${visible(names.text[steps.at(-1)])} by this path`;
    const table = this.numbersTable(this.number(model.total(node), view.base && model.totalBefore(node), what));
    const list = make("ol", { className: "path" });
    for (const name of steps) {
      const button = make("button", {}, visible(names.text[name]));
      button.addEventListener("click", () => this.app.selectName(name));
      list.append(make("li", {}, button));
    }
    return make("section", { id: "of-callers" }, make("h3", {}, "These callers"), table, list);
  }

  /** A table of callers or callees, by value. */
  neighbours(title, list) {
    return this.functionList(title.toLowerCase(), title, list, FEW);
  }

  /** A table of functions: [name, value, value before] of each; `first` of them before "more". */
  functionList(id, title, list, first) {
    if (list.length === 0) return [];
    const sum = list.reduce((all, [, value]) => all + value, 0);
    const table = make("table", { className: "neighbours" });
    const row = ([other, value, before]) => {
      const button = make("button", { title: visible(this.app.names.text[other]) }, visible(this.app.names.text[other]));
      button.addEventListener("click", () => this.app.selectName(other));
      const [amount, part] = this.share(value, before, sum);
      return make("tr", {}, make("td", {}, amount), make("td", {}, part), make("td", {}, button));
    };
    const section = make("section", { id }, make("h3", {}, title, make("small", {}, grouped(list.length))), table);
    this.inPieces(section, list.length, first, (at) => table.append(row(list[at])));
    return [section];
  }

  contexts(name, selected) {
    const { view } = this.app;
    const nodes = view.hottestOf(name);
    if (nodes.length === 0) return [];
    const list = make("ol", { className: "contexts" });
    const title = make("h3", {}, "Contexts", make("small", {}, grouped(nodes.length)));
    const section = make("section", { id: "contexts" }, title, list);
    this.inPieces(section, nodes.length, FEW, (at) => list.append(this.contextEntry(nodes[at], selected)));
    return [section];
  }

  contextEntry(node, selected) {
    const { view, data, names } = this.app;
    const { contexts } = data;
    const texts = contexts.path(node).map((at) => visible(names.text[contexts.name[at]]));
    const left = texts.slice(0, -TAIL);
    const path = make("p", { className: "steps" });
    if (left.length > 0) {
      const more = make("button", { className: "more" }, `… ${left.length} more`);
      more.addEventListener("click", () => more.replaceWith(left.join(" › ")));
      path.append(more, " › ");
    }
    path.append(texts.slice(-TAIL).join(" › "));
    const head = make("button", { className: "go", title: "Show this context in the tree" });
    const [amount, part] = this.share(view.own[node], view.base?.own[node], view.sum);
    head.append(make("b", {}, amount), ` ${part}`);
    head.addEventListener("click", () => this.app.goTo(node));
    return make("li", { className: node === selected ? "current" : "" }, head, path);
  }

  /** Adds entries up to a number, and a button for the next ones. */
  inPieces(section, count, first, add) {
    let at = 0;
    const button = make("button", { className: "more" });
    const piece = (size) => {
      for (const end = Math.min(count, at + size); at < end; at++) add(at);
      button.textContent = `${grouped(count - at)} more`;
      button.hidden = at === count;
    };
    button.addEventListener("click", () => piece(50));
    piece(first);
    section.append(button);
  }
}

/** What a name that is no function stands for. */
function aboutSpecial(text, k) {
  if (text.startsWith("…")) {
    return `Callers further out than k = ${k} were not kept: what they called begins here. --k-inf keeps whole paths.`;
  }
  if (text === "[thread]") return "The start of a thread; nothing calls it.";
  if (text === "__root__") return "Stands for all functions that were not selected.";
  if (text === "[truncated]") return "Calls beyond the limit of nodes (--max-nodes); their contexts were not kept.";
  if (text.startsWith("[signal ")) return "A signal's handler; its context begins anew.";
  if (!text.startsWith("[")) return "A program, with all its processes and threads.";
  return "No function.";
}
