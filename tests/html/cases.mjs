// The cases of check.mjs.

import assert from "node:assert/strict";
import { boxes, choose, rows, search, text } from "./look.mjs";
import { functionsOf, grouped, isCalled, listed, totalOf, treeOf } from "./oracle.mjs";

// What the page holds, and what it shows.

/** The key of each name, as in oracle.mjs. */
const KEYS = `(() => {
  const { names } = everypath;
  const key = (name) => {
    if (!names.isFunction(name)) return names.text[name];
    const module = names.module(name);
    if (module < 0) return names.functions.address[name];
    return names.modules[module].path + "+" + names.functions.offset[name];
  };
  return names.text.map((_, name) => key(name));
})()`;

/** Every node of the tree or of the callers: [parent, key, own, total]. */
async function nodesOf(page, model) {
  return page.evaluate(`(() => {
    const keys = ${KEYS}, model = everypath.${model}, list = [], stack = [];
    for (const root of model.roots()) stack.push([root, -1]);
    while (stack.length > 0) {
      const [node, parent] = stack.pop();
      list.push([parent, keys[model.name(node)], model.own(node), model.total(node)]);
      const at = list.length - 1;
      for (const child of model.children(node)) stack.push([child, at]);
    }
    return list;
  })()`);
}

/** The same as sorted paths with what `number` says. */
function paths(nodes, number) {
  const texts = [];
  for (const [parent, key] of nodes) texts.push(`${parent < 0 ? "" : texts[parent]}/${key}`);
  const list = nodes.map(([, key, own, total], at) => [texts[at], number(key, own, total)]);
  return list.filter(([, text]) => text !== undefined).map(([path, text]) => `${path} ${text}`).sort();
}

/** Everything that may be chosen, with which forests of the report that is. */
function groups(report) {
  const list = [["all", () => true]];
  let thread = 0;
  report.processes.forEach((process, at) => {
    const forests = process.forests.filter(({ kind }) => kind === "k-sf");
    if (forests.length > 0 && report.processes.length > 1) list.push([`p${at}`, (p) => p === at]);
    for (const { threads } of forests) {
      if (forests.length > 1) list.push([`t${thread}`, (p, forest) => p === at && forest.threads[0] === threads[0]]);
      thread++;
    }
  });
  return list;
}

/** Every number of every view, of a recording with infinite k. */
export async function numbers(page, report, textReport) {
  assert.equal(await text(page, "#totals"), textReport.split("\n")[2]);
  assert.ok((await text(page, "#about")).startsWith(textReport.split("\n")[1]));
  const options = await page.evaluate(`[...document.querySelectorAll("#threads option")].map(({ value }) => value)`);
  const all = groups(report);
  assert.deepEqual(options, all.map(([value]) => value));
  assert.ok(all.length >= 5, "several processes, and one with several threads");
  for (const [value, wanted] of all) {
    await choose(page, "#threads", value);
    const tree = treeOf(report, "k-sf", wanted);
    const counted = (key, { own, total }) => (total > 0 ? `${own} ${total}` : undefined);
    const nodes = await nodesOf(page, "callTree");
    assert.deepEqual(paths(nodes, (_, own, total) => `${own} ${total}`), listed(tree, counted));
    const functions = functionsOf(tree);
    const shown = await text(page, "#shown");
    if (value === "all") {
      assert.equal(totalOf(tree), report.totals.calls);
      assert.equal(functions.size, report.totals.functions);
    } else {
      assert.ok(shown.startsWith(`${grouped(totalOf(tree))} of ${grouped(report.totals.calls)} calls, `), shown);
      assert.ok(shown.endsWith(`${grouped(functions.size)} functions`), shown);
    }
    await callers(page, treeOf(report, "k-ccf", wanted));
  }
}

