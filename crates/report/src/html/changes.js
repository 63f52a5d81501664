// What changed between two recordings, and the values of functions in rows.

/** Of a view with a base. */
class Changes {
  constructor(view) {
    this.view = view;
    const { own, base, contexts } = view;
    /** Sums of the sizes of the changes of all nodes before, for shares. */
    this.before = new Float64Array(contexts.count + 1);
    /** The largest change of a context itself. */
    this.largest = 0;
    for (let i = 0; i < contexts.count; i++) {
      const size = Math.abs(own[i] - base.own[i]);
      this.before[i + 1] = this.before[i] + size;
      if (size > this.largest) this.largest = size;
    }
    this.sum = this.before[contexts.count];
  }

  /** Of a context itself. */
  own(node) {
    return this.view.own[node] - this.view.base.own[node];
  }

  /** How much changed at a node and below it: more in one place and less in another do not cancel out. */
  moved(node) {
    return this.before[this.view.contexts.end[node]] - this.before[node];
  }

  /** The same of all contexts of each name, themselves. */
  movedByName() {
    if (this.byName) return this.byName;
    this.byName = new Float64Array(this.view.names.count);
    const { name, count } = this.view.contexts;
    for (let i = 0; i < count; i++) this.byName[name[i]] += Math.abs(this.own(i));
    return this.byName;
  }
}

/** The values of each function, as rows have them. */
class FunctionTable {
  constructor(view) {
    this.view = view;
    this.sum = view.sum;
    this.columns = view.perName();
  }

  rows() {
    return this.view.countedNames();
  }

  own(name) {
    return this.columns.own[name];
  }

  total(name) {
    return this.columns.total[name];
  }

  contexts(name) {
    return this.columns.contexts[name];
  }

  ownBefore(name) {
    return this.view.base.perName().own[name];
  }

  totalBefore(name) {
    return this.view.base.perName().total[name];
  }

  moved(name) {
    return this.view.changes.movedByName()[name];
  }

  weight(name) {
    return this.view.base ? this.moved(name) : this.own(name);
  }
}
