// Source lines and instructions of a function, one list above the other. A line and the
// instructions that it became are marked together. Where executions are known they
// stand beside both.

const CODE_ROW = 18;
/** Head and scroll bar of a list. */
const CODE_HEAD = 40;
const TAB = 8;
/** Targets of an indirect branch that stand below it at first. */
const TARGETS = 12;

/** The listings of all functions, once they are decoded; null if the page has none. */
async function loadListings() {
  if (!document.getElementById("data-code")) return null;
  return new Listings(await inflatedJson("data-code"));
}

class Listings {
  constructor({ files, listings, of, left }) {
    this.files = files;
    this.listings = listings;
    this.numbers = of;
    /** What the page has no room for, as a sentence; or null. */
    this.left = left;
  }

  /** Of a function; undefined if there is none. */
  of(name) {
    return this.listings[this.numbers[name]];
  }
}

class CodePanel {
  /**
   * @param listing as listing.rs has it
   * @param files paths that it names by index
   * @param executions of instruction N, or null if nothing is known of any
   * @param titleOf the title above instruction N, where a block begins, or null
   * @param marked whether instruction N is what was selected
   */
  constructor(listing, files, { executions = null, titleOf = null, marked = () => false } = {}) {
    this.listing = listing;
    this.files = files;
    this.executions = executions;
    this.titleOf = titleOf;
    this.marked = marked;
    /** The line that is marked with its instructions. */
    this.chosen = -1;
    this.texts = withoutMargin(listing.source.map(shownSource));
    this.countLines();
    this.element = make("div", { className: "code" }, ...this.sourcePart(), ...this.codePart());
    const most = this.sums.reduce((most, sum) => Math.max(most, sum), 0);
    this.element.style.setProperty("--counts", grouped(most).length + 1);
  }

  /** Per line how often one of its instructions was executed most, and all of them together. */
  countLines() {
    const { row, number } = this.listing;
    this.most = new Float64Array(number.length);
    this.sums = new Float64Array(number.length);
    this.hasCode = new Uint8Array(number.length);
    row.forEach((line, at) => {
      if (line < 0) return;
      this.hasCode[line] = 1;
      if (!this.executions) return;
      const times = this.executions(at);
      this.most[line] = Math.max(this.most[line], times);
      this.sums[line] += times;
    });
  }

  // Source.

  sourcePart() {
    const { listing, files } = this;
    const hint = (text, title = "") => make("p", { className: "hint", title: visible(title) }, visible(text));
    const parts = [make("h3", {}, "Source")];
    if (listing.number.length === 0) return [...parts, hint("No source lines are known: there is no debug information of this code.")];
    if (listing.unread.length > 0) {
      const paths = listing.unread.map((file) => files[file]);
      parts.push(hint(`Not read when the page was written: ${paths.map(baseName).join(", ")}`, paths.join("\n")));
    }
    this.lines = this.sourceItems();
    if (this.lines.length === 0) return parts;
    const heads = this.executions ? [["times", "Times", "Of its instruction that was executed most"], ["sum", "Instructions", "Executed, of this line"]] : [];
    const header = codeHeader([...heads, ["number", "Line"], ["line", ""]]);
    this.source = this.list("source", header, this.lines.length, (row, at) => this.fillLine(row, this.lines[at]));
    // As high as its lines, as far as the style allows.
    this.source.host.style.height = `${this.lines.length * CODE_ROW + CODE_HEAD}px`;
    this.source.host.style.setProperty("--wide", longest(this.texts));
    this.source.host.addEventListener("click", (event) => {
      const item = this.lines[rowOf(event) ?? -1];
      if (item?.line !== undefined && this.hasCode[item.line]) this.choose(item.line, this.code, this.itemOf(item.line));
    });
    return [...parts, this.source.host];
  }

  /** The lines that could be read, with a title where a file begins, and gaps. */
  sourceItems() {
    const { file, number, unread } = this.listing;
    const items = [];
    for (let line = 0; line < number.length; line++) {
      if (unread.includes(file[line])) continue;
      const isNew = line === 0 || file[line] !== file[line - 1];
      if (isNew) items.push({ title: this.files[file[line]] });
      else if (!isNew && number[line] !== number[line - 1] + 1) items.push({ title: "⋯" });
      items.push({ line });
    }
    return items;
  }

  fillLine(row, { line, title }) {
    const { number } = this.listing;
    const isLine = line !== undefined;
    const has = isLine && this.hasCode[line] === 1 && this.executions;
    row.cells.line.textContent = isLine ? this.texts[line] : visible(title);
    row.cells.number.textContent = isLine ? number[line] : "";
    if (this.executions) {
      row.cells.times.textContent = has ? grouped(this.most[line]) : "";
      row.cells.sum.textContent = has ? grouped(this.sums[line]) : "";
    }
    row.classList.toggle("title", !isLine);
    row.classList.toggle("same", isLine && line === this.chosen);
    row.classList.toggle("blank", isLine && this.hasCode[line] === 0);
  }

  // Instructions.

