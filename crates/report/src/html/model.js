// What is looked at: some threads, one metric, functions of some modules.
//
// Because nodes are in preorder, the value of a subtree is the difference of
// two sums (`before`). All sums are at most the metric's total, so exact.
//
// Of two recordings there are two views: that of the one after has that of the one
// before as its `base`. A context is shown if either counted something there.

/** Names and where they are. */
class Names {
  constructor(head) {
    this.text = head.names;
    this.functions = head.functions;
    this.modules = head.modules;
    this.files = head.files;
    this.count = head.names.length;
  }

  isFunction(name) {
    return name < this.functions.module.length;
  }

  /** Index of the module, or -1. */
  module(name) {
    return this.isFunction(name) ? this.functions.module[name] : -1;
  }

  moduleText(module) {
    return module < 0 ? "" : baseName(this.modules[module].path);
  }

  file(name) {
    const file = this.isFunction(name) ? this.functions.file[name] : -1;
    return file < 0 ? "" : this.files[file];
  }

  line(name) {
    return this.isFunction(name) ? this.functions.line[name] : 0;
  }

  /** File and line as short text. */
  place(name) {
    const file = baseName(this.file(name));
    const line = this.line(name);
    return file && line ? `${file}:${line}` : file;
  }

  lower(name) {
    this.lowered ??= this.text.map((text) => text.toLowerCase());
    return this.lowered[name];
  }
}

/** The values of the contexts that are looked at. */
class View {
  /**
   * @param threads indices of the threads whose values are added up
   * @param modules the modules whose functions count, or null for everything
   * @param base the view that this one is compared with, or null
   */
  constructor(data, names, metric, threads, modules, base = null) {
    const { contexts } = data;
    this.base = base;
    this.contexts = contexts;
    this.names = names;
    this.threads = threads;
    this.metric = metric;
    this.own = new Float64Array(contexts.count);
    for (const thread of threads) data.values[metric].add(thread, this.own);
    if (modules) this.keep((name) => modules.has(names.module(name)));
    /** Sum of the values of all nodes before; one more entry than nodes. */
    this.before = new Float64Array(contexts.count + 1);
    this.counted = 0;
    for (let i = 0; i < contexts.count; i++) {
      this.before[i + 1] = this.before[i] + this.own[i];
      if (this.isCounted(i)) this.counted++;
    }
    this.sum = this.before[contexts.count];
    // What is known of whole contexts is of all modules together.
    this.inclusive = data.inclusive && !modules ? this.wholeOf(data) : null;
    if (base) this.changes = new Changes(this);
  }

  /** What nodes and functions cost with all that they called, also where that hangs in other trees. */
  wholeOf({ inclusive, contexts }) {
    const nodes = new Float64Array(contexts.count);
    const functions = new Float64Array(this.names.count);
    for (const thread of this.threads) {
      inclusive.nodes[this.metric].add(thread, nodes);
      inclusive.functions[this.metric].add(thread, functions);
    }
    return { nodes, functions };
  }

  /** Of the node and everything called from there; as far as the tree has it, if no more is known. */
  withCallees(node) {
    return this.inclusive?.nodes[node] || this.total(node);
  }

  /** Whether something was counted in a context itself. */
  isCounted(node) {
    return this.own[node] > 0 || (this.base !== null && this.base.own[node] > 0);
  }

  /** Whether something was counted at a context or below it. */
  isShown(node) {
    return this.total(node) > 0 || (this.base !== null && this.base.total(node) > 0);
  }

  get isEmpty() {
    return this.sum === 0 && (this.base === null || this.base.sum === 0);
  }

  /** How much a context matters by itself: its value, or how much that changed. */
  weight(node) {
    return this.changes ? Math.abs(this.changes.own(node)) : this.own[node];
  }

  keep(wanted) {
    const { name, count } = this.contexts;
    const kept = Uint8Array.from({ length: this.names.count }, (_, n) => (wanted(n) ? 1 : 0));
    for (let i = 0; i < count; i++) if (!kept[name[i]]) this.own[i] = 0;
  }

  /** Of the node and everything below it. */
  total(node) {
    return this.before[this.contexts.end[node]] - this.before[node];
  }

  /** Per name: its value, in how many contexts, and with everything below it. */
  perName() {
    if (this.columns) return this.columns;
    const { name, depth, count } = this.contexts;
    const own = new Float64Array(this.names.count);
    const contexts = new Uint32Array(this.names.count);
    const total = new Float64Array(this.names.count);
    // How often a name is on the path: below itself nothing is added twice.
    const open = new Uint32Array(this.names.count);
    const path = [];
    for (let i = 0; i < count; i++) {
      while (path.length > depth[i]) open[path.pop()]--;
      const n = name[i];
      if (open[n]++ === 0) total[n] += this.total(i);
      path.push(n);
      if (this.own[i] > 0) {
        own[n] += this.own[i];
        contexts[n]++;
      }
    }
    const whole = this.inclusive?.functions;
    for (let n = 0; whole && n < total.length; n++) total[n] = whole[n] || total[n];
    this.columns = { own, contexts, total };
    return this.columns;
  }