/** The callers are the k-calling-context forest. */
async function callers(page, forest) {
  const functions = new Map([...forest].filter(([key]) => isCalled(key)));
  const expected = listed(functions, (_, { own }) => String(own));
  const nodes = await nodesOf(page, "callerTree");
  assert.deepEqual(paths(nodes, (_, own) => String(own)), expected);
}

/** A finite k: callers exactly, and trees below what was not kept. */
export async function finite(page, report, textReport) {
  assert.equal(await text(page, "#totals"), textReport.split("\n")[2]);
  const nodes = await nodesOf(page, "callTree");
  const own = nodes.reduce((sum, [, , value]) => sum + value, 0);
  assert.equal(own, report.totals.calls);
  assert.ok(nodes.some(([parent, key]) => parent < 0 && key === "… callers beyond k = 2"));
  await callers(page, treeOf(report, "k-ccf", () => true));
  assert.match(await text(page, "#notes"), /k = 2: a context is kept with 2 callers/);
}

/** The ways through the page of a recording with infinite k. */
export async function clicks(page, report) {
  const tree = treeOf(report, "k-sf", () => true);
  await treeByMouse(page, tree, report);
  await treeByKeys(page);
  await searching(page, report);
  await table(page, tree, report);
  await flame(page, report);
  await callersByMouse(page, report);
  await modules(page, tree, report);
}

function byTotal(children) {
  return [...children.values()].filter(({ total }) => total > 0).sort((a, b) => b.total - a.total);
}

/** Own and total of rows, without names. */
function pairs(list) {
  return list.map(({ own, total }) => `${own || 0} ${total}`);
}

function expectedPairs(nodes) {
  return nodes.map(({ own, total }) => `${grouped(own)} ${grouped(total)}`);
}

async function treeByMouse(page, tree, report) {
  let shown = await rows(page, "tree");
  const roots = byTotal(tree);
  assert.deepEqual(pairs(shown).slice(0, 1), expectedPairs(roots).slice(0, 1));
  const children = byTotal(roots[0].children);
  if (shown[0].twist === "▸") await page.click("#tree .row:not(.header) .twist");
  shown = await rows(page, "tree");
  assert.deepEqual(pairs(shown).slice(1, 1 + children.length), expectedPairs(children));
  assert.equal(shown[0].share, `${((roots[0].total * 100) / report.totals.calls).toFixed(2)}%`);
  // Closing and opening leaves the same.
  await page.click("#tree .row:not(.header) .twist");
  assert.deepEqual(pairs(await rows(page, "tree")), expectedPairs(roots));
  await page.click("#tree .row:not(.header) .text", { count: 2 });
  assert.deepEqual(pairs(await rows(page, "tree")), pairs(shown));
  // Order by what was called here, the least first, and back.
  await page.click("#tree .head[data-key=own]");
  await page.click("#tree .head[data-key=own]");
  const rising = (await rows(page, "tree")).slice(1, 1 + children.length).map(({ own }) => own);
  const expected = children.map(({ own }) => own).sort((a, b) => a - b);
  assert.deepEqual(rising, expected.map((own) => (own > 0 ? grouped(own) : "")));
  await page.click("#tree .head[data-key=total]");
}

async function treeByKeys(page) {
  await page.press("Home");
  assert.ok((await rows(page, "tree"))[0].isSelected);
  await page.press("-", "ArrowRight", "ArrowRight");
  let shown = await rows(page, "tree");
  assert.ok(shown[1].isSelected && shown.length > 1);
  await page.press("ArrowLeft", "ArrowLeft");
  assert.equal((await rows(page, "tree")).findIndex(({ isSelected }) => isSelected), 0);
  await page.press("h");
  const path = await page.evaluate(`[...document.querySelectorAll("#of-context .path li")].map((li) => li.textContent)`);
  shown = await rows(page, "tree");
  const selected = shown.find(({ isSelected }) => isSelected);
  assert.equal(selected.name, path.at(-1));
  const hottest = await page.evaluate(`(() => {
    const { callTree } = everypath, path = [];
    let nodes = callTree.roots(), own = 0;
    for (;;) {
      const next = [...nodes].sort((a, b) => callTree.total(b) - callTree.total(a))[0];
      if (next === undefined || (path.length > 1 && own >= callTree.total(next))) return path;
      path.push(everypath.names.text[callTree.name(next)]);
      own = callTree.own(next);
      nodes = callTree.children(next);
    }
  })()`);
  assert.deepEqual(path, hottest);
  const numbers = await page.evaluate(`[...document.querySelectorAll("#of-context .numbers tr")].map((row) => row.cells[0].textContent)`);
  assert.deepEqual(numbers, [selected.own || "0", selected.total]);
  await page.press("End");
  const last = await page.evaluate(`everypath.treeView.count - 1`);
  assert.equal((await rows(page, "tree")).at(-1).index, last);
}

