// The tree of contexts, or of callers, as rows that open and close.
//
// `rows` holds the node of every row; opening and closing inserts and removes a
// run of them. Siblings are put in order when they are first shown.

/** From this number on, siblings in order are kept. */
const MANY = 32;

class TreeView {
  /** @param app gives names, colours, search; is told what is selected */
  constructor(app, host) {
    this.app = app;
    this.host = host;
    const ofOne = app.data.head.folded ? TREE_FOLDED : TREE_VALUES;
    this.columns = app.isComparison ? TREE_CHANGES : ofOne;
    this.order = { key: app.isComparison ? "share" : "total", rising: false };
    this.rows = new Uint32Array(64);
    this.count = 0;
    this.open = new Uint8Array(64);
    this.selected = -1;
    this.ordered = new Map();
    this.header = makeHeader([...this.columns, ...TEXT_COLUMNS], (key) => this.sort(key));
    // Names are followed by where they are, so that deep rows have all the width.
    this.header.append(make("span", { className: "name" }, ...[...this.header.children].slice(this.columns.length)));
    this.scroller = make("div", { className: "scroller", tabIndex: 0, role: "tree" });
    host.append(this.tools(), this.scroller);
    this.list = new List(this.scroller, this.header, () => this.makeRow(), (row, at) => this.fill(row, at));
    this.list.beforeDraw = (first, last) => this.shift(first, last);
    this.scroller.addEventListener("click", (event) => this.clicked(event));
    this.scroller.addEventListener("dblclick", (event) => {
      const at = rowOf(event);
      if (at !== undefined && !event.target.closest(".twist")) this.toggle(at);
    });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
  }

  tools() {
    const tool = (id, text, title, act) => {
      const button = make("button", { id, title }, text);
      button.addEventListener("click", () => {
        act();
        this.scroller.focus();
      });
      return button;
    };
    return make(
      "div",
      { className: "tools" },
      tool("hottest", "Expand hottest path", "From the selected row, always the child with most (h)", () => this.expandHottest()),
      tool("expand", "Expand all", "Everything below the selected row, or all (*)", () => this.expandAll()),
      tool("collapse", "Collapse", "Everything below the selected row, or all (-)", () => this.collapseAll()),
    );
  }

  /** Shows another tree; `keeps`: its nodes are the same as before. */
  setModel(model, keeps) {
    this.model = model;
    this.ordered.clear();
    if (!keeps) {
      this.open.fill(0);
      this.selected = -1;
      const roots = model.roots();
      if (roots.length === 1) this.setOpen(roots[0], 1);
    }
    this.rebuild();
    if (!keeps) this.list.goTo(0);
  }

  isOpen(node) {
    return this.open[node] === 1;
  }

  setOpen(node, value) {
    if (node >= this.open.length) {
      const larger = new Uint8Array(Math.max(node + 1, 2 * this.open.length));
      larger.set(this.open);
      this.open = larger;
    }
    this.open[node] = value;
  }

  // Order.

  sort(key) {
    this.order = nextOrder(this.order, key);
    this.ordered.clear();
    this.rebuild();
    this.revealSelected();
  }

  compare() {
    const { model, app } = this;
    return comparison(this.columns, this.order, model, app.names, (node) => model.name(node));
  }

  /** Children in order; of -1 the roots. */
  children(node) {
    const known = this.ordered.get(node);
    if (known) return known;
    const nodes = node < 0 ? [...this.model.roots()] : [...this.model.children(node)];
    if (nodes.length > 1) nodes.sort(this.compare());
    if (nodes.length >= MANY) this.ordered.set(node, nodes);
    return nodes;
  }

  // Rows.

  rebuild() {
    this.count = 0;
    this.put(0, this.below(-1));
    this.draw();
  }

  /** The rows below a node, as far as they are open. */
  below(node) {
    const rows = [];
    const stack = this.children(node).slice().reverse();
    while (stack.length > 0) {
      const at = stack.pop();
      rows.push(at);
      if (this.isOpen(at)) {
        const children = this.children(at);
        for (let i = children.length - 1; i >= 0; i--) stack.push(children[i]);
      }
    }
    return rows;
  }

