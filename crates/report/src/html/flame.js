// The flame graph: every context a box, as wide as its share, with what it
// called (or, of callers, what called it) below.
//
// `from` and `to` are what is in the window, in the unit of the metric; a node
// lies from model.start(node) to there plus model.total(node). Boxes too narrow
// to be seen are drawn together as one grey box.

const BOX = 20;
/** Narrowest box that is drawn for itself, in pixels. */
const NARROWEST = 0.7;
const LETTERS = 28;
const ZOOM_MS = 160;
/** Callers of what is zoomed to that are shown. */
const CRUMBS = 30;
const HINT = "Click a box to zoom to it; Ctrl + wheel, drag and arrows work, too";
const CHANGE_HINT = "As wide as after; red: more than before in the box itself, blue: less; click to zoom";
/** Longest time to look for callers before something is drawn. */
const WORK_MS = 20;

class FlameView {
  constructor(app, host) {
    this.app = app;
    this.host = host;
    this.selected = -1;
    this.hovered = -1;
    /** What was drawn: per row of boxes [left, right, node], from left to right. */
    this.drawn = [];
    this.canvas = make("canvas");
    this.frame = make("div", { className: "layer" }, this.canvas);
    this.spacer = make("div", { className: "spacer" });
    this.scroller = make("div", { className: "scroller flame", tabIndex: 0 }, this.frame, this.spacer);
    this.scroller.role = "img";
    this.scroller.ariaLabel = "Flame graph; arrows move, Enter zooms, Escape shows all";
    this.crumbs = make("div", { className: "tools crumbs" });
    host.append(this.crumbs, this.scroller);
    this.context = this.canvas.getContext("2d");
    this.listen();
  }