/** From match to match in the order of the rows. */
async function searching(page, report) {
  await search(page, "MALLOC");
  const expected = await page.evaluate(`(() => {
    const { view, names, contexts = view.contexts } = everypath;
    let found = 0;
    for (let i = 0; i < contexts.count; i++) {
      if (names.text[contexts.name[i]].toLowerCase().includes("malloc") && view.total(i) > 0) found++;
    }
    return found;
  })()`);
  assert.ok(expected > 3);
  assert.match(await text(page, "#found"), new RegExp(`^${grouped(expected)} · `));
  await page.press("Enter");
  const seen = [];
  for (let match = 1; match <= 4; match++) {
    assert.match(await text(page, "#found"), new RegExp(`^${match} of ${grouped(expected)} · `));
    const selected = (await rows(page, "tree")).find(({ isSelected }) => isSelected);
    assert.deepEqual(selected.marks.map((mark) => mark.toLowerCase()), ["malloc"]);
    seen.push(selected.index);
    await page.press("Enter");
  }
  assert.deepEqual(seen, [...seen].sort((a, b) => a - b), "from the top downwards");
  await page.click("#previous");
  assert.match(await text(page, "#found"), new RegExp(`^4 of `));
  // From the first one backwards: round the end.
  for (let match = 0; match < 4; match++) await page.click("#previous");
  assert.match(await text(page, "#found"), new RegExp(`^${grouped(expected)} of ${grouped(expected)} · `));
  await page.press("/", "Escape", "Escape");
  assert.equal(await text(page, "#found"), "");
  assert.ok(report.totals.calls > 0);
}

async function table(page, tree, report) {
  await page.click("[data-tab=functions]");
  // What was selected in the tree is shown there.
  assert.equal((await rows(page, "functions")).find(({ isSelected }) => isSelected).name, await text(page, "#details h2"));
  await page.press("Home");
  const functions = [...functionsOf(tree).values()].sort((a, b) => b.own - a.own);
  let shown = await rows(page, "functions");
  assert.deepEqual(shown.map(({ own }) => own), functions.slice(0, shown.length).map(({ own }) => grouped(own)));
  await page.click("#functions .head[data-key=contexts]");
  shown = await rows(page, "functions");
  const most = functions.map(({ contexts }) => contexts).sort((a, b) => b - a);
  assert.deepEqual(shown.map(({ contexts }) => contexts), most.slice(0, shown.length).map(grouped));
  await page.click("#functions .head[data-key=own]");
  await page.press("Home", "ArrowDown");
  shown = await rows(page, "functions");
  assert.ok(shown[1].isSelected);
  assert.equal(await text(page, "#details h2"), shown[1].name);
  const numbers = await page.evaluate(`[...document.querySelectorAll("#of-function .numbers tr")].map((row) => row.cells[0].textContent)`);
  assert.deepEqual(numbers, [shown[1].own, shown[1].total]);
  assert.match(await text(page, "#of-function"), new RegExp(`calls?, in ${shown[1].contexts} contexts?`));
  // All callers together called it as often as it was called.
  while (await page.evaluate(`!document.querySelector("#callers .more").hidden`)) await page.click("#callers .more");
  const sum = await page.evaluate(`[...document.querySelectorAll("#callers tr")]
    .reduce((sum, row) => sum + Number(row.cells[0].textContent.replaceAll(",", "")), 0)`);
  assert.equal(grouped(sum), shown[1].own);
  // Its contexts are in order, and lead to the tree.
  const contexts = await page.evaluate(`[...document.querySelectorAll("#contexts .go b")].map(({ textContent }) => Number(textContent.replaceAll(",", "")))`);
  assert.deepEqual(contexts, [...contexts].sort((a, b) => b - a));
  await page.click("#contexts .go");
  const selected = (await rows(page, "tree")).find(({ isSelected }) => isSelected);
  assert.deepEqual([selected.name, selected.own], [shown[1].name, grouped(contexts[0])]);
  // What is searched for is all that the table shows.
  await page.press("3");
  await search(page, "memcpy");
  shown = await rows(page, "functions");
  assert.ok(shown.length > 0 && shown.every(({ name, marks }) => name.includes("memcpy") && marks[0] === "memcpy"));
  // It is cleared, and then left.
  await page.press("Escape", "Escape");
  assert.ok(report.totals.functions > shown.length);
}

