// What is searched for, and the way from match to match.
//
// A match is a name that contains the query, in any case of letters. In the
// tree and the flame graph matches are the contexts of such names that have
// something counted at or below them, in the order in which they are shown; of
// callers, and in the table, they are the functions.

class Search {
  constructor(app) {
    this.app = app;
    this.query = "";
  }

  setQuery(text) {
    this.query = text.trim().toLowerCase();
    this.update();
  }

  /** Finds the matches anew: the query or the view has changed. */
  update() {
    const { names, view } = this.app;
    this.hits = new Uint8Array(names.count);
    this.before = undefined;
    if (!this.query) return;
    for (let name = 0; name < names.count; name++) {
      if (visible(names.lower(name)).includes(this.query)) this.hits[name] = 1;
    }
    this.count(view);
  }

  matches(name) {
    return this.hits[name] === 1;
  }

  /** Per node how many matches are before it; and what they cover. */
  count(view) {
    const { contexts } = view;
    this.before = new Uint32Array(contexts.count + 1);
    this.covered = 0;
    let inside = 0;
    for (let i = 0; i < contexts.count; i++) {
      const isMatch = this.hits[contexts.name[i]] === 1 && view.isShown(i);
      this.before[i + 1] = this.before[i] + (isMatch ? 1 : 0);
      if (isMatch && i >= inside) {
        this.covered += view.total(i);
        inside = contexts.end[i];
      }
    }
    this.contexts = this.before[contexts.count];
    this.functions = view.countedNames().filter((name) => this.matches(name));
  }

  /** Where the query is in a text: [from, to] of each. */
  spans(text) {
    const spans = [];
    const lower = text.toLowerCase();
    if (!this.query || lower.length !== text.length) return spans;
    for (let at = lower.indexOf(this.query); at >= 0; at = lower.indexOf(this.query, at + this.query.length)) {
      spans.push([at, at + this.query.length]);
    }
    return spans;
  }

  /** Matches in the subtree of a node. */
  within(node) {
    return this.before[this.app.view.contexts.end[node]] - this.before[node];
  }

  /**
   * The match after a node of the call tree, or before it: round the end.
   * @param children of a node in the order of the display; of -1 the roots
   */
  next(node, children, isForward) {
    if (!this.contexts) return -1;
    const found = node < 0 ? -1 : isForward ? this.after(node, children) : this.preceding(node, children);
    if (found >= 0) return found;
    return isForward ? this.firstIn(-1, children) : this.lastIn(-1, children);
  }

  after(node, children) {
    if (this.within(node) > (this.isMatch(node) ? 1 : 0)) return this.firstIn(node, children);
    const { parent } = this.app.view.contexts;
    for (let at = node; at >= 0; at = parent[at]) {
      const siblings = children(parent[at]);
      const next = siblings.slice(siblings.indexOf(at) + 1).find((sibling) => this.within(sibling) > 0);
      if (next !== undefined) return this.isMatch(next) ? next : this.firstIn(next, children);
    }
    return -1;
  }

  preceding(node, children) {
    const { parent } = this.app.view.contexts;
    for (let at = node; at >= 0; at = parent[at]) {
      const siblings = children(parent[at]);
      const next = siblings.slice(0, siblings.indexOf(at)).findLast((sibling) => this.within(sibling) > 0);
      if (next !== undefined) return this.lastIn(next, children);
      if (parent[at] >= 0 && this.isMatch(parent[at])) return parent[at];
    }
    return -1;
  }

  isMatch(node) {
    return this.before[node + 1] > this.before[node];
  }

  /** The first match below a node. */
  firstIn(node, children) {
    for (;;) {
      const next = children(node).find((child) => this.within(child) > 0);
      if (next === undefined || this.isMatch(next)) return next ?? -1;
      node = next;
    }
  }

  /** The last match at or below a node. */
  lastIn(node, children) {
    for (;;) {
      const next = children(node).findLast((child) => this.within(child) > 0);
      if (next === undefined) return node;
      node = next;
    }
  }

  /** Which match a node is, counted from 1. */
  place(node, children) {
    const { parent } = this.app.view.contexts;
    let place = 1;
    for (let at = node; at >= 0; at = parent[at]) {
      for (const sibling of children(parent[at])) {
        if (sibling === at) break;
        place += this.within(sibling);
      }
      if (parent[at] >= 0 && this.isMatch(parent[at])) place++;
    }
    return place;
  }
}