  listen() {
    const { scroller, canvas } = this;
    scroller.addEventListener("scroll", () => this.scrolledTo(), { passive: true });
    scroller.addEventListener("keydown", (event) => this.key(event));
    scroller.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.grab(event));
    canvas.addEventListener("pointermove", (event) => this.hover(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("click", (event) => this.clicked(event));
    new ResizeObserver(() => this.resized()).observe(scroller);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colours = undefined;
      this.drawSoon();
    });
  }

  setModel(model, keeps) {
    this.model = model;
    if (!keeps) {
      this.selected = -1;
      this.scroller.scrollTop = 0;
    }
    this.hovered = -1;
    this.from = 0;
    this.to = model.sum;
    this.zoomed = -1;
    this.showCrumbs();
    this.resized();
  }

  resized() {
    const { clientWidth: width, clientHeight: height } = this.scroller;
    if (width === 0 || !this.model) return;
    this.ratio = devicePixelRatio;
    this.width = width;
    this.height = height;
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    this.frame.style.height = `${height}px`;
    this.spacer.style.marginTop = `${-height}px`;
    this.draw();
  }

  /** What the pointer was at has moved away. */
  scrolledTo() {
    this.app.tip(null);
    this.drawSoon();
  }

  drawSoon() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = undefined;
      this.draw();
    });
  }

  // Drawing.

  /** The style's colours, as the canvas takes them. */
  palette() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(name).trim();
    const hues = Array.from({ length: HUES }, (_, hue) => Number(of(`--hue-${hue}`)));
    return { hues, light: Number(of("--box-light")), strong: Number(of("--box-strong")),
      more: of("--hue-more"), less: of("--hue-less"), chroma: of("--box-chroma"), other: of("--box-other"), rest: of("--box-rest"),
      text: of("--text"), hit: of("--hit"), hitText: of("--hit-text"), accent: of("--accent"), fills: new Map() };
  }

  /** Pixels per unit. */
  get scale() {
    return this.width / (this.to - this.from);
  }

  draw() {
    if (!this.model || this.scroller.clientWidth === 0) return;
    this.colours ??= this.palette();
    const { context } = this;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    const style = getComputedStyle(this.scroller);
    context.font = `12px ${style.getPropertyValue("--code")}`;
    context.textBaseline = "middle";
    this.letter = context.measureText("m").width;
    this.scrolled = this.scroller.scrollTop;
    this.drawn = [];
    this.deepest = 0;
    if (this.model.sum > 0) this.drawAll();
    const height = (this.deepest + 2) * BOX;
    this.spacer.style.height = `${Math.max(height, this.height)}px`;
  }

  /**
   * From the top downwards. Callers are found when they are asked for: not many
   * more rows of them than are visible, and after a while the rest is drawn later.
   */
  drawAll() {
    const { model } = this;
    const isLazy = model instanceof CallerTree;
    const lowest = isLazy ? (this.scrolled + 2 * this.height) / BOX : Infinity;
    const pause = performance.now() + WORK_MS;
    let isAll = true;
    let nodes = [];
    this.drawSiblings(model.roots(), 0, nodes);
    for (let depth = 1; nodes.length > 0 && depth <= lowest; depth++) {
      const below = [];
      for (const node of nodes) {
        if (model.isKnown(node) || performance.now() < pause) this.drawSiblings(model.children(node), depth, below);
        else isAll = false;
      }
      nodes = below;
    }
    for (const row of this.drawn) row?.sort((a, b) => a[0] - b[0]);
    this.host.ariaBusy = String(!isAll);
    if (!isAll) this.drawSoon();
  }

  /** Draws siblings; those with room for something below go to `wide`. */
  drawSiblings(nodes, depth, wide) {
    const { model, scale } = this;
    let rest;
    for (const node of nodes) {
      const start = model.start(node);
      const total = model.total(node);
      // What is gone has no width.
      if (total === 0) continue;
      if (start + total <= this.from || start >= this.to) continue;
      const left = Math.max(0, (start - this.from) * scale);
      const right = Math.min(this.width, (start + total - this.from) * scale);
      if (depth > this.deepest) this.deepest = depth;
      if (right - left >= NARROWEST) {
        this.box(left, right, depth, node);
        wide.push(node);
        continue;
      }
      if (rest && left - rest.right > NARROWEST) {
        this.rest(rest, depth);
        rest = undefined;
      }
      rest ??= { left, right, count: 0 };
      rest.right = Math.max(rest.right, right);
      rest.count++;
    }
    if (rest) this.rest(rest, depth);
  }

  row(depth) {
    return (this.drawn[depth] ??= []);
  }

  /** Where boxes of a depth are on the canvas; undefined if not visible. */
  y(depth) {
    const y = depth * BOX - this.scrolled;
    return y > -BOX && y < this.height ? y : undefined;
  }

  rest({ left, right, count }, depth) {
    const y = this.y(depth);
    if (y === undefined || right - left < NARROWEST / 2) return;
    this.row(depth).push([left, right, -1, count]);
    this.context.fillStyle = this.colours.rest;
    this.context.fillRect(left, y, right - left, BOX - 1);
  }

  box(left, right, depth, node) {
    const y = this.y(depth);
    if (y === undefined) return;
    this.row(depth).push([left, right, node]);
    const { context, colours, app } = this;
    const name = this.model.name(node);
    const gap = right - left > 3 ? 1 : 0;
    const isHit = app.search.query && app.search.matches(name);
    const isFaded = app.search.query && !isHit;
    context.globalAlpha = isFaded ? 0.4 : 1;
    context.fillStyle = isHit ? colours.hit : this.fillOf(node, name);
    context.fillRect(left, y, right - left - gap, BOX - 1);
    const letters = Math.floor((right - left - 8) / this.letter);
    if (letters >= 2) {
      context.globalAlpha = isFaded ? 0.75 : 1;
      context.fillStyle = isHit ? colours.hitText : colours.text;
      context.fillText(fitted(visible(app.names.text[name]), letters), left + 4, y + BOX / 2);
    }
    context.globalAlpha = 1;
    this.outline(node, name, left, y, right - left - gap);
  }

  /** The hue of its module; a little different for each function, so that neighbours are seen apart. */
  fillOf(node, name) {
    if (this.app.isComparison) return this.fillOfChange(node);
    const { fills, hues, light, chroma, other } = this.colours;
    let fill = fills.get(name);
    if (fill) return fill;
    const hue = this.app.colours.hue(this.app.names.module(name));
    const shade = ((name * 7) % 11) / 10 - 0.5;
    fill = hue < 0 ? other : `oklch(${light + shade * 0.05} ${chroma} ${hues[hue] + shade * 18})`;
    fills.set(name, fill);
    return fill;
  }

  /** Red for more than before in the box itself, blue for less; the more, the stronger. */
  fillOfChange(node) {
    const { light, strong, more, less, rest } = this.colours;
    const change = this.model.own(node) - this.model.ownBefore(node);
    if (change === 0) return rest;
    const strength = Math.min(1, Math.sqrt(Math.abs(change) / this.app.view.changes.largest));
    return `oklch(${light + (strong - light) * strength} ${0.03 + 0.13 * strength} ${change > 0 ? more : less})`;
  }

  /** Around what is selected, what is pointed at, and the same function elsewhere. */
  outline(node, name, left, y, width) {
    const isSelected = node === this.selected;
    const isSame = this.selected >= 0 && name === this.model.name(this.selected);
    if (!isSelected && !isSame && node !== this.hovered) return;
    const { context } = this;
    const thick = isSelected ? 2 : 1;
    context.strokeStyle = isSelected || isSame ? this.colours.accent : this.colours.text;
    context.lineWidth = thick;
    context.strokeRect(left + thick / 2, y + thick / 2, Math.max(0, width - thick), BOX - 1 - thick);
  }

  // Zoom.

  /** Shows a node as wide as the window; -1 shows all. */
  zoom(node) {
    // What is gone has no width: the callers of it that are left have.
    while (node >= 0 && this.model.total(node) === 0) node = this.model.parent(node);
    this.zoomed = node;
    const from = node < 0 ? 0 : this.model.start(node);
    const to = from + (node < 0 ? this.model.sum : this.model.total(node));
    this.showCrumbs();
    this.animate(from, to);
  }

  animate(from, to) {
    cancelAnimationFrame(this.moving);
    const [oldFrom, oldTo] = [this.from, this.to];
    const begun = performance.now();
    const quiet = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const step = (now) => {
      const part = quiet ? 1 : Math.min(1, Math.max(0, (now - begun) / ZOOM_MS));
      const eased = 1 - (1 - part) ** 3;
      this.from = part === 1 ? from : oldFrom + (from - oldFrom) * eased;
      this.to = part === 1 ? to : oldTo + (to - oldTo) * eased;
      this.draw();
      if (part < 1) this.moving = requestAnimationFrame(step);
    };
    this.moving = requestAnimationFrame(step);
  }

  /** Moves the window, which stays within all there is. */
  move(from, to) {
    cancelAnimationFrame(this.moving);
    const size = Math.min(to - from, this.model.sum);
    this.from = Math.max(0, Math.min(from, this.model.sum - size));
    this.to = this.from + size;
    this.drawSoon();
  }

  scaleBy(factor, x) {
    const middle = this.from + x / this.scale;
    const size = Math.max((this.to - this.from) * factor, Math.min(1, this.model.sum));
    const left = (x / this.width) * size;
    this.move(middle - left, middle - left + size);
  }

  /** The path to what is zoomed to, to go back by. */
  showCrumbs() {
    const crumb = (text, node) => {
      const button = make("button", { title: "Zoom to this" }, text);
      button.addEventListener("click", () => {
        this.zoom(node);
        this.scroller.focus();
      });
      return button;
    };
    const crumbs = [];
    for (let at = this.zoomed; at >= 0 && crumbs.length < CRUMBS; at = this.model.parent(at)) {
      crumbs.push(crumb(visible(this.app.names.text[this.model.name(at)]), at));
    }
    const all = crumb("All", -1);
    all.id = "zoom-out";
    if (crumbs.length === CRUMBS) crumbs.push(make("span", { className: "hint" }, "…"));
    this.crumbs.replaceChildren(all, ...crumbs.reverse());
    if (this.zoomed < 0) this.crumbs.append(make("span", { className: "hint" }, this.app.isComparison ? CHANGE_HINT : HINT));
    this.crumbs.scrollLeft = this.crumbs.scrollWidth;
  }

  // Input.

  /** The box at a place of the canvas: [left, right, node, how many]. */
  at(event) {
    const depth = Math.floor((event.offsetY + this.scrolled) / BOX);
    return this.drawn[depth]?.find(([left, right]) => left <= event.offsetX && event.offsetX < right);
  }

  hover(event) {
    if (this.grabbed) {
      this.drag(event);
      return;
    }
    const box = this.at(event);
    const node = box?.[2] ?? -1;
    if (node !== this.hovered) {
      this.hovered = node;
      this.drawSoon();
    }
    this.canvas.style.cursor = node >= 0 ? "pointer" : "default";
    if (!box) this.app.tip(null);
    else this.app.tip(event, node < 0 ? this.aboutRest(box) : this.about(node));
  }

  leave() {
    this.hovered = -1;
    this.app.tip(null);
    this.drawSoon();
  }

  aboutRest(box) {
    return [make("p", {}, `${counted(box[3], "context")} too narrow to be drawn; zoom in to see more`)];
  }

  about(node) {
    const { names, noun } = this.app;
    const { model } = this;
    const name = model.name(node);
    const where = [names.moduleText(names.module(name)), names.place(name)].filter(Boolean).join("  ");
    const total = `${counted(model.total(node), noun)} (${percent(model.total(node), model.sum)})`;
    const lines = [make("b", {}, visible(names.text[name]))];
    if (this.app.isComparison) {
      const changed = (before, after) => `${grouped(before)} → ${counted(after, noun)} (${signed(after - before)}, ${growth(before, after)})`;
      lines.push(make("p", {}, `${changed(model.totalBefore(node), model.total(node))} with everything below`));
      if (model instanceof CallTree) lines.push(make("p", {}, `${changed(model.ownBefore(node), model.own(node))} here`));
    } else if (model instanceof CallerTree) {
      lines.push(make("p", {}, total));
    } else {
      lines.push(make("p", {}, `${total} with everything below`), make("p", {}, `${counted(model.own(node), noun)} here`));
    }
    if (where) lines.push(make("p", { className: "dim" }, visible(where)));
    return lines;
  }

  grab(event) {
    if (event.button !== 0) return;
    this.grabbed = { x: event.clientX, y: event.clientY, from: this.from, to: this.to, top: this.scroller.scrollTop };
    this.canvas.setPointerCapture(event.pointerId);
    this.canvas.addEventListener("pointerup", () => (this.grabbed = undefined), { once: true });
  }

  drag(event) {
    const { x, y, from, to, top } = this.grabbed;
    if (!this.dragged && Math.abs(event.clientX - x) + Math.abs(event.clientY - y) < 5) return;
    this.dragged = true;
    this.app.tip(null);
    const moved = (event.clientX - x) / this.scale;
    this.move(from - moved, to - moved);
    this.scroller.scrollTop = top - (event.clientY - y);
  }

  clicked(event) {
    if (this.dragged) {
      this.dragged = false;
      return;
    }
    const node = this.at(event)?.[2] ?? -1;
    if (node < 0) return;
    this.select(node);
    this.zoom(node === this.zoomed ? this.model.parent(node) : node);
  }

  wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.scaleBy(Math.exp(Math.max(-50, Math.min(50, event.deltaY)) / 100), event.offsetX);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      const moved = (event.deltaX || event.deltaY) / this.scale;
      this.move(this.from + moved, this.to + moved);
    }
  }

  select(node) {
    this.selected = node;
    this.drawSoon();
    this.app.select(this.model, node);
  }

  /** Makes a node visible that somebody has selected. */
  reveal(node) {
    this.selected = node;
    const { model } = this;
    const y = model.depth(node) * BOX;
    if (y < this.scroller.scrollTop || y > this.scroller.scrollTop + this.height - 2 * BOX) {
      this.draw();
      const deep = `${(model.deepest + 2) * BOX}px`;
      this.spacer.style.height = deep;
      this.scroller.scrollTop = y - this.height / 2;
    }
    const start = model.start(node);
    const isIn = start >= this.from && start + model.total(node) <= this.to;
    if (isIn && model.total(node) * this.scale >= LETTERS) {
      this.drawSoon();
      return;
    }
    let wide = node;
    while (model.parent(wide) >= 0 && model.total(model.parent(wide)) <= 8 * model.total(node)) wide = model.parent(wide);
    this.zoom(wide);
  }

  key(event) {
    if (event.altKey) return;
    const act = this.keys()[event.key];
    if (!act || this.model.sum === 0) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  keys() {
    const { model, selected } = this;
    const first = (nodes) => [...nodes].sort((a, b) => model.total(b) - model.total(a) || a - b)[0];
    const go = (node) => {
      if (node === undefined || node < 0) return;
      this.select(node);
      this.reveal(node);
    };
    const beside = (step) => {
      const parent = selected < 0 ? -1 : model.parent(selected);
      const siblings = parent < 0 ? model.roots() : model.children(parent);
      return siblings[siblings.indexOf(selected) + step];
    };
    return {
      ArrowDown: () => go(first(selected < 0 ? model.roots() : model.children(selected))),
      ArrowUp: () => go(selected < 0 ? -1 : model.parent(selected)),
      ArrowRight: () => go(beside(1)),
      ArrowLeft: () => go(beside(-1)),
      Enter: () => this.zoom(selected),
      Escape: () => this.zoom(-1),
      0: () => this.zoom(-1),
      "+": () => this.scaleBy(0.5, this.width / 2),
      "-": () => this.scaleBy(2, this.width / 2),
    };
  }
}

/** As much of a text as so many letters hold. */
function fitted(text, letters) {
  return text.length <= letters ? text : `${text.slice(0, letters - 1)}…`;
}
