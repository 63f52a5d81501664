// Checks of a page in a browser: node check.mjs CASE PAGE [JSON [TEXT]]
//
// PAGE was made by `--html`, JSON and TEXT by `--format json` and `report` of
// the same recording; of two recordings by `diff`, and TEXT is folded. What is wrong is printed, and the exit status is 1.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { Browser } from "./browser.mjs";
import * as ofOne from "./cases.mjs";
import * as ofTwo from "./changes.mjs";
import * as ofCode from "./code.mjs";
import * as ofCounts from "./counts.mjs";
import * as ofAllocations from "./allocations.mjs";

const cases = { ...ofOne, ...ofTwo, ...ofCode, ...ofCounts, ...ofAllocations };

/** Other cases begin with calls and a folded tree; comparisons and pages of counts do so anyway. */
const PLAIN = `(() => {
  const app = window.everypath;
  if (app?.treeView === undefined || app.isComparison) return;
  app.controls.metrics.value = "0";
  app.setMetric(0);
  app.showModels(false);
})()`;

const [name, path, json, text] = process.argv.slice(2);
const browser = new Browser();
try {
  const url = pathToFileURL(path).href;
  const page = await browser.open(url);
  const report = json && JSON.parse(readFileSync(json, "utf8"));
  if (name !== "opening") await page.evaluate(PLAIN);
  await cases[name](page, report, text && readFileSync(text, "utf8"));
  assert.deepEqual(page.errors, []);
  assert.deepEqual(page.requests.filter((address) => !address.startsWith("data:")), [url]);
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await browser.close();
}
