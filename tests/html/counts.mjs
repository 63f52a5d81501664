// The case of a page of `count`.

import assert from "node:assert/strict";
import { linesOf, listed, parsed } from "./code.mjs";
import { rows, search, text } from "./look.mjs";
import { grouped } from "./oracle.mjs";

/** The rows of a table, whole, as one text each. */
function table(page, id) {
  return page.evaluate(`(({ head, head: { ${id}: table } }) => table.name.map((name, row) =>
    [head.modules[table.module[row]].path, table.at[row], name, table.executed[row], table.times[row], table.insns[row]].join(" ")))(everypath)`);
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
  assert.equal(await page.evaluate(`document.querySelectorAll("img, b b").length`), 0);
  assert.equal(await page.evaluate("everypath.evil"), undefined);
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