  codePart() {
    const { listing } = this;
    this.items = this.codeItems();
    const heads = this.executions ? [["times", "Executed"]] : [];
    if (listing.taken) heads.push(["taken", "Taken", "Of conditional branches; of indirect ones how often each target"], ["fell", "Not taken", "Of conditional branches"]);
    const header = codeHeader([...heads, ["offset", "Offset"], ["line", "Instruction"], ["place", "Source"]]);
    this.code = this.list("instructions", header, this.items.length, (row, at) => this.fillInsn(row, this.items[at]));
    this.code.host.style.setProperty("--wide", longest([...listing.text, ...this.items.map(({ target = "" }) => target)]));
    this.code.host.addEventListener("click", (event) => {
      const item = this.items[rowOf(event) ?? -1];
      const line = item?.at === undefined ? -1 : listing.row[item.at];
      if (line >= 0) this.choose(line, this.source, this.lines.findIndex((item) => item.line === line));
    });
    return [make("h3", {}, "Instructions", make("small", {}, grouped(listing.text.length))), this.code.host];
  }

  codeItems() {
    const { gap, text } = this.listing;
    const items = [];
    for (let at = 0; at < text.length; at++) {
      if (gap[at] > 0) items.push({ title: `${counted(gap[at], "byte")} that were not executed` });
      const title = this.titleOf?.(at);
      if (title) items.push({ title });
      items.push({ at });
      items.push(...this.targetItems(at));
    }
    return items;
  }

  /** Where an indirect branch went, most often first. */
  targetItems(at) {
    this.went ??= new Map(this.listing.went ?? []);
    const all = this.went.get(at) ?? [];
    const items = all.slice(0, TARGETS).map(([target, times]) => ({ target: `  → ${target}`, times }));
    if (all.length <= TARGETS) return items;
    const rest = all.slice(TARGETS);
    const times = rest.reduce((sum, [, times]) => sum + times, 0);
    return [...items, { target: `  → ${counted(rest.length, "other place")}`, times }];
  }

  fillInsn(row, { at, title, target, times }) {
    const { listing } = this;
    const isInsn = at !== undefined;
    const { cells } = row;
    cells.line.textContent = visible(isInsn ? listing.text[at] : (target ?? title));
    cells.offset.textContent = isInsn ? `+0x${(listing.at[at] - listing.at[0]).toString(16)}` : "";
    cells.offset.title = isInsn ? `0x${listing.at[at].toString(16)}` : "";
    const line = isInsn ? listing.row[at] : -1;
    const isNew = line >= 0 && (at === 0 || listing.row[at - 1] !== line);
    cells.place.textContent = isNew ? visible(`${baseName(this.files[listing.file[line]])}:${listing.number[line]}`) : "";
    if (this.executions) cells.times.textContent = isInsn ? grouped(this.executions(at)) : "";
    if (listing.taken) {
      const taken = isInsn ? listing.taken[at] : null;
      cells.taken.textContent = target ? grouped(times) : taken === null ? "" : grouped(taken);
      cells.fell.textContent = taken === null ? "" : grouped(listing.count[at] - taken);
    }
    row.classList.toggle("title", title !== undefined);
    row.classList.toggle("target", target !== undefined);
    row.classList.toggle("same", isInsn && line >= 0 && line === this.chosen);
    row.classList.toggle("marked", isInsn && this.marked(at));
  }

  // Both.

  list(className, header, count, fill) {
    const host = make("div", { className: `scroller ${className}`, tabIndex: 0 });
    const keys = [...header.children].map((head) => head.dataset.key);
    const makeRow = () => {
      const cells = Object.fromEntries(keys.map((key) => [key, make("span", { className: classOfCode(key) })]));
      const row = make("div", { className: "row" }, ...Object.values(cells));
      row.cells = cells;
      return row;
    };
    const list = new List(host, header, makeRow, fill, CODE_ROW);
    list.count = count;
    return list;
  }

  /** Marks a line and its instructions; brings them into view in the other list. */
  choose(line, other, at) {
    this.chosen = line;
    this.source?.draw();
    this.code.draw();
    if (other && at >= 0) other.center(at);
  }

  itemOf(line) {
    return this.items.findIndex(({ at }) => at !== undefined && this.listing.row[at] === line);
  }

  /** Brings what was selected into view. */
  reveal() {
    this.source?.resized();
    this.code.resized();
    const first = this.items.findIndex(({ at }) => at !== undefined && this.marked(at));
    if (first < 0) return;
    this.code.center(first);
    const line = this.listing.row[this.items[first].at];
    if (line >= 0) this.choose(line, this.source, this.lines.findIndex((item) => item.line === line));
  }
}

function classOfCode(key) {
  if (key === "line" || key === "place") return key;
  return key === "number" || key === "offset" ? "number" : "number count";
}

function codeHeader(heads) {
  const header = make("div", { className: "row header" });
  for (const [key, text, title = ""] of heads) {
    const head = make("span", { className: `head ${classOfCode(key)}`, title }, text);
    head.dataset.key = key;
    header.append(head);
  }
  return header;
}

/** A line of source with its tabs as spaces. */
function shownSource(text) {
  const [first, ...others] = text.split("\t");
  const shown = others.reduce((shown, part) => shown + " ".repeat(TAB - (shown.length % TAB)) + part, first);
  return visible(shown);
}

/** Lines without what all of them begin with. */
function withoutMargin(lines) {
  const margin = lines.reduce((least, line) => (line.trim() ? Math.min(least, line.search(/\S/)) : least), Infinity);
  return Number.isFinite(margin) ? lines.map((line) => line.slice(margin)) : lines;
}

function longest(texts) {
  return texts.reduce((most, text) => Math.max(most, text.length), 10);
}
