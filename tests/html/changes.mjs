// The cases of a page of two recordings.

import assert from "node:assert/strict";
import { boxes, choose, rows, search, text } from "./look.mjs";
import { changesOf, grouped, signed } from "./oracle.mjs";

/** Every node that the page shows as a path: its values before and after, itself and with what is below. */
function nodesOf(page, model) {
  return page.evaluate(`(() => {
    const { names, ${model}: model } = everypath, list = [];
    const key = (name) => (names.module(name) < 0 ? names.text[name] : names.moduleText(names.module(name)) + "!" + names.text[name]);
    const walk = (nodes, path) => {
      for (const node of nodes) {
        const here = path + "/" + key(model.name(node));
        list.push([here, model.ownBefore(node), model.own(node), model.totalBefore(node), model.total(node)].join(" "));
        walk(model.children(node), here);
      }
    };
    walk(model.roots(), "");
    return list;
  })()`);
}

function listed(tree, path = "") {
  return [...tree].flatMap(([key, { own, total, children }]) => {
    if (total[0] + total[1] === 0) return [];
    return [[`${path}/${key}`, ...own, ...total].join(" "), ...listed(children, `${path}/${key}`)];
  });
}

/** Each function with its callers, as far as there are any: the contexts by their last function. */
function callersOf(tree) {
  const roots = new Map();
  const walk = (nodes, above) => {
    for (const [key, { own, children }] of nodes) {
      const path = [key, ...above];
      let siblings = roots;
      for (const step of own[0] + own[1] > 0 ? path : []) {
        if (!siblings.has(step)) siblings.set(step, { own: [0, 0], children: new Map() });
        const node = siblings.get(step);
        node.total = node.own = node.own.map((value, side) => value + own[side]);
        siblings = node.children;
      }
      walk(children, path);
    }
  };
  walk(tree, []);
  return roots;
}

/** Every number of the tree, of the callers and of the functions, for each metric. */
async function numbers(page, comparison) {
  for (const [metric, name] of comparison.metrics.entries()) {
    await choose(page, "#metrics", String(metric));
    const [before, after] = comparison.totals[metric];
    assert.ok((await text(page, "#totals")).includes(`${grouped(before)} → ${grouped(after)} ${name}`));
    const tree = changesOf(comparison, metric);
    assert.deepEqual((await nodesOf(page, "callTree")).sort(), listed(tree).sort());
    assert.deepEqual((await nodesOf(page, "callerTree")).sort(), listed(callersOf(tree)).sort());
    await table(page, comparison, metric);
  }
}

/** Of basic blocks, which are executed and not called. */
export async function blockChanges(page, comparison) {
  assert.deepEqual(comparison.metrics, ["executions"]);
  await numbers(page, comparison);
  assert.equal(await text(page, "#tabs [data-tab=functions]"), "Basic blocks");
  assert.ok((await text(page, "#shown")).includes(" executions, "));
  await page.press("3", "Home");
  assert.ok(!/calls|function/i.test(await text(page, "#bar")));
  assert.ok(!/calls|function/i.test(await text(page, "#functions .header")));
}

/** The numbers, and then by mouse. */
export async function changes(page, comparison, folded) {
  await numbers(page, comparison);
  await treeByMouse(page, comparison);
  await flame(page, folded);
  await gone(page, comparison);
}

/** The table of functions in each order. */
async function table(page, comparison, metric) {
  await page.press("3", "Home");
  const values = comparison.functions.map(({ values }) => values[metric]).filter(([before, after]) => before + after > 0);
  assert.equal(await page.evaluate("everypath.functionsView.rows.length"), values.length);
  const orders = {
    change: ([before, after]) => after - before,
    before: ([before]) => before,
    own: ([, after]) => after,
  };
  for (const [key, value] of Object.entries(orders)) {
    await page.click(`#functions .head[data-key=${key}]`);
    await page.press("Home");
    const shown = await rows(page, "functions");
    const sorted = values.toSorted((a, b) => value(b) - value(a)).slice(0, shown.length);
    assert.deepEqual(shown.map(({ cells }) => cells[key]), sorted.map((pair) => (key === "change" ? signed(pair) : grouped(value(pair)))));
    // The least first.
    await page.click(`#functions .head[data-key=${key}]`);
    await page.press("Home");
    const [least] = await rows(page, "functions");
    assert.equal(least.cells[key], (([pair]) => (key === "change" ? signed(pair) : grouped(value(pair))))(values.toSorted((a, b) => value(a) - value(b))));
  }
  await page.click("#functions .head[data-key=share]");
  await page.press("1");
}