async function flame(page, report) {
  await page.press("2", "Escape");
  await page.evaluate(`everypath.flameView.scroller.scrollTop = 0`);
  await page.until(`everypath.flameView.to - everypath.flameView.from === everypath.callTree.sum`);
  let drawn = await boxes(page);
  const { width, sum } = await page.evaluate(`({ width: everypath.flameView.width, sum: everypath.callTree.sum })`);
  assert.equal(sum, report.totals.calls);
  const all = drawn.filter(({ depth }) => depth === 0);
  assert.ok(Math.abs(all.reduce((sum, { left, right }) => sum + right - left, 0) - width) < 5);
  // A box that is neither all nor nothing: its numbers, and the zoom to it.
  const box = drawn.find(({ depth, left, right }) => depth > 2 && right - left > 40 && right - left < width / 2);
  const about = await page.evaluate(`(({ callTree, names }, node) => ({
    name: names.text[callTree.name(node)], own: callTree.own(node), total: callTree.total(node),
  }))(everypath, ${box.node})`);
  const y = box.depth * 20 + 10;
  await page.point("#flame canvas", (box.left + box.right) / 2, y);
  const tip = await page.evaluate(`[...document.querySelectorAll("#tip > *")].map(({ textContent }) => textContent)`);
  const share = ((about.total * 100) / sum).toFixed(2);
  const noun = (count) => `${grouped(count)} call${count === 1 ? "" : "s"}`;
  assert.deepEqual(tip.slice(0, 3), [about.name, `${noun(about.total)} (${share}%) with everything below`, `${noun(about.own)} here`]);
  await page.click("#flame canvas", { x: (box.left + box.right) / 2, y });
  await page.until(`everypath.flameView.to - everypath.flameView.from === ${about.total}`);
  drawn = await boxes(page);
  const zoomed = drawn.find(({ node }) => node === box.node);
  assert.ok(zoomed.left === 0 && Math.abs(zoomed.right - width) < 2);
  assert.equal(await text(page, "#flame .crumbs button:last-child"), about.name);
  assert.equal(await text(page, "#details h2"), about.name);
  await page.click("#zoom-out");
  await page.until(`everypath.flameView.to - everypath.flameView.from === ${sum}`);
  // The wheel zooms, too; Escape shows all.
  await page.send("Input.dispatchMouseEvent", { type: "mouseWheel", x: 300, y: 300, deltaX: 0, deltaY: -100, modifiers: 2 });
  await page.until(`everypath.flameView.to - everypath.flameView.from < ${sum}`);
  await page.press("Escape");
  await page.until(`everypath.flameView.to - everypath.flameView.from === ${sum}`);
}

