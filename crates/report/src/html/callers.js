// Who was called by whom: trees with a function as root and its callers below.
//
// The whole of it may be much larger than the tree of contexts, so a node finds
// its callers when they are first asked for. A node is the contexts in which
// the root's function was counted by the path that the node stands for: `leaves`
// and, for each, the caller that was reached (`reached`).
//
// With a finite k, k callers are shown: more were not kept for every call. So
// it is the k-calling-context forest, with the same values.

class CallerTree {
  /** @param most callers that are shown, or null for all */
  constructor(view, most) {
    this.view = view;
    this.contexts = view.contexts;
    this.sum = view.sum;
    this.most = most ?? Infinity;
    this.deepest = Math.min(this.most, view.contexts.deepest);
    /** All of it may be more than there is memory for. */
    this.mostOpen = 100_000;
    this.nodes = [];
    /** For `grouped`: zero, but while it runs. */
    this.group = new Uint32Array(view.names.count);
    const functions = new FunctionTable(view);
    const { own } = functions.columns;
    const names = [...view.countedNames()].sort((a, b) => own[b] - own[a] || a - b);
    let start = 0;
    this.tops = names.map((name) => {
      const changed = view.base ? { totalBefore: functions.ownBefore(name), moved: functions.moved(name) } : {};
      const node = this.add({ name, parent: -1, depth: 0, start, total: own[name], ...changed });
      start += own[name];
      return node;
    });
  }

  add(node) {
    this.nodes.push(node);
    return this.nodes.length - 1;
  }

  roots() {
    return this.tops;
  }

  /** Whether its callers are found already. */
  isKnown(id) {
    return this.nodes[id].children !== undefined;
  }

  children(id) {
    const node = this.nodes[id];
    node.children ??= this.callers(id, node);
    return node.children;
  }

  callers(id, node) {
    this.fill(node);
    if (node.depth === this.most) return [];
    const groups = this.grouped(node);
    groups.sort((a, b) => b.total - a.total || a.name - b.name);
    let { start } = node;
    return groups.map((group) => {
      const child = this.add({ ...group, parent: id, depth: node.depth + 1, start });
      start += group.total;
      return child;
    });
  }

  /** The contexts of a node by their next caller, in pieces of two arrays. */
  grouped(node) {
    const { parent, name } = this.contexts;
    const { own, base } = this.view;
    const groups = [];
    const callers = node.reached.map((context) => parent[context] + 1);
    // By name: the number of its group, from 1; then how many are in it.
    for (const caller of callers) {
      if (caller === 0) continue;
      const n = name[caller - 1];
      if (this.group[n] === 0) {
        groups.push({ name: n, total: 0, totalBefore: 0, moved: 0, at: 0, count: 0 });
        this.group[n] = groups.length;
      }
      groups[this.group[n] - 1].count++;
    }
    let end = 0;
    for (const group of groups) {
      group.at = end;
      end += group.count;
    }
    const leaves = new Uint32Array(end);
    const reached = new Uint32Array(end);
    for (let i = 0; i < callers.length; i++) {
      if (callers[i] === 0) continue;
      const group = groups[this.group[name[callers[i] - 1]] - 1];
      leaves[group.at] = node.leaves[i];
      reached[group.at++] = callers[i] - 1;
      group.total += own[node.leaves[i]];
      if (!base) continue;
      group.totalBefore += base.own[node.leaves[i]];
      group.moved += this.view.weight(node.leaves[i]);
    }
    return groups.map(({ name, total, totalBefore, moved, at, count }) => {
      this.group[name] = 0;
      return { name, total, totalBefore, moved, leaves: leaves.subarray(at - count, at), reached: reached.subarray(at - count, at) };
    });
  }

  /** The contexts of a root. */
  fill(node) {
    if (node.leaves) return;
    node.leaves = this.view.contextsOf(node.name);
    node.reached = node.leaves;
  }

  hasChildren(id) {
    const node = this.nodes[id];
    if (node.depth === this.most) return false;
    this.fill(node);
    return node.reached.some((context) => this.contexts.parent[context] >= 0);
  }

  parent(id) {
    return this.nodes[id].parent;
  }

  depth(id) {
    return this.nodes[id].depth;
  }

  name(id) {
    return this.nodes[id].name;
  }

  own(id) {
    return this.nodes[id].total;
  }

  total(id) {
    return this.nodes[id].total;
  }

  ownBefore(id) {
    return this.nodes[id].totalBefore;
  }

  totalBefore(id) {
    return this.nodes[id].totalBefore;
  }

  moved(id) {
    return this.nodes[id].moved;
  }

  ownWeight(id) {
    return this.weight(id);
  }

  weight(id) {
    return this.view.base ? this.moved(id) : this.total(id);
  }

  start(id) {
    return this.nodes[id].start;
  }
}
