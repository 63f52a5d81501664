// The head of the page and its bar: what ran, and what of it is shown.

class Controls {
  constructor(app) {
    this.app = app;
    const get = (id) => document.getElementById(id);
    this.tabs = [...get("tabs").children];
    this.directions = [...get("directions").children];
    this.metrics = get("metrics");
    this.threads = get("threads");
    this.modules = get("modules");
    this.shown = get("shown");
    this.query = get("query");
    this.found = get("found");
    if (app.what !== "function") get("tabs").querySelector("[data-tab=functions]").textContent = "Basic blocks";
    this.fillHead(get);
    this.fillThreads();
    this.fillMetrics();
    this.fillModules();
    this.listen(get);
    splitter(get("splitter"), get("details"));
  }

  fillHead(get) {
    const { head } = this.app.data;
    get("command").textContent = visible(head.command);
    get("command").title = visible(head.command);
    if (head.comparison) {
      this.fillComparison(get, head.comparison);
      return;
    }
    const time = timeOf(head.started_unix_ms);
    const totals = make("span", { id: "totals" }, head.totals);
    get("about").append(head.end, " · ", time, " · ", totals);
    for (const [name, value] of head.options) get("about").append(" · ", make("code", {}, visible(`--${name} ${value}`)));
    const notes = [...head.notes];
    if (head.k === 0) {
      notes.unshift("k = 0: everything is counted without its callers");
    } else if (head.k !== null) {
      notes.unshift(`k = ${head.k}: a context is kept with ${counted(head.k, "caller")}; what was called from further in begins anew below “…”, and what is “with everything below” ends there (--k-inf keeps whole paths)`);
    }
    notes.push(`recorded by ${head.producer}`);
    fillNotes(get("notes"), notes);
  }

  /** Of two recordings: how each was made, and what changed in all. */
  fillComparison(get, { before, after }) {
    const { metrics, notes, k } = this.app.data.head;
    const totals = make("span", { id: "totals" });
    metrics.forEach((metric, at) => {
      const change = `${signed(metric.total - metric.before)}, ${growth(metric.before, metric.total)}`;
      totals.append(`${at > 0 ? " · " : ""}${grouped(metric.before)} → ${counted(metric.total, metric.noun)} (${change})`);
    });
    get("about").append(totals);
    const about = (word, { file, command, end, started_unix_ms: started, producer }) =>
      make("li", {}, `${word}: ${visible(file)} · `, make("code", {}, visible(command)), ` · ${end} · `, timeOf(started), ` · recorded by ${visible(producer)}`);
    const all = [...notes];
    if (k) all.push(`k = ${k}: what was called from further in begins anew below “…”, and what is “with everything below” ends there`);
    fillNotes(get("notes"), all);
    get("notes").querySelector("ul").prepend(about("before", before), about("after", after));
    get("notes").querySelector("summary").textContent = "Both recordings";
  }

  /** All, each process, and each thread of a process that has several. */
  fillThreads() {
    const { head, values } = this.app.data;
    this.threads.replaceChildren();
    this.threads.hidden = this.app.isComparison;
    if (this.app.isComparison) return;
    const option = (value, text) => this.threads.append(new Option(visible(text), value));
    const all = head.threads.map((_, thread) => thread);
    const ofProcess = new Map();
    for (const thread of all) listIn(ofProcess, head.threads[thread].process).push(thread);
    this.groups = { all };
    option("all", `All: ${counted(head.processes.length, "process")}, ${counted(all.length, "thread")}`);
    const amount = (threads) => {
      const sum = threads.reduce((sum, thread) => sum + values[this.app.metric].sums[thread], 0);
      return counted(sum, this.app.noun);
    };
    const add = (value, threads, text) => {
      this.groups[value] = threads;
      option(value, `${text} (${amount(threads)})`);
    };
    head.processes.forEach(({ pid, command }, process) => {
      const threads = ofProcess.get(process) ?? [];
      if (threads.length === 0) return;
      if (head.processes.length > 1) add(`p${process}`, threads, `${pid}: ${shortened(command)}`);
      if (threads.length === 1) return;
      for (const thread of threads) add(`t${thread}`, [thread], `\u2003thread ${head.threads[thread].tid}`);
    });
    this.threads.hidden = this.threads.length <= 2;
  }

  fillMetrics() {
    const { metrics } = this.app.data.head;
    metrics.forEach(({ noun }, metric) => this.metrics.append(new Option(`${noun}s`, metric)));
    this.metrics.value = String(this.app.metric);
    this.metrics.hidden = metrics.length < 2;
  }

  /** Another metric is chosen: everything with its values is made anew. */
  refill() {
    const chosen = this.threads.value;
    this.fillThreads();
    this.threads.value = chosen;
    this.fillModules();
  }

  fillModules() {
    const { names, moduleSums, colours } = this.app;
    const order = [...moduleSums.keys()].filter((module) => moduleSums[module] > 0);
    order.sort((a, b) => moduleSums[b] - moduleSums[a] || a - b);
    const menu = this.modules.querySelector(".menu");
    menu.replaceChildren();
    const all = make("button", { id: "all-modules" }, "All modules");
    all.addEventListener("click", () => {
      for (const box of menu.querySelectorAll("input")) box.checked = false;
      this.choose();
    });
    menu.append(all);
    for (const module of order) {
      const box = make("input", { type: "checkbox", value: String(module) });
      const text = make("span", { title: visible(names.modules[module].path) }, visible(names.moduleText(module)));
      const dot = make("span");
      colours.dot(dot, module);
      menu.append(make("label", {}, box, dot, text, make("span", { className: "number" }, grouped(moduleSums[module]))));
      box.addEventListener("change", () => this.choose());
    }
    this.sayModules([]);
  }