async function callersByMouse(page, report) {
  await page.click("#directions [data-inverted='1']");
  const drawn = await boxes(page);
  assert.ok(drawn.some(({ depth }) => depth > 0));
  await page.press("1", "Home");
  const before = await rows(page, "tree");
  const functions = await page.evaluate(`everypath.view.perName().own.toSorted().reverse().slice(0, ${before.length}).join()`);
  assert.equal(before.map(({ own }) => own.replaceAll(",", "")).join(), functions);
  await page.press("ArrowRight");
  const after = await rows(page, "tree");
  const found = after.length >= before.length && after[1].name !== before[1].name;
  assert.ok(found, "its callers are below it");
  const callers = await page.evaluate(`[...document.querySelectorAll("#callers tr")].map((row) => [...row.cells].map((cell) => cell.textContent))`);
  const shown = after.slice(1, 1 + callers.length).map(({ own, name }) => [own, name]);
  assert.deepEqual(shown, callers.map(([own, , name]) => [own, name]));
  // The hottest callers lead to the start of a thread; the path is shown as it was called.
  await page.press("h");
  const path = await page.evaluate(`[...document.querySelectorAll("#of-callers .path li")].map((li) => li.textContent)`);
  assert.deepEqual([path[0], path.at(-1)], ["[thread]", before[0].name]);
  assert.ok(report.totals.calls > 0);
  await page.press("i");
}

async function modules(page, tree, report) {
  const wanted = [...functionsOf(tree)].filter(([key]) => /\/libc\.so\.6\+/.test(key));
  const sum = wanted.reduce((sum, [, { own }]) => sum + own, 0);
  await page.click("#modules summary");
  const at = await page.evaluate(`[...document.querySelectorAll("#modules label")].findIndex(({ textContent }) => textContent.startsWith("libc.so.6")) + 1`);
  assert.ok(at > 0);
  // The first child is the button for all.
  await page.click(`#modules label:nth-of-type(${at}) input`);
  const shown = await text(page, "#shown");
  assert.ok(shown.startsWith(`${grouped(sum)} of ${grouped(report.totals.calls)} calls, `), shown);
  assert.ok(shown.endsWith(`${grouped(wanted.length)} functions`), shown);
  await page.press("3");
  const listed = await rows(page, "functions");
  assert.ok(listed.every(({ module }) => module === "libc.so.6"));
  // The menu is still open.
  await page.click("#all-modules");
  assert.ok(await page.evaluate(`document.getElementById("shown").hidden`));
  await page.press("Escape");
  assert.equal(await page.evaluate(`document.getElementById("modules").open`), false);
}

/** Names that are tags, commands that are tags, and the largest number. */
export async function hostile(page) {
  const evil = `</script><img src=x onerror="everypath.evil=1">`;
  assert.equal(await page.evaluate("document.title"), `'${evil}' '</title>' – everypath`);
  assert.equal(await text(page, "#command"), `'${evil}' '</title>'`);
  await page.press("*");
  const shown = await rows(page, "tree");
  assert.deepEqual(shown.map(({ name }) => name), ["[thread]", evil, "\\u{202e}cod\\u{a}"]);
  assert.equal(shown[0].total, "9,007,199,254,740,991");
  assert.equal(shown[1].own, "1");
  assert.equal(shown[2].own, "9,007,199,254,740,990");
  await page.click("#tree .layer .row:nth-child(2) .text");
  assert.equal(await text(page, "#details h2"), evil);
  assert.match(await text(page, "#details dl"), /\/<b>bin<\/b>\/&amp;/);
  await page.press("2");
  const box = (await boxes(page)).find(({ depth }) => depth === 1);
  await page.point("#flame canvas", (box.left + box.right) / 2, 30);
  assert.equal(await text(page, "#tip b"), evil);
  await search(page, "</script>");
  assert.match(await text(page, "#found"), /^1 of 1 · 100.00%|^1 · 100.00%/);
  assert.equal(await page.evaluate(`document.querySelectorAll("img, b b").length`), 0);
  assert.equal(await page.evaluate("everypath.evil"), undefined);
}