  /** Whether something was counted in any context of a name. */
  isNameCounted(name) {
    return this.perName().own[name] > 0 || (this.base !== null && this.base.isNameCounted(name));
  }

  /** Whether something was counted at or below any context of a name. */
  isNameShown(name) {
    return this.perName().total[name] > 0 || (this.base !== null && this.base.isNameShown(name));
  }

  /** The names of which something was counted. */
  countedNames() {
    this.listed ??= Array.from({ length: this.names.count }, (_, name) => name).filter((name) => this.isNameCounted(name));
    return this.listed;
  }

  /** The contexts of a name that counted, in order. */
  contextsOf(name) {
    const { start, list } = this.contexts.byName(this.names.count);
    return list.subarray(start[name], start[name + 1]).filter((node) => this.isCounted(node));
  }

  /** The same, those that matter most first. */
  hottestOf(name) {
    return this.contextsOf(name).sort((a, b) => this.weight(b) - this.weight(a) || a - b);
  }

  /** By whom and what: [name, value, value before] of each caller. */
  callersOf(name) {
    const { parent, name: names } = this.contexts;
    const callers = new Sums(this);
    for (const node of this.contextsOf(name)) {
      if (parent[node] >= 0) callers.add(names[parent[node]], node);
    }
    return callers.list();
  }

  /** The same of what it called. */
  calleesOf(name) {
    const { end, name: names } = this.contexts;
    const { start, list } = this.contexts.byName(this.names.count);
    const callees = new Sums(this);
    for (let at = start[name]; at < start[name + 1]; at++) {
      for (let i = list[at] + 1; i < end[list[at]]; i = end[i]) {
        if (this.isCounted(i)) callees.add(names[i], i);
      }
    }
    return callees.list();
  }
}

/** Values of contexts, added up by name. */
class Sums {
  constructor(view) {
    this.view = view;
    this.sums = new Map();
  }

  add(name, node) {
    const { own, base } = this.view;
    const sum = this.sums.get(name) ?? [name, 0, 0];
    sum[1] += own[node];
    sum[2] += base ? base.own[node] : 0;
    this.sums.set(name, sum);
  }

  /** Largest value, or largest change, first. */
  list() {
    const weight = this.view.base ? ([, value, before]) => Math.abs(value - before) : ([, value]) => value;
    return [...this.sums.values()].sort((a, b) => weight(b) - weight(a) || a[0] - b[0]);
  }
}

/**
 * Who called whom, from the roots, as a tree to be shown: nodes with nothing
 * counted at or below them are left out.
 */
class CallTree {
  constructor(view) {
    this.view = view;
    this.contexts = view.contexts;
    this.sum = view.sum;
    this.deepest = view.contexts.deepest;
    /** Nodes that are opened at once. */
    this.mostOpen = Infinity;
  }

  roots() {
    return this.contexts.roots().filter((node) => this.view.isShown(node));
  }

  /** Whether its children are found without work. */
  isKnown() {
    return true;
  }

  children(node) {
    return this.contexts.children(node).filter((child) => this.view.isShown(child));
  }

  hasChildren(node) {
    const { view } = this;
    const has = ({ own, before }) => before[view.contexts.end[node]] > before[node] + own[node];
    return has(view) || (view.base !== null && has(view.base));
  }

  parent(node) {
    return this.contexts.parent[node];
  }

  depth(node) {
    return this.contexts.depth[node];
  }

  name(node) {
    return this.contexts.name[node];
  }

  own(node) {
    return this.view.own[node];
  }

  total(node) {
    return this.view.total(node);
  }

  withCallees(node) {
    return this.view.withCallees(node);
  }

  ownBefore(node) {
    return this.view.base.own[node];
  }

  totalBefore(node) {
    return this.view.base.total(node);
  }

  /** How much changed at a node and below it, whichever way. */
  moved(node) {
    return this.view.changes.moved(node);
  }

  /** How much of what matters is in the node itself, and with everything below it. */
  ownWeight(node) {
    return this.view.weight(node);
  }

  weight(node) {
    return this.view.base ? this.moved(node) : this.total(node);
  }

  /** Where it begins if all values are laid side by side. */
  start(node) {
    return this.view.before[node];
  }
}