async function treeByMouse(page, comparison) {
  const metric = await page.evaluate("everypath.metric");
  const tree = changesOf(comparison, metric);
  await page.press("Home", "-", "ArrowRight");
  const [[, root]] = tree;
  const moved = ({ own, children }) => [...children.values()].reduce((sum, child) => sum + moved(child), Math.abs(own[1] - own[0]));
  const all = [...tree.values()].reduce((sum, node) => sum + moved(node), 0);
  const shown = (await rows(page, "tree")).slice(1);
  const children = [...root.children.values()].filter(({ total }) => total[0] + total[1] > 0).sort((a, b) => moved(b) - moved(a));
  shown.slice(0, children.length).forEach(({ cells }, at) => {
    const { total } = children[at];
    const share = (moved(children[at]) * 100) / all;
    assert.equal(cells.share, share > 0 && share < 0.005 ? "<0.01%" : `${share.toFixed(2)}%`);
    if (share === 0) return;
    assert.deepEqual([cells.before, cells.total, cells.change], [...total.map(grouped), signed(total)]);
    const rate = ((total[1] - total[0]) * 100) / total[0];
    if (Number.isFinite(rate) && total[1] > 0 && Math.abs(rate) >= 0.005) assert.equal(cells.growth, `${rate > 0 ? "+" : ""}${rate.toFixed(2)}%`);
  });
  // Each head puts the rows in its order; per cent is of what was before.
  const rate = ({ total: [before, after] }) => (before === after ? 0 : (after - before) / before);
  const orders = { before: ({ total }) => total[0], total: ({ total }) => total[1], change: ({ total }) => total[1] - total[0], growth: rate };
  for (const [key, value] of Object.entries(orders)) {
    await page.click(`#tree .head[data-key=${key}]`);
    await page.press("Home");
    const found = (await rows(page, "tree")).slice(1, 1 + children.length).map(({ cells }) => cells.change);
    const expected = children.toSorted((a, b) => value(b) - value(a)).slice(0, found.length);
    const same = expected.filter((node, at) => at > 0 && value(node) === value(expected[at - 1])).length;
    if (same === 0) assert.deepEqual(found, expected.map(({ total }) => signed(total)), key);
  }
  await page.click("#tree .head[data-key=share]");
  // The details of a context say the same as its row.
  await page.press("h");
  const selected = (await rows(page, "tree")).find(({ isSelected }) => isSelected);
  const said = await page.evaluate(`[...document.querySelectorAll("#of-context tr:nth-child(4) td")].map((cell) => cell.textContent)`);
  assert.equal(said[0], `${selected.cells.before} → ${selected.cells.total}`);
  assert.equal(said[1].split(" ")[0], selected.cells.change);
  await search(page, selected.name);
  assert.match(await text(page, "#found"), /^\d[\d,]*( of [\d,]+)? · /);
  await page.press("Escape", "Escape");
}