  choose() {
    const boxes = [...this.modules.querySelectorAll("input:checked")];
    const chosen = boxes.map((box) => Number(box.value));
    this.sayModules(chosen);
    this.app.setModules(chosen.length > 0 ? new Set(chosen) : null);
  }

  sayModules(chosen) {
    const { names } = this.app;
    const text = chosen.length === 1 ? visible(names.moduleText(chosen[0])) : counted(chosen.length, "module");
    const summary = this.modules.querySelector("summary");
    summary.textContent = chosen.length === 0 ? "All modules" : text;
    summary.classList.toggle("active", chosen.length > 0);
  }

  listen(get) {
    const { app } = this;
    for (const tab of this.tabs) tab.addEventListener("click", () => app.show(tab.dataset.tab));
    for (const direction of this.directions) {
      direction.addEventListener("click", () => app.invert(direction.dataset.inverted !== ""));
    }
    this.threads.addEventListener("change", () => app.setThreads(this.groups[this.threads.value]));
    this.metrics.addEventListener("change", () => {
      app.setMetric(Number(this.metrics.value));
      this.refill();
    });
    this.query.addEventListener("input", () => app.setQuery(this.query.value));
    this.query.addEventListener("keydown", (event) => {
      if (event.key === "Enter") app.nextMatch(!event.shiftKey);
      else if (event.key === "Escape") this.leaveSearch();
      else if (event.key === "ArrowDown") app.focus();
      else return;
      event.preventDefault();
    });
    get("next").addEventListener("click", () => app.nextMatch(true));
    get("previous").addEventListener("click", () => app.nextMatch(false));
    get("help").append(...helpText());
    get("help").addEventListener("click", () => get("help").close());
    get("help-button").addEventListener("click", () => get("help").showModal());
    document.addEventListener("keydown", (event) => this.key(event, get));
    // Menus close when something else is clicked.
    document.addEventListener("pointerdown", (event) => this.closeMenus(event.target));
  }

  /** Closes menus that do not hold an element; whether there was one. */
  closeMenus(element) {
    const open = [...document.querySelectorAll("details[open]")].filter((menu) => !menu.contains(element));
    for (const menu of open) menu.open = false;
    return open.length > 0;
  }

  leaveSearch() {
    if (this.query.value) {
      this.query.value = "";
      this.app.setQuery("");
    } else {
      this.app.focus();
    }
  }

  key(event, get) {
    const isTyping = event.target.closest?.("input[type=search], select, dialog");
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    const { app } = this;
    // Nothing has the focus, as after a click beside everything.
    if (event.target === document.body) app.shownView.key(event);
    if (event.defaultPrevented) return;
    const act = {
      "/": () => this.query.select(),
      n: () => app.nextMatch(true),
      p: () => app.nextMatch(false),
      i: () => app.invert(!app.inverted),
      1: () => app.show("tree"),
      2: () => app.show("flame"),
      3: () => app.show("functions"),
      c: () => app.details.choose(app.details.tab === "code" ? "calls" : "code"),
      "?": () => get("help").showModal(),
      Escape: () => this.closeMenus(document.body) || this.leaveSearch(),
    }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  /** Brings the bar up to date. */
  update() {
    const { app } = this;
    for (const tab of this.tabs) tab.ariaSelected = String(tab.dataset.tab === app.tab);
    for (const direction of this.directions) {
      direction.ariaChecked = String((direction.dataset.inverted !== "") === app.inverted);
      direction.disabled = app.tab === "functions";
    }
    const { view, noun } = app;
    const whole = app.data.head.metrics[app.metric].total;
    const functions = view.countedNames().length;
    const contexts = counted(view.counted, view.threads.length > 1 || view.base ? "distinct context" : "context");
    this.shown.hidden = app.isWhole;
    this.shown.textContent = `${grouped(view.sum)} of ${counted(whole, noun)}, ${contexts}, ${counted(functions, app.what)}`;
    this.shown.title = this.shown.textContent;
  }

  say(found, title) {
    this.found.textContent = found;
    this.found.title = title;
  }
}

function shortened(text) {
  return text.length > 70 ? `${text.slice(0, 69)}…` : text;
}

function helpText() {
  const keys = [
    ["/", "search; Enter and Shift+Enter go from match to match"],
    ["n  p", "next and previous match"],
    ["↑ ↓ ← →", "move, open and close; in the flame graph, to parent, child and siblings"],
    ["Enter", "open or close; in the flame graph, zoom; in the table, show in the tree"],
    ["h", "expand the hottest path from the selected row"],
    ["*  -", "expand and collapse everything below the selected row"],
    ["1 2 3", "tree, flame graph, functions"],
    ["i", "callees or callers"],
    ["c", "calls or code of the selected function"],
    ["Esc", "clear the search; in the flame graph, show all"],
    ["Ctrl + wheel, Shift + wheel, drag", "zoom and move the flame graph"],
  ];
  const table = make("table");
  for (const [key, what] of keys) table.append(make("tr", {}, make("td", {}, make("kbd", {}, key)), make("td", {}, what)));
  const close = make("button", {}, "Close");
  return [make("h2", {}, "Keys"), table, close];
}