  put(at, nodes) {
    const count = this.count + nodes.length;
    if (count > this.rows.length) {
      const larger = new Uint32Array(Math.max(count, 2 * this.rows.length));
      larger.set(this.rows.subarray(0, this.count));
      this.rows = larger;
    }
    this.rows.copyWithin(at + nodes.length, at, this.count);
    this.rows.set(nodes, at);
    this.count = count;
  }

  draw() {
    const isOne = !this.app.isComparison && this.model instanceof CallerTree && this.order.key === "total";
    showOrder(this.header, isOne ? { ...this.order, key: "own" } : this.order);
    this.scroller.setAttribute("aria-activedescendant", `tree-${this.selected}`);
    this.list.setCount(this.count);
  }

  rowAt(node, from = 0) {
    const at = this.rows.indexOf(node, from);
    return at < this.count ? at : -1;
  }

  openRow(at) {
    const node = this.rows[at];
    if (this.isOpen(node) || !this.model.hasChildren(node)) return;
    this.setOpen(node, 1);
    this.put(at + 1, this.below(node));
  }

  closeRow(at) {
    const node = this.rows[at];
    this.setOpen(node, 0);
    const depth = this.model.depth(node);
    let end = at + 1;
    while (end < this.count && this.model.depth(this.rows[end]) > depth) end++;
    this.rows.copyWithin(at + 1, end, this.count);
    this.count -= end - at - 1;
  }

  toggle(at) {
    if (this.isOpen(this.rows[at])) this.closeRow(at);
    else this.openRow(at);
    this.draw();
  }

  // Selection.

  select(at) {
    this.selected = this.rows[at];
    this.list.reveal(at);
    this.app.select(this.model, this.selected);
  }

  /** Opens what leads to a node and shows it; whoever calls knows that it is selected. */
  reveal(node) {
    const path = [];
    for (let at = node; at >= 0; at = this.model.parent(at)) path.push(at);
    let row = 0;
    while (path.length > 1) {
      row = this.rowAt(path.pop(), row);
      if (row < 0) return;
      this.openRow(row);
    }
    this.selected = node;
    this.draw();
    this.list.center(this.rowAt(node, row));
  }

  revealSelected() {
    const at = this.selected < 0 ? -1 : this.rowAt(this.selected);
    if (at >= 0) this.list.center(at);
  }

  /** The nodes below one, always the child with most, until more is counted in the node itself; of callers to the last. */
  hottestPath(from) {
    const { model } = this;
    const path = [];
    let node = from;
    let next = this.hottestChild(node);
    const goesOn = () => node === from || model instanceof CallerTree || model.ownWeight(node) < model.weight(next);
    while (next >= 0 && goesOn()) {
      path.push(next);
      node = next;
      next = this.hottestChild(node);
    }
    return path;
  }

  expandHottest() {
    const path = this.hottestPath(this.selected);
    const node = path.at(-1) ?? this.selected;
    if (node < 0) return;
    this.unfold([this.selected, ...path]);
    this.reveal(node);
    this.app.select(this.model, node);
  }

  /** Opens the nodes of a path but the last. */
  unfold(path) {
    for (const node of path.slice(0, -1)) if (node >= 0) this.setOpen(node, 1);
    this.rebuild();
  }

  hottestChild(node) {
    const nodes = node < 0 ? this.model.roots() : this.model.children(node);
    let hottest = -1;
    for (const child of nodes) {
      if (hottest < 0 || this.model.weight(child) > this.model.weight(hottest)) hottest = child;
    }
    return hottest;
  }

  expandAll() {
    const stack = this.selected < 0 ? [...this.model.roots()] : [this.selected];
    for (let opened = 0; stack.length > 0; opened++) {
      if (opened === this.model.mostOpen) {
        this.app.controls.say(`stopped after ${grouped(opened)} rows`, "");
        break;
      }
      const node = stack.pop();
      const children = this.model.children(node);
      if (children.length > 0) this.setOpen(node, 1);
      for (const child of children) stack.push(child);
    }
    this.rebuild();
    this.revealSelected();
  }

