// The case of a page of allocations: its tree has the figures of `--format json` of the same run.

import assert from "node:assert/strict";
import { text } from "./look.mjs";

/** Figures of the JSON, in the order of the page's metrics. */
const FIGURES = ["peak_bytes", "peak_blocks", "leaked_bytes", "leaked_blocks", "bytes", "blocks"];

export async function allocations(page, report) {
  const shown = await page.evaluate(`(() => {
    const { data, names } = everypath, { contexts, head } = data;
    const list = [];
    for (let node = 0; node < contexts.count; node++) {
      list.push([contexts.path(node).map((at) => names.text[contexts.name[at]]).join(" > "), ...head.metrics.map(() => 0)]);
    }
    data.values.forEach((values, metric) => {
      const own = new Float64Array(contexts.count);
      values.add(0, own);
      own.forEach((value, node) => { list[node][metric + 1] = value; });
    });
    return { list, totals: head.metrics.map(({ total }) => total) };
  })()`);
  const sums = new Map();
  for (const context of report.contexts) {
    // The page has files and lines apart from names.
    const path = context.path.map((part) => part.replace(/ [^ ]+:\d+$/, "")).join(" > ");
    const sum = sums.get(path) ?? FIGURES.map(() => 0);
    sums.set(path, sum.map((value, at) => value + context[FIGURES[at]]));
  }
  const found = new Map();
  for (const [path, ...values] of shown.list.filter(([, ...values]) => values.some((value) => value > 0))) {
    const sum = found.get(path) ?? FIGURES.map(() => 0);
    found.set(path, sum.map((value, at) => value + values[at]));
  }
  const sorted = (map) => [...map].sort(([a], [b]) => (a < b ? -1 : 1));
  assert.deepEqual(sorted(found), sorted(sums));
  assert.deepEqual(shown.totals, FIGURES.map((name) => report.all[name]));
  assert.match(await text(page, "#totals"), /never freed/);
}
