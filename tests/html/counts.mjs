// The case of a page of `count`.

import assert from "node:assert/strict";
import { linesOf, listed, parsed } from "./code.mjs";
import { choose, rows, search, text } from "./look.mjs";
import { grouped } from "./oracle.mjs";

/** The rows of a table, whole, as one text each. */
function table(page, id) {
  return page.evaluate(`(({ head, head: { ${id}: table } }) => table.name.map((name, row) =>
    [head.modules[table.module[row]].path, table.at[row], name, table.executed[row], table.times[row], table.insns[row]].join(" ")))(everypath)`);
}

/** Each block of the graph of `work` was executed as often as the report says, and each of its edges is drawn. */
async function graph(page, { blocks }) {
  await search(page, "work");
  await page.press("Enter", "Home");
  await page.evaluate(`document.getElementById("graph").click()`);
  const drawn = await page.evaluate(`(({ graph }) => ({
    start: graph.start, edges: graph.edges.length, complete: graph.complete,
    heads: [...document.querySelectorAll(".graph .block")].map((block) => block.querySelector("text").textContent),
    paths: document.querySelectorAll(".graph .edge").length,
  }))(everypath.panel === null && everypath.listings.of(everypath.views[everypath.selected.id].table.function[everypath.selected.row]))`);
  assert.ok(drawn.complete && drawn.start.length > 3);
  assert.equal(drawn.paths, drawn.edges);
  assert.equal(drawn.heads.length, drawn.start.length);
  const own = blocks.filter((block) => block.function === "work");
  const executed = new Map(own.map((block) => [Number(block.offset), block.executed]));
  let checked = 0;
  drawn.start.forEach((start, number) => {
    if (!executed.has(start)) return;
    checked++;
    assert.equal(drawn.heads[number].replace(/ times?$/, ""), grouped(executed.get(start)));
  });
  assert.ok(checked >= 3, `${checked} blocks of work`);
  await page.evaluate(`document.getElementById("graph").click()`);
}

/** A program whose own path is a tag. */
export async function hostileCounts(page) {
  const evil = '<img src=x onerror="everypath.evil=1">';
  assert.ok((await text(page, "#command")).includes(evil));
  await search(page, "work");
  await page.press("Enter", "Home");
  assert.ok((await text(page, "#details .hint")).endsWith(evil));
  assert.ok((await text(page, "#one-module")).includes(evil));
  assert.equal(await page.evaluate(`document.querySelectorAll("img").length`), 0);
  assert.equal(await page.evaluate("everypath.evil"), undefined);
}

/** As large as doubles are exact. */
export async function largeCounts(page) {
  const sum = await page.evaluate("everypath.head.executed");
  assert.ok(sum <= Number.MAX_SAFE_INTEGER && sum > Number.MAX_SAFE_INTEGER - 3008);
  const [row] = await rows(page, "functions");
  assert.deepEqual([row.name, row.own], ["_start", grouped(sum)]);
}

export async function counts(page, report, oracle) {
  const [section] = report.sections;
  const sum = section.blocks.reduce((sum, { executed: count, instructions }) => sum + count * instructions, 0);
  assert.equal(sum, section.totals.executed);
  assert.ok((await text(page, "#totals")).startsWith(`${grouped(sum)} instructions executed, of `));
  await blocks(page, section);
  await functions(page, section, sum);
  await work(page, parsed(oracle));
  await graph(page, section);
  assert.equal(await page.evaluate(`document.querySelectorAll("img, b b").length`), 0);
  assert.equal(await page.evaluate("everypath.evil"), undefined);
}