/** Nothing was called. */
export async function nothing(page) {
  assert.match(await text(page, "#totals"), /, 0 calls$/);
  for (const tab of ["1", "2", "3"]) {
    await page.press(tab, "i");
    assert.equal(await page.evaluate(`document.getElementById("empty").hidden`), false);
  }
  await page.press("1", "h", "*", "-", "Home", "ArrowRight", "Enter");
}

/** Nodes with something counted at or below them. */
function counted(tree) {
  const nodes = [...tree.values()].filter(({ total }) => total > 0);
  return nodes.reduce((count, { children }) => count + counted(children), nodes.length);
}

/** A page opens on instructions, with the hottest path unfolded and the hottest functions beside it. */
export async function opening(page, report) {
  const { own, children } = instructionsOf(report);
  const total = (at) => own[at] + children[at].reduce((sum, child) => sum + total(child), 0);
  const path = [0];
  let at = 0;
  for (;;) {
    const next = children[at].reduce((best, child) => (best < 0 || total(child) > total(best) ? child : best), -1);
    if (next < 0 || own[at] >= total(next)) break;
    path.push(next);
    at = next;
  }
  assert.ok(path.length > 3);
  assert.equal(await page.evaluate("everypath.noun"), "instruction");
  assert.equal(await text(page, "#tree .head[data-key=own]"), "Instructions");
  const shown = await rows(page, "tree");
  const values = (index) => [grouped(own[index]), grouped(total(index))];
  const expected = path.map(values);
  const opened = shown.filter(({ twist }) => twist === "▾").map((row) => [row.own || "0", row.total]);
  assert.deepEqual(opened, expected.slice(0, -1));
  assert.ok(shown.every(({ isSelected }) => !isSelected));
  const functions = new Map();
  report.processes[0].forests[0].nodes.forEach(([, label], node) => {
    functions.set(label, (functions.get(label) ?? 0) + own[node]);
  });
  // Those of no context stand among them.
  const outside = report.totals.instructions_outside;
  const most = [...functions.values(), outside].sort((a, b) => b - a).slice(0, 30);
  const listed = await page.evaluate(`[...document.querySelectorAll("#hottest tr")].map((row) => row.cells[0].textContent)`);
  assert.deepEqual(listed, most.map(grouped));
  const name = await text(page, "#hottest tr:first-child button");
  await page.click("#hottest tr:first-child button");
  assert.equal(await text(page, "#details h2"), name);
}

/** Of a report of one thread: instructions of each node itself, and its children. */
function instructionsOf({ processes: [{ forests: [{ nodes, costs }] }] }) {
  const children = nodes.map(() => []);
  nodes.forEach(([parent], at) => parent >= 0 && children[parent].push(at));
  return { own: costs.instructions, children };
}

