// Numbers, names and elements as they are shown.

const GROUPED = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** `1234567` as `1,234,567`, exactly. */
function grouped(value) {
  return GROUPED.format(value);
}

/** `3 calls`, `1 call`, `2 processes`. */
function counted(value, noun) {
  const plural = noun.endsWith("s") ? "es" : "s";
  return `${grouped(value)} ${noun}${value === 1 ? "" : plural}`;
}

/** Share of `total` as in the text report. */
function percent(value, total) {
  const share = total > 0 ? (value * 100) / total : 0;
  return value > 0 && share < 0.005 ? "<0.01%" : `${share.toFixed(2)}%`;
}

/** A change with its sign: `+1,234`, `-5`, `0`. */
function signed(change) {
  return change > 0 ? `+${grouped(change)}` : grouped(change);
}

/** A change in per cent of the value before, as in the text report. */
function growth(before, after) {
  if (before === after) return "0.00%";
  if (before === 0) return "new";
  if (after === 0) return "gone";
  const share = ((after - before) * 100) / before;
  const sign = share > 0 ? "+" : "-";
  const size = Math.abs(share);
  if (size < 0.005) return `${sign}<0.01%`;
  return `${sign}${size.toFixed(size < 1000 ? 2 : 0)}%`;
}

function baseName(path) {
  return path.slice(path.replace(/\/+$/, "").lastIndexOf("/") + 1);
}

/** Characters that would not be seen, or would change how others are. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** A text of the recording, all of it visible. */
function visible(text) {
  return text.replace(UNSEEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** An element with attributes or properties, and children; texts are texts. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Colours of modules: so many, those with most calls, have one of their own. */
const HUES = 8;

class Colours {
  /** @param weights value of each module */
  constructor(weights) {
    const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a] || a - b);
    this.ranks = new Array(weights.length);
    order.forEach((module, rank) => (this.ranks[module] = rank));
  }

  /** Number of the hue of a module, -1 for the colour of all others. */
  hue(module) {
    const rank = module < 0 ? HUES : this.ranks[module];
    return rank < HUES ? rank : -1;
  }

  /** Paints the dot of a module, or of no module. */
  dot(element, module) {
    const hue = this.hue(module);
    element.className = module < 0 ? "dot none" : hue < 0 ? "dot other" : "dot";
    element.style.setProperty("--hue", hue < 0 ? "" : `var(--hue-${hue})`);
  }
}