/** Each thread by itself is as the report of it, and all of them together as the page at first. */
export async function countThreads(page, { sections }) {
  const values = () => page.evaluate(`Object.fromEntries(Object.entries(everypath.views).map(([id, { table }]) =>
    [id, { executed: [...table.executed], times: [...table.times], insns: [...table.insns], sum: table.sum }]))`);
  const all = await values();
  const places = await page.evaluate(`(({ head: { modules, functions, blocks } }) => ({
    blocks: blocks.at.map((at, row) => modules[blocks.module[row]].path + " " + at),
    functions: functions.name.map((name, row) => modules[functions.module[row]].path + " " + name),
  }))(everypath)`);
  const rowOf = new Map(places.blocks.map((place, row) => [place, row]));
  let checked = 0;
  const added = structuredClone(all);
  for (const { executed, times } of Object.values(added)) for (const list of [executed, times]) list.fill(0);
  assert.equal(await page.evaluate(`document.querySelectorAll("#threads option").length`), sections.length + 1);
  for (const [thread, section] of sections.entries()) {
    await choose(page, "#threads", String(thread));
    const name = await page.evaluate(`document.getElementById("threads").selectedOptions[0].text`);
    assert.ok(name.startsWith(`${section.process}: `) && name.includes(`, thread ${section.thread} (`), name);
    assert.ok(name.endsWith(`(${grouped(section.totals.executed)} instructions)`), name);
    const own = await values();
    for (const id of ["functions", "blocks"]) assert.equal(own[id].executed.reduce((sum, value) => sum + value, 0), section.totals.executed);
    const path = ({ module }) => section.modules[module].path ?? "[no file]";
    for (const block of section.blocks) {
      const row = rowOf.get(`${path(block)} ${Number(block.offset)}`);
      assert.equal(own.blocks.times[row], block.executed);
    }
    const sums = new Map();
    for (const block of section.blocks.filter((block) => path(block).endsWith("/prog1"))) {
      const key = `${path(block)} ${block.function}`;
      sums.set(key, (sums.get(key) ?? 0) + block.executed * block.instructions);
    }
    places.functions.forEach((place, row) => sums.has(place) && assert.equal(own.functions.executed[row], sums.get(place), place));
    checked += sums.size;
    // What is shown was executed by the thread.
    const shown = await page.evaluate("everypath.view.rows.length");
    assert.equal(shown, own.functions.insns.filter((insns) => insns > 0).length);
    for (const [id, table] of Object.entries(own)) {
      table.executed.forEach((value, row) => (added[id].executed[row] += value));
      const join = id === "lines" ? Math.max : (one, other) => one + other;
      table.times.forEach((value, row) => (added[id].times[row] = join(added[id].times[row], value)));
    }
    for (let row = 0; row < 10; row++) await codeOfThread(page, row, own.functions);
  }
  for (const [id, { executed, times }] of Object.entries(all)) {
    assert.deepEqual(added[id].executed, executed);
    if (id !== "lines") assert.deepEqual(added[id].times, times);
  }
  assert.ok(checked > 10, `${checked} functions`);
  await choose(page, "#threads", "-1");
  assert.deepEqual(await values(), all);
}

/** The instructions of a function are those of the thread. */
async function codeOfThread(page, row, { executed, times }) {
  await page.until("everypath.listings !== null");
  await page.evaluate(`everypath.select("functions", ${row})`);
  const { count, taken } = await page.evaluate("(({ count, taken }) => ({ count, taken }))(everypath.panel.listing)");
  assert.equal(count.reduce((sum, value) => sum + value, 0), executed[row]);
  assert.ok(times[row] === count[0] || times[row] === 0, "entered, if its first instruction is known");
  assert.ok(taken.every((taken, at) => taken === null || taken <= count[at]));
}

/** Each block, and the table in its orders. */
async function blocks(page, { blocks, modules }) {
  const found = (await table(page, "blocks")).map((row) => row.split(" "));
  const place = (path, at) => `${path} ${at}`;
  const expected = new Map(blocks.map((block) => [place(modules[block.module].path ?? "[no file]", Number(block.offset)), block]));
  assert.equal(found.length, blocks.length);
  for (const words of found) {
    const [path, at, ...rest] = words;
    const [executed, times, insns] = rest.slice(-3).map(Number);
    const block = expected.get(place(path, at));
    assert.deepEqual([times, insns, executed], [block.executed, block.instructions, block.executed * block.instructions]);
  }
  await page.press("2", "Home");
  const weights = blocks.map(({ executed: count, instructions }) => count * instructions).sort((a, b) => b - a);
  let shown = await rows(page, "blocks");
  assert.deepEqual(shown.map(({ own }) => own), weights.slice(0, shown.length).map(grouped));
  await page.click("#blocks .head[data-key=total]");
  await page.press("Home");
  shown = await rows(page, "blocks");
  const times = blocks.map(({ executed }) => executed).sort((a, b) => b - a);
  assert.deepEqual(shown.map(({ total }) => total), times.slice(0, shown.length).map(grouped));
  // What is selected is marked in its function.
  const { marked, count } = await page.evaluate(`(({ panel, selected: { row }, head: { blocks } }) => ({
    marked: panel.listing.at.filter((_, at) => panel.marked(at)).length, count: blocks.insns[row],
  }))(everypath)`);
  assert.equal(marked, count);
}