  collapseAll() {
    if (this.selected < 0) {
      this.open.fill(0);
    } else {
      const { rows } = this;
      let at = this.rowAt(this.selected);
      const depth = this.model.depth(this.selected);
      do this.setOpen(rows[at++], 0);
      while (at < this.count && this.model.depth(rows[at]) > depth);
    }
    this.rebuild();
    this.revealSelected();
  }

  // Input.

  clicked(event) {
    const at = rowOf(event);
    if (at === undefined) return;
    if (event.target.closest(".twist")) this.toggle(at);
    else this.select(at);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.selected < 0 ? -1 : this.rowAt(this.selected);
    const act = this.keys(at)[event.key];
    if (!act || this.count === 0) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  keys(at) {
    const go = (to) => () => this.select(Math.max(0, Math.min(to, this.count - 1)));
    return {
      ArrowDown: go(at + 1),
      ArrowUp: go(at - 1),
      PageDown: go(at + this.list.page),
      PageUp: go(at - this.list.page),
      Home: go(0),
      End: go(this.count - 1),
      ArrowRight: () => this.inwards(at),
      ArrowLeft: () => this.outwards(at),
      Enter: () => at >= 0 && this.toggle(at),
      h: () => this.expandHottest(),
      "*": () => this.expandAll(),
      "-": () => this.collapseAll(),
    };
  }

  /** Opens the row, or goes to its first child. */
  inwards(at) {
    const node = this.rows[at];
    if (at < 0 || !this.model.hasChildren(node)) return;
    if (this.isOpen(node)) this.select(at + 1);
    else this.toggle(at);
  }

  /** Closes the row, or goes to its parent. */
  outwards(at) {
    if (at < 0) return;
    const node = this.rows[at];
    const parent = this.model.parent(node);
    if (this.isOpen(node) && this.model.hasChildren(node)) this.toggle(at);
    else if (parent >= 0) this.select(this.rowAt(parent));
  }

  // Drawing.

  /** Deep rows move to the left by what all visible ones have in common. */
  shift(first, last) {
    let least = Infinity;
    for (let at = first; at < last; at++) least = Math.min(least, this.model.depth(this.rows[at]));
    this.least = Number.isFinite(least) ? Math.max(0, least - 1) : 0;
  }

  makeRow() {
    const cells = {
      numbers: makeCells(this.columns),
      indent: make("span", { className: "indent" }),
      twist: make("span", { className: "twist" }),
      dot: make("span", { className: "dot" }),
      text: make("span", { className: "text" }),
      module: make("span", { className: "module" }),
      place: make("span", { className: "place" }),
    };
    // Where it is stands in a second line, which is not seen, if there is no room.
    const lead = make("span", { className: "lead" }, cells.indent, cells.twist, cells.dot, cells.text);
    const name = make("span", { className: "name" }, lead, cells.module, cells.place);
    const row = make("div", { className: "row", role: "treeitem" });
    row.append(...cells.numbers, name);
    row.cells = cells;
    return row;
  }

  fill(row, at) {
    const { model, app } = this;
    const { names } = app;
    const node = this.rows[at];
    const name = model.name(node);
    const { numbers, indent, twist, dot, text, module, place } = row.cells;
    fillCells(numbers, this.columns, model, node);
    const depth = model.depth(node) - this.least;
    indent.style.width = `${depth * 12}px`;
    const hasChildren = model.hasChildren(node);
    row.ariaExpanded = hasChildren ? String(this.isOpen(node)) : null;
    row.ariaLevel = String(model.depth(node) + 1);
    row.ariaSelected = String(node === this.selected);
    row.id = `tree-${node}`;
    twist.textContent = hasChildren ? (this.isOpen(node) ? "▾" : "▸") : "";
    putText(text, names.text[name], app.search);
    text.title = visible(names.text[name]);
    text.classList.toggle("special", !names.isFunction(name));
    text.classList.toggle("passed", model.ownWeight(node) === 0);
    putModule(dot, module, names, app.colours, name);
    place.textContent = visible(names.place(name));
    place.title = visible(names.file(name));
  }
}