/** Widths are what was after; red is more than before in the box itself, blue less. */
async function flame(page, folded) {
  await page.press("2");
  const sum = folded.trim().split("\n").reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  for (const inverted of [false, true]) {
    await page.press("Escape");
    await page.until(`everypath.flameView.to - everypath.flameView.from === ${sum}`);
    await page.evaluate("everypath.flameView.scroller.scrollTop = 0");
    const drawn = await boxes(page);
    assert.ok(drawn.length > 3);
    const about = await page.evaluate(`(({ model, flameView }) => ${JSON.stringify(drawn.map(({ node }) => node))}.map((node) => ({
      width: model.total(node), change: model.own(node) - model.ownBefore(node), fill: flameView.fillOf(node, model.name(node)),
    })))(everypath)`);
    const { width } = await page.evaluate("({ width: everypath.flameView.width })");
    const colours = new Set();
    about.forEach(({ width: value, change, fill }, at) => {
      const { left, right } = drawn[at];
      assert.ok(Math.abs(right - left - (value * width) / sum) < 1);
      const hue = Number(fill.match(/ ([\d.]+)\)$/)?.[1]);
      assert.equal(change === 0 ? NaN : hue, change === 0 ? NaN : change > 0 ? 25 : 255, fill);
      if (change === 0) assert.ok(fill.startsWith("#"), fill);
      colours.add(Math.sign(change));
    });
    assert.ok(colours.has(1), "something grew");
    // A click zooms, and Escape shows all again.
    const box = drawn.findIndex(({ depth, left, right }) => depth === (inverted ? 0 : 1) && right - left > 30);
    const y = drawn[box].depth * 20 + 10;
    await page.point("#flame canvas", (drawn[box].left + drawn[box].right) / 2, y);
    const tip = await text(page, "#tip");
    assert.ok(tip.includes(`→ ${grouped(about[box].width)} `), tip);
    await page.click("#flame canvas", { x: (drawn[box].left + drawn[box].right) / 2, y });
    await page.until(`everypath.flameView.to - everypath.flameView.from === ${about[box].width}`);
    await page.click("#zoom-out");
    await page.until(`everypath.flameView.to - everypath.flameView.from === ${sum}`);
    await page.press("i");
  }
}

/** What is gone is in the tree and has no box. */
async function gone(page, comparison) {
  const metric = await page.evaluate("everypath.metric");
  const { name } = comparison.functions.find(({ values }) => values[metric][0] > 0 && values[metric][1] === 0);
  await page.press("3");
  await search(page, name);
  const row = (await rows(page, "functions")).find((row) => row.name === name);
  assert.deepEqual([row.cells.own, row.cells.growth], ["0", "gone"]);
  await page.press("Escape", "ArrowDown", "Home", "1");
  await page.evaluate(`everypath.selectName(everypath.names.text.indexOf(${JSON.stringify(name)}))`);
  assert.equal((await rows(page, "tree")).find(({ isSelected }) => isSelected).name, name);
  await page.press("2", "Enter");
  await page.until("everypath.flameView.to > everypath.flameView.from");
  await page.press("Escape");
}

/** A million contexts: the end of the list, each order, searching, and few elements. */
export async function manyChanges(page) {
  await page.press("*");
  const { count, contexts } = await page.evaluate("({ count: everypath.treeView.count, contexts: everypath.view.contexts.count })");
  assert.ok(count > 1_000_000 && count <= contexts, `${count} of ${contexts}`);
  for (const key of ["change", "before"]) {
    await page.click(`#tree .head[data-key=${key}]`);
    assert.equal(await page.evaluate("everypath.treeView.count"), count);
  }
  await page.press("End");
  assert.equal((await rows(page, "tree")).at(-1).index, count - 1);
  await search(page, "right_odd");
  await page.press("Enter", "Enter");
  assert.match(await text(page, "#found"), /^\d[\d,]* of \d[\d,]* · /);
  await page.press("Escape", "Escape", "2");
  assert.ok((await boxes(page)).length > 10);
  await page.press("i");
  assert.ok((await boxes(page)).length > 10);
  assert.ok((await page.evaluate(`document.querySelectorAll("*").length`)) < 3000);
}

/** Names that are tags, and the largest number. */
export async function hostileChanges(page) {
  const evil = `</script><img src=x onerror="everypath.evil=1">`;
  await page.press("*");
  const shown = await rows(page, "tree");
  assert.ok(shown.some(({ name }) => name === evil));
  const last = shown.find(({ name }) => name === "\\u{202e}cod\\u{a}");
  assert.deepEqual([last.cells.before, last.cells.total, last.cells.change], ["2", "9,007,199,254,740,990", "+9,007,199,254,740,988"]);
  await page.click("#tree .layer .row:nth-child(2) .text");
  await page.press("2");
  assert.ok((await boxes(page)).length > 1);
  await page.click("#notes summary");
  assert.equal(await page.evaluate(`document.querySelectorAll("img, b b").length`), 0);
  assert.equal(await page.evaluate("everypath.evil"), undefined);
}
