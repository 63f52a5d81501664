// What is looked at: some threads, one metric, functions of some modules.
//
// Because nodes are in preorder, the value of a subtree is the difference of
// two sums (`before`). All sums are at most the metric's total, so exact.

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
   */
  constructor(data, names, metric, threads, modules) {
    const { contexts } = data;
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
      if (this.own[i] > 0) this.counted++;
    }
    this.sum = this.before[contexts.count];
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
    this.columns = { own, contexts, total };
    return this.columns;
  }

  /** The contexts of a name that counted, in order. */
  contextsOf(name) {
    const { start, list } = this.contexts.byName(this.names.count);
    return list.subarray(start[name], start[name + 1]).filter((node) => this.own[node] > 0);
  }

  /** The same, largest value first. */
  hottestOf(name) {
    return this.contextsOf(name).sort((a, b) => this.own[b] - this.own[a] || a - b);
  }

  /** By whom and what: [name, value] of each caller, largest first. */
  callersOf(name) {
    const { parent, name: names } = this.contexts;
    const callers = new Map();
    for (const node of this.contextsOf(name)) {
      if (parent[node] >= 0) addTo(callers, names[parent[node]], this.own[node]);
    }
    return largestFirst(callers);
  }

  /** The same of what it called. */
  calleesOf(name) {
    const { end, name: names } = this.contexts;
    const { start, list } = this.contexts.byName(this.names.count);
    const callees = new Map();
    for (let at = start[name]; at < start[name + 1]; at++) {
      for (let i = list[at] + 1; i < end[list[at]]; i = end[i]) {
        if (this.own[i] > 0) addTo(callees, names[i], this.own[i]);
      }
    }
    return largestFirst(callees);
  }
}

function addTo(map, key, value) {
  map.set(key, (map.get(key) ?? 0) + value);
}

function largestFirst(map) {
  return [...map].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
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
    return this.contexts.roots().filter((node) => this.view.total(node) > 0);
  }

  /** Whether its children are found without work. */
  isKnown() {
    return true;
  }

  children(node) {
    return this.contexts.children(node).filter((child) => this.view.total(child) > 0);
  }

  hasChildren(node) {
    return this.view.total(node) > this.view.own[node];
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

  /** Where it begins if all values are laid side by side. */
  start(node) {
    return this.view.before[node];
  }
}
