// The cases of code and source beside the tree. The oracle is a line per instruction of
// the function `work`: offset, line, and how often it was executed and taken.

import assert from "node:assert/strict";
import { search, text } from "./look.mjs";
import { grouped } from "./oracle.mjs";

export function parsed(oracle) {
  return oracle.trim().split("\n").map((line) => {
    const [at, number, executed = "", taken = ""] = line.split(" ");
    return { at: Number(at), number: Number(number), executed, taken };
  });
}

/** The visible rows of the source or of the instructions, as texts by column. */
export function listed(page, list) {
  return page.evaluate(`((app) => {
    const panel = app.panel ?? app.details.panel;
    const keys = [...panel.${list}.header.children].map((head) => head.dataset.key);
    return panel.${list}.rows.filter((row) => !row.hidden).sort((a, b) => a.index - b.index)
      .map((row) => Object.fromEntries([...row.children].map((cell, at) => [keys[at], cell.textContent]).concat([["isSame", row.classList.contains("same")]])));
  })(everypath)`);
}

async function openCode(page, query) {
  await page.until("everypath.listings !== null");
  await search(page, query);
  await page.press("Enter", "Escape", "Escape", "c");
}

/** Opens `work`; every instruction is that of the disassembler, every line that of the line table. */
async function openWork(page, oracle) {
  await openCode(page, "work");
  assert.equal(await text(page, "#details h2"), "work");
  const expected = parsed(oracle);
  const shown = await page.evaluate(`(({ details: { panel: { listing } } }) => listing.at.map((at, i) => ({
    at, number: listing.number[listing.row[i]], executed: "", taken: "",
  })))(everypath)`);
  assert.deepEqual(shown, expected.map(({ at, number }) => ({ at, number, executed: "", taken: "" })));
  return expected;
}

/** Of two recordings: the code of afterwards, and that of before of what is gone. */
export async function codeOfTwo(page, _, oracle) {
  await openWork(page, oracle);
  assert.ok((await listed(page, "source")).some(({ line }) => line.endsWith("sum += leaf(x);")));
  await page.evaluate(`everypath.selectName(everypath.names.text.indexOf("dropped"))`);
  assert.ok((await listed(page, "source")).some(({ line }) => line.startsWith("static int dropped")));
}

export async function noCodeOfTwo(page) {
  await page.press("Home", "ArrowDown", "c");
  assert.equal(await page.evaluate(`document.getElementById("parts")`), null);
  assert.equal(await page.evaluate("everypath.listings"), null);
}

/** The instructions and their source, and what is marked. */
export async function code(page, _, oracle) {
  const expected = await openWork(page, oracle);
  const lines = await listed(page, "source");
  assert.match(lines[0].line, /\/prog\.c$/);
  const line = lines.find(({ line }) => line.includes("sum += twice"));
  assert.ok(line.line.includes(`</script><img src=x onerror="everypath.evil=1">`));
  const insns = await listed(page, "code");
  assert.equal(insns[0].offset, "+0x0");
  assert.ok(insns.some(({ line }) => /^j\w+ work\+0x[0-9a-f]+$/.test(line)), "and so has a jump");
  // A click on a line marks its instructions, and the other way round.
  const at = lines.indexOf(line) + 1;
  await page.click(`.code .source .row:not(.header):nth-child(${at})`, { x: 20 });
  const marked = (await listed(page, "code")).filter(({ isSame }) => isSame).map(({ offset }) => Number(offset.slice(1)) + expected[0].at);
  assert.deepEqual(marked, expected.filter(({ number }) => number === Number(line.number)).map(({ at }) => at));
  assert.ok(marked.length > 0);
  await page.click(".code .instructions .row:not(.header):nth-child(1)", { x: 20 });
  const same = (await listed(page, "source")).filter(({ isSame }) => isSame).map(({ number }) => number);
  assert.deepEqual(same, [String(expected[0].number)]);
  // It stays when something else is selected, and goes when calls are wanted.
  await page.evaluate(`everypath.selectName(everypath.names.text.indexOf("main"))`);
  assert.ok(await page.evaluate(`everypath.details.panel.listing.text.includes("call work")`), "a call has a name");
  await page.click("#parts [data-part=calls]");
  assert.equal(await page.evaluate(`document.querySelector(".code")`), null);
  assert.equal(await page.evaluate(`document.querySelectorAll("img, b b").length`), 0);
  assert.equal(await page.evaluate("everypath.evil"), undefined);
}

/** Executions of each instruction and line are those of `count`. */
export async function blockCode(page, _, oracle) {
  await openCode(page, "{work+");
  const expected = parsed(oracle).filter(({ executed }) => executed);
  const shown = await page.evaluate(`(({ details: { panel } }) => panel.listing.at.map((at, i) => ({
    at, number: panel.listing.number[panel.listing.row[i]], executed: panel.executions(i),
  })))(everypath)`);
  assert.deepEqual(shown.map(({ executed, ...rest }) => ({ ...rest, executed: grouped(executed) })),
    expected.map(({ at, number, executed }) => ({ at, number, executed })));
  await linesOf(page, expected);
  assert.match(await page.evaluate("everypath.details.panel.items[0].title"), /^\{work\+0 at \d+,\d+\}$/);
}

/** The lines that are visible have the executions of their instructions. */
export async function linesOf(page, expected) {
  const lines = (await listed(page, "source")).filter(({ times }) => times);
  const value = ({ executed }) => Number(executed.replaceAll(",", ""));
  for (const { number, times, sum } of lines) {
    const ofLine = expected.filter((insn) => insn.number === Number(number)).map(value);
    assert.equal(times, grouped(Math.max(...ofLine)));
    assert.equal(sum, grouped(ofLine.reduce((all, count) => all + count, 0)));
  }
  assert.ok(lines.length > 3);
}

export async function withoutCode(page) {
  await page.press("Home", "c");
  assert.equal(await page.evaluate(`document.getElementById("parts")`), null);
  assert.match(await text(page, "#details"), /\[thread\]/);
}

export async function changedCode(page) {
  await openCode(page, "work");
  assert.match(await text(page, "#no-code"), /^'\/.*\/prog' is not the file that ran: its build id is another\.$/);
  // Others have theirs.
  await page.evaluate(`everypath.selectName(everypath.names.text.indexOf("printf"))`);
  assert.equal(await page.evaluate("everypath.details.panel.listing.text.length > 2"), true);
}

export async function goneCode(page) {
  await openCode(page, "work");
  assert.match(await text(page, "#no-code"), /^'\/.*\/prog' cannot be read: no such file or directory\.$/);
}

/** All source lines of the page, as one text. */
async function sourceOf(page) {
  await page.until("everypath.listings !== null");
  return page.evaluate(`everypath.listings.listings.flatMap(({ source }) => source).join("\\n")`);
}

export async function ownSource(page) {
  const source = await sourceOf(page);
  assert.ok(source.includes("sum += twice(i)") && !source.includes("SECRET"));
}

export async function noSource(page) {
  const source = await sourceOf(page);
  assert.ok(!source.includes("sum += twice(i)") && !source.includes("SECRET"));
}

export async function namedSource(page) {
  assert.ok((await sourceOf(page)).includes("SECRET"));
}
