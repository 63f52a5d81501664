// The columns of numbers of the tree and of the table of functions, for one
// recording and for two.
//
// A column's `value` of a row (a node of a tree, a name of the table) is what rows
// are ordered by; `text` is what a cell shows, and `part` how long its bar is, of 1.

const valueOf = {
  own: (model, row) => model.own(row),
  total: (model, row) => model.total(row),
  contexts: (model, row) => model.contexts(row),
  moved: (model, row) => model.moved(row),
};

/** A number as it is. */
function plain(key, value, head, about) {
  return { key, className: `number ${key}`, value, text: (model, row) => grouped(value(model, row)), head, about };
}

/** Its share of all. */
function share(value, all, head, about) {
  const part = (model, row) => value(model, row) / all(model);
  const text = (model, row) => percent(value(model, row), all(model));
  return { key: "share", className: "share", value, part, text, head, about };
}

/** The change from one value to another. */
function change(key, before, after, head, about) {
  const value = (model, row) => model[after](row) - model[before](row);
  const text = (model, row) => (value(model, row) === 0 ? "" : signed(value(model, row)));
  return { key, className: `number change ${key}`, value, text, sign: value, head, about };
}

/** The same in per cent of the one before. */
function rate(before, after, about) {
  const value = (model, row) => {
    const [old, now] = [model[before](row), model[after](row)];
    return old === now ? 0 : (now - old) / old;
  };
  const text = (model, row) => (model[before](row) === model[after](row) ? "" : growth(model[before](row), model[after](row)));
  return { key: "growth", className: "number growth", value, text, sign: value, head: () => "%", about };
}

const sumOf = (model) => model.sum;
const allChanges = (model) => model.view.changes.sum;
const ofChange = "Share of all changes: how much changed in each context, more or less, added up";

/** Of the tree. */
const TREE_VALUES = [
  {
    ...plain("own", valueOf.own, (noun) => noun, (noun) => `${noun} in this context, without what it called`),
    text: (model, row) => (model.own(row) > 0 ? grouped(model.own(row)) : ""),
  },
  plain("total", valueOf.total, () => "In subtree", (noun) => `${noun} in this context and in everything below it`),
  share(valueOf.total, sumOf, () => "Share", () => "Share of all that is shown, with everything below"),
];

/** The same where it is known what contexts cut off after k callers cost in all. */
const withCallees = (model, row) => (model.withCallees ? model.withCallees(row) : model.total(row));
const TREE_FOLDED = [
  TREE_VALUES[0],
  plain("total", withCallees, () => "Inclusive", (noun) => `${noun} in this context and in everything called from there, each activation once`),
  share(withCallees, sumOf, () => "Share", () => "Share of all that is shown, with everything called from there"),
];

const TREE_CHANGES = [
  change("own", "ownBefore", "own", () => "Change here", (noun) => `More or less ${noun.toLowerCase()} in this context, without what it called`),
  plain("before", (model, row) => model.totalBefore(row), () => "Before", (noun) => `${noun} before, with everything below`),
  plain("total", valueOf.total, () => "After", (noun) => `${noun} after, with everything below`),
  change("change", "totalBefore", "total", () => "Change", () => "Change with everything below"),
  rate("totalBefore", "total", () => "Change in per cent of what was before, with everything below"),
  share(valueOf.moved, allChanges, () => "Of change", () => `${ofChange}, with everything below`),
];

/** Of the functions. */
const FUNCTION_VALUES = [
  plain("own", valueOf.own, (noun) => noun, (noun) => noun),
  share(valueOf.own, sumOf, () => "Share", () => "Share of all that is shown"),
  plain("contexts", valueOf.contexts, () => "Contexts", () => "In how many contexts"),
  plain("total", valueOf.total, () => "In subtree", (noun) => `${noun} of it and of everything below it; nothing twice`),
];

const FUNCTION_CHANGES = [
  change("change", "ownBefore", "own", () => "Change", (noun) => `More or less ${noun.toLowerCase()}, in all contexts together`),
  plain("before", (model, row) => model.ownBefore(row), () => "Before", (noun) => `${noun} before`),
  plain("own", valueOf.own, () => "After", (noun) => `${noun} after`),
  rate("ownBefore", "own", () => "Change in per cent of what was before"),
  share(valueOf.moved, allChanges, () => "Of change", () => ofChange),
  change("below", "totalBefore", "total", () => "In subtree", () => "Change of it and of everything below it; nothing twice"),
];

/** What is text follows the numbers. */
const TEXT_COLUMNS = [
  { key: "name", className: "name", about: () => "Order by name" },
  { key: "module", className: "module", about: () => "Order by module" },
  { key: "place", className: "place", about: () => "Order by source line" },
];

/** A way to compare rows by a column: those that matter most first where it is the same. */
function comparison(columns, { key, rising }, model, names, nameOf) {
  const sign = rising ? 1 : -1;
  const most = (a, b) => model.weight(b) - model.weight(a) || a - b;
  const column = columns.find((column) => column.key === key && column.value);
  if (column) {
    const compared = (a, b) => (a === b ? 0 : a < b ? -1 : 1);
    return (a, b) => sign * compared(column.value(model, a), column.value(model, b)) || most(a, b);
  }
  const text = {
    name: (name) => names.text[name],
    module: (name) => names.moduleText(names.module(name)),
    place: (name) => names.file(name),
  }[key];
  const line = key === "place" ? (name) => names.line(name) : () => 0;
  return (a, b) => {
    const [one, other] = [nameOf(a), nameOf(b)];
    const [left, right] = [text(one), text(other)];
    const texts = left < right ? -1 : left > right ? 1 : line(one) - line(other);
    return sign * texts || most(a, b);
  };
}

/** The order after a click on the head of a column: numbers fall at first, text rises. */
function nextOrder(order, key) {
  const isText = TEXT_COLUMNS.some((column) => column.key === key);
  return { key, rising: order.key === key ? !order.rising : isText };
}

/** An empty cell for each column of numbers. */
function makeCells(columns) {
  return columns.map((column) => {
    if (!column.part) return make("span", { className: column.className });
    return make("span", { className: column.className }, make("i"), make("span"));
  });
}

function fillCells(cells, columns, model, row) {
  columns.forEach((column, at) => {
    const cell = cells[at];
    const text = column.text(model, row);
    if (column.part) {
      cell.firstChild.style.width = `${100 * (column.part(model, row) || 0)}%`;
      cell.lastChild.textContent = text;
      return;
    }
    cell.textContent = text;
    if (!column.sign) return;
    const sign = column.sign(model, row);
    cell.classList.toggle("rose", sign > 0);
    cell.classList.toggle("fell", sign < 0);
  });
}

/** Says what the columns are called. */
function nameHeads(header, columns, noun, names) {
  for (const head of header.querySelectorAll(".head")) {
    const column = columns.find(({ key }) => key === head.dataset.key);
    head.textContent = names[column.key] ?? column.head(noun);
    head.title = column.about(noun);
  }
}

/** The module of a name and its colour. */
function putModule(dot, element, names, colours, name) {
  const module = names.module(name);
  element.textContent = visible(names.moduleText(module));
  element.title = module < 0 ? "" : visible(names.modules[module].path);
  colours.dot(dot, module);
}
