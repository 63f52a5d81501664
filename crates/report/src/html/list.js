// A list of which only the visible rows exist.
//
// A browser limits how tall an element may be, so beyond MOST_PIXELS the bar
// moves in larger steps than the rows: a jump of the bar is a jump in the list,
// and what is moved by wheel or keys moves the rows by as many pixels.

const ROW_HEIGHT = 24;
const MOST_PIXELS = 6_000_000;

class List {
  /**
   * @param host the element that scrolls
   * @param header shown above the rows
   * @param makeRow gives a row element
   * @param fillRow fills one in: (row, index)
   * @param rowHeight in pixels, as in the style
   */
  constructor(host, header, makeRow, fillRow, rowHeight = ROW_HEIGHT) {
    this.rowHeight = rowHeight;
    this.host = host;
    this.header = header;
    this.makeRow = makeRow;
    this.fillRow = fillRow;
    this.rows = [];
    this.count = 0;
    /** Pixels of the list above the first visible one. */
    this.top = 0;
    this.barAt = 0;
    this.layer = make("div", { className: "layer", role: "presentation" });
    this.spacer = make("div", { className: "spacer", role: "presentation" });
    host.classList.add("list");
    host.append(header, this.layer, this.spacer);
    host.addEventListener("scroll", () => this.scrolled(), { passive: true });
    new ResizeObserver(() => this.resized()).observe(host);
  }

  get height() {
    return this.count * this.rowHeight;
  }

  get visibleHeight() {
    return Math.max(0, this.host.clientHeight - this.header.offsetHeight);
  }

  /** Pixels of the list per pixel of the bar. */
  get scale() {
    const bar = Math.min(this.height, MOST_PIXELS) - this.visibleHeight;
    return bar > 0 ? Math.max(1, (this.height - this.visibleHeight) / bar) : 1;
  }

  setCount(count) {
    this.count = count;
    this.resized();
  }

  resized() {
    if (this.host.clientHeight === 0) return;
    this.layer.style.height = `${this.visibleHeight}px`;
    this.spacer.style.height = `${Math.min(this.height, MOST_PIXELS)}px`;
    this.spacer.style.marginTop = `${-this.visibleHeight}px`;
    this.goTo(this.top);
  }

  scrolled() {
    const bar = this.host.scrollTop;
    const moved = bar - this.barAt;
    if (Math.abs(moved) < 1) return;
    this.barAt = bar;
    const { scale } = this;
    if (scale === 1) {
      this.top = bar;
    } else if (Math.abs(moved) > 2 * this.visibleHeight) {
      this.top = bar * scale;
    } else {
      this.top = this.within(this.top + moved);
      clearTimeout(this.settling);
      const atEnd = bar <= 0 || bar >= this.host.scrollHeight - this.host.clientHeight - 1;
      this.settling = setTimeout(() => this.goTo(this.top), atEnd ? 0 : 200);
    }
    this.drawSoon();
  }

  within(top) {
    return Math.max(0, Math.min(top, this.height - this.visibleHeight));
  }

  goTo(top) {
    this.top = this.within(top);
    this.host.scrollTop = this.top / this.scale;
    this.barAt = this.host.scrollTop;
    this.draw();
  }

  /** Scrolls as little as is needed to show a row, with some around it. */
  reveal(index) {
    const around = Math.min(3 * this.rowHeight, this.visibleHeight / 3);
    const y = index * this.rowHeight;
    const last = y + this.rowHeight - this.visibleHeight;
    if (y - around < this.top) this.goTo(y - around);
    else if (last + around > this.top) this.goTo(last + around);
    else this.draw();
  }

  /** The same, but in the middle if it was not visible. */
  center(index) {
    const y = index * this.rowHeight;
    const isVisible = y >= this.top && y + this.rowHeight <= this.top + this.visibleHeight;
    if (isVisible) this.draw();
    else this.goTo(y - this.visibleHeight / 2);
  }

  drawSoon() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = undefined;
      this.draw();
    });
  }

  get first() {
    return Math.floor(this.top / this.rowHeight);
  }

  get last() {
    return Math.min(this.count, Math.ceil((this.top + this.visibleHeight) / this.rowHeight));
  }

  draw() {
    if (this.host.clientHeight === 0) return;
    const { first, last } = this;
    this.beforeDraw?.(first, last);
    for (let at = 0; at < Math.max(last - first, this.rows.length); at++) {
      let row = this.rows[at];
      if (!row) {
        row = this.makeRow();
        this.rows.push(row);
        this.layer.append(row);
      }
      row.hidden = first + at >= last;
      if (row.hidden) {
        row.id = "";
        continue;
      }
      row.index = first + at;
      row.style.transform = `translateY(${(first + at) * this.rowHeight - this.top}px)`;
      this.fillRow(row, first + at);
    }
  }

  /** Rows that fit. */
  get page() {
    return Math.max(1, Math.floor(this.visibleHeight / this.rowHeight) - 1);
  }
}

/** The row of an event, or undefined. */
function rowOf(event) {
  return event.target.closest?.(".row")?.index;
}

/** Puts a text into an element, with what was searched for marked. */
function putText(element, text, search) {
  const shown = visible(text);
  const spans = search?.spans(shown) ?? [];
  if (spans.length === 0) {
    element.textContent = shown;
    return;
  }
  const parts = [];
  let at = 0;
  for (const [from, to] of spans) {
    parts.push(shown.slice(at, from), make("mark", {}, shown.slice(from, to)));
    at = to;
  }
  element.replaceChildren(...parts, shown.slice(at));
}

/**
 * The heads of columns. One that can be sorted by calls `sort(key)`; `sorted()`
 * says by which the rows are in order, and whether smallest first.
 */
function makeHeader(columns, sort) {
  const header = make("div", { className: "row header", role: "row" });
  for (const { key, className } of columns) {
    const head = make("button", { className: `head ${className}`, role: "columnheader" });
    head.dataset.key = key;
    head.addEventListener("click", () => sort(key));
    header.append(head);
  }
  return header;
}

function showOrder(header, order) {
  for (const head of header.querySelectorAll(".head")) {
    const isKey = head.dataset.key === order.key;
    head.ariaSort = isKey ? (order.rising ? "ascending" : "descending") : "none";
  }
}
