// What a page must show, counted by the slow way from the JSON report.
//
// A tree is a map of keys to { own, total, children }; a key is a function's
// place, or the name of what is no function.

/** Of some forests of the JSON report: `wanted(process, forest)` says which. */
export function treeOf(report, kind, wanted) {
  const roots = new Map();
  report.processes.forEach((process, at) => {
    for (const forest of process.forests) {
      if (forest.kind === kind && wanted(at, forest)) add(roots, process, forest);
    }
  });
  sum(roots);
  return roots;
}

export function isCalled(key) {
  return !/^(\[thread\]|__root__|\[signal \d+\])$/.test(key);
}

function add(roots, process, forest) {
  const functions = new Map(process.functions.map((known) => [known.id, known]));
  const key = (label) => {
    const known = functions.get(label);
    if (!known) return forest.labels[label];
    return known.module === null ? known.pc : `${process.modules[known.module].path}+${known.file_offset}`;
  };
  const nodes = [];
  for (const [parent, label, count] of forest.nodes) {
    const siblings = parent < 0 ? roots : nodes[parent].children;
    const name = key(label);
    if (!siblings.has(name)) siblings.set(name, { own: 0, total: 0, children: new Map() });
    const node = siblings.get(name);
    if (isCalled(name) || forest.kind === "k-ccf") node.own += count;
    nodes.push(node);
  }
}

function sum(nodes) {
  let all = 0;
  for (const node of nodes.values()) all += node.total = node.own + sum(node.children);
  return all;
}

/** Per key: value and number of contexts. */
export function functionsOf(tree, functions = new Map()) {
  for (const [key, node] of tree) {
    if (node.own > 0) {
      const known = functions.get(key) ?? { own: 0, contexts: 0 };
      known.own += node.own;
      known.contexts++;
      functions.set(key, known);
    }
    functionsOf(node.children, functions);
  }
  return functions;
}

/** Sums over the whole tree. */
export function totalOf(tree) {
  return [...tree.values()].reduce((all, node) => all + node.total, 0);
}

export function grouped(value) {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** As a sorted list of paths with numbers, to be compared. */
export function listed(tree, number, path = "", list = []) {
  for (const [key, node] of tree) {
    const here = `${path}/${key}`;
    const text = number(key, node, path);
    if (text !== undefined) list.push(`${here} ${text}`);
    listed(node.children, number, here, list);
  }
  return path === "" ? list.sort() : list;
}

/** The same of the JSON of a comparison: nodes are { before, after }, themselves and with everything below. */
export function changesOf(comparison, metric) {
  const roots = new Map();
  const nodes = [];
  for (const [parent, at, ...figures] of comparison.contexts) {
    const { name, module } = comparison.functions[at];
    const siblings = parent < 0 ? roots : nodes[parent].children;
    const [before, after] = figures[metric];
    const node = { own: [before, after], total: [before, after], children: new Map() };
    const key = module === null ? name : `${module}!${name}`;
    // Siblings of one name in one module are one.
    if (siblings.has(key)) throw new Error(`${key} stands twice`);
    siblings.set(key, node);
    nodes.push(node);
  }
  comparison.contexts.toReversed().forEach(([parent], back) => {
    const node = nodes[nodes.length - 1 - back];
    if (parent >= 0) nodes[parent].total = nodes[parent].total.map((value, side) => value + node.total[side]);
  });
  return roots;
}

/** A change with its sign. */
export function signed([before, after]) {
  return after > before ? `+${grouped(after - before)}` : after < before ? `-${grouped(before - after)}` : "";
}