/** Together they executed everything; one module alone. */
async function functions(page, { blocks, modules }, sum) {
  const found = await page.evaluate("everypath.head.functions.executed.reduce((sum, value) => sum + value, 0)");
  assert.equal(found, sum);
  const at = await page.evaluate(`everypath.head.modules.findIndex(({ path }) => path.endsWith("/prog"))`);
  await page.press("1");
  await page.evaluate(`(() => {
    const select = document.getElementById("one-module");
    select.value = "${at}";
    select.dispatchEvent(new Event("change"));
  })()`);
  const shown = await rows(page, "functions");
  assert.ok(shown.length > 0 && shown.every(({ module }) => module === "prog"));
  const own = blocks.filter(({ module }) => modules[module].path?.endsWith("/prog")).reduce((sum, { executed: count, instructions }) => sum + count * instructions, 0);
  assert.equal(grouped(shown.reduce((sum, { own }) => sum + Number(own.replaceAll(",", "")), 0)), grouped(own));
  await page.evaluate(`(() => {
    const select = document.getElementById("one-module");
    select.value = "-1";
    select.dispatchEvent(new Event("change"));
  })()`);
}

/** The function of the oracle: each instruction, branch and line. */
async function work(page, oracle) {
  const expected = oracle.filter(({ executed }) => executed);
  await page.until("everypath.listings !== null");
  await search(page, "work");
  await page.press("Enter", "Home");
  assert.equal(await text(page, "#details h2"), "work");
  const sum = expected.reduce((sum, { executed }) => sum + Number(executed.replaceAll(",", "")), 0);
  const [row] = await rows(page, "functions");
  assert.deepEqual([row.name, row.own, row.total], ["work", grouped(sum), "1"]);
  const insns = (await listed(page, "code")).filter(({ offset }) => offset);
  const shown = insns.map(({ offset, times, taken }) => ({ at: Number(offset.slice(1)) + expected[0].at, executed: times, taken }));
  const first = shown.findIndex(({ at }) => at === expected[0].at);
  assert.equal(first, 0);
  assert.deepEqual(shown, expected.slice(0, shown.length).map(({ at, executed, taken }) => ({ at, executed, taken })));
  const branches = insns.filter(({ taken }) => taken !== "");
  const value = (text) => Number(text.replaceAll(",", ""));
  assert.ok(branches.length > 0 && branches.every(({ times, taken, fell }) => value(taken) + value(fell) === value(times)));
  assert.ok(branches.some(({ taken, fell }) => value(taken) > 0 && value(fell) > 0), "one went both ways");
  await linesOf(page, expected);
  // The table of lines has the same.
  await page.press("3");
  for (const { name, own, total } of (await rows(page, "lines")).filter(({ place }) => place === "work")) {
    const values = expected.filter(({ number }) => name.endsWith(`:${number}`)).map(({ executed }) => value(executed));
    assert.deepEqual([own, total], [grouped(values.reduce((all, count) => all + count, 0)), grouped(Math.max(...values))], name);
  }
  await page.press("Home");
  const marked = await page.evaluate(`(({ panel: { listing, marked } }) => new Set(listing.row.filter((_, at) => marked(at))).size)(everypath)`);
  assert.equal(marked, 1);
}

/** What indirect branches lead to stands below them, for all threads together. */
export async function countTargets(page) {
  await page.until("everypath.listings !== null");
  await search(page, "dispatch");
  await page.press("Enter", "Home");
  assert.equal(await text(page, "#details h2"), "dispatch");
  await page.evaluate(`(({ panel }) => panel.code.center(panel.items.findIndex(({ target }) => target)))(everypath)`);
  await page.until(`everypath.panel.code.rows.some((row) => !row.hidden && row.classList.contains("target"))`);
  const all = await listed(page, "code");
  const calls = all.flatMap(({ line, offset }, at) => (offset && /^call /.test(line) && all[at + 1]?.line.includes("→") ? [at] : []));
  assert.equal(calls.length, 1);
  const [call] = calls;
  const below = all.slice(call + 1);
  const targets = below.slice(0, below.findIndex(({ offset }) => offset));
  // 100 rounds: i % 3 is 0 once more than 1 and 2; ties in the order of their places.
  assert.deepEqual(targets.map(({ line, taken }) => [line.trim(), taken]).sort(), [
    ["→ one", "34"], ["→ three", "33"], ["→ two", "33"],
  ]);
  assert.equal(targets[0].taken, "34");
  assert.equal(all[call].times, "100");
  await linesAreMarked(page, call);
}

/** A click on an instruction behind the targets marks that one. */
async function linesAreMarked(page, call) {
  const behind = (await listed(page, "code")).findIndex(({ offset, place }, at) => at > call && offset && place);
  await page.evaluate(`everypath.panel.code.rows.filter((row) => !row.hidden).sort((a, b) => a.index - b.index)[${behind}].click()`);
  const after = await listed(page, "code");
  assert.ok(after[behind].isSame);
  assert.ok(after.every(({ isSame, offset }) => !isSame || offset));
}