/** A million contexts: the end of the list, searching, and few elements. */
export async function million(page, report) {
  const tree = treeOf(report, "k-sf", () => true);
  const contexts = counted(tree);
  assert.ok(contexts > 1_000_000);
  await page.press("*");
  assert.equal(await page.evaluate("everypath.treeView.count"), contexts);
  await page.press("End");
  let shown = await rows(page, "tree");
  assert.equal(shown.at(-1).index, contexts - 1);
  assert.ok(shown.at(-1).isSelected);
  // The bar to the middle and to the end; then three notches upwards.
  await page.evaluate(`(({ scroller }) => { scroller.scrollTop = scroller.scrollHeight / 2; })(everypath.treeView)`);
  await page.settle();
  shown = await rows(page, "tree");
  assert.ok(Math.abs(shown[0].index - contexts / 2) < contexts / 100, `row ${shown[0].index}`);
  const first = shown[0].index;
  await page.send("Input.dispatchMouseEvent", { type: "mouseWheel", x: 300, y: 400, deltaX: 0, deltaY: -240 });
  await page.until(`Math.round((${first} - everypath.treeView.list.top / 24)) >= 9`);
  await page.settle();
  assert.equal((await rows(page, "tree"))[0].index, first - 10);
  await page.evaluate(`(({ scroller }) => { scroller.scrollTop = scroller.scrollHeight; })(everypath.treeView)`);
  await page.settle();
  shown = await rows(page, "tree");
  assert.equal(shown.at(-1).index, contexts - 1);
  await search(page, "right_odd");
  const odd = await page.evaluate(`everypath.search.contexts`);
  const id = report.processes.flatMap(({ functions }) => functions).find(({ name }) => name === "right_odd");
  const expected = [...functionsOf(tree)].find(([key]) => key.endsWith(`growth+${id.file_offset}`))[1];
  assert.deepEqual([odd, grouped(expected.contexts)], [expected.contexts, (await text(page, "#found")).split(" ")[0]]);
  await page.press("Enter", "Enter", "Enter");
  assert.match(await text(page, "#found"), new RegExp(`^\\d[\\d,]* of ${grouped(odd)} · `));
  shown = await rows(page, "tree");
  assert.equal(shown.find(({ isSelected }) => isSelected).name, "right_odd");
  await page.press("/", "Escape", "Escape", "2");
  assert.ok((await boxes(page)).length > 10);
  await page.press("i");
  assert.ok((await boxes(page)).length > 10);
  assert.ok((await page.evaluate(`document.querySelectorAll("*").length`)) < 3000);
}

/** Whole contexts that were folded: every node and function has what it cost in all. */
export async function folded(page, report) {
  const places = ({ modules }, { module, file_offset: offset, pc }) => (module === null ? pc : `${modules[module].path}+${offset}`);
  const expected = { nodes: new Map(), functions: new Map() };
  const metric = await page.evaluate("everypath.metric");
  const named = await page.evaluate("everypath.data.head.metrics.map(({ noun }) => `${noun}s`)");
  for (const process of report.processes) {
    const functions = new Map(process.functions.map((known) => [known.id, places(process, known)]));
    for (const { kind, nodes, labels, inclusive } of process.forests) {
      const values = inclusive[named[metric]];
      const paths = [];
      nodes.forEach(([parent, label], at) => {
        paths.push([...(parent < 0 ? [] : paths[parent]), functions.get(label) ?? labels[label]]);
        const map = kind === "k-sf" ? expected.nodes : parent < 0 ? expected.functions : null;
        if (map && values[at] > 0) map.set(paths[at].join(";"), (map.get(paths[at].join(";")) ?? 0) + values[at]);
      });
    }
  }
  const found = await page.evaluate(`(({ data: { contexts, head }, names, view }) => {
    const place = (name) => {
      if (!names.isFunction(name)) return names.text[name];
      const { module, offset, address } = head.functions;
      return module[name] < 0 ? address[name] : head.modules[module[name]].path + "+" + offset[name];
    };
    const isUnknown = (name) => names.text[name].includes(" callers beyond k = ");
    const nodes = Array.from(view.inclusive.nodes, (value, node) =>
      [contexts.path(node).map((at) => contexts.name[at]).filter((name) => !isUnknown(name)).map(place).join(";"), value]);
    const functions = Array.from(view.inclusive.functions, (value, name) => [place(name), value]);
    return { nodes: nodes.filter(([, value]) => value > 0), functions: functions.filter(([, value]) => value > 0) };
  })(everypath)`);
  assert.deepEqual(new Map(found.nodes), expected.nodes);
  const isFunction = ([name]) => !/^[_[]/.test(name);
  assert.deepEqual(new Map(found.functions), new Map([...expected.functions].filter(isFunction)));
  assert.ok(expected.nodes.size > 20);
  assert.equal(await text(page, "#tree .head[data-key=total]"), "Inclusive");
}
