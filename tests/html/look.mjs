// What a page shows, and how it is used.

/** The visible rows of a table, as texts by the class of the cell. */
export async function rows(page, table) {
  return page.evaluate(`[...document.querySelectorAll("#${table} .layer .row")].filter((row) => !row.hidden)
    .sort((a, b) => a.index - b.index)
    .map((row) => {
      const text = (cell) => row.querySelector(cell)?.textContent ?? "";
      return {
        index: row.index, own: text(".own"), total: text(".total"), share: text(".share"), contexts: text(".contexts"),
        name: text(".text"), module: text(".module"), place: text(".place"), twist: text(".twist"),
        cells: Object.fromEntries([...row.children].map((cell) => [cell.className.split(" ").findLast((word) => !["rose", "fell"].includes(word)), cell.textContent])),
        isSelected: row.ariaSelected === "true", marks: [...row.querySelectorAll("mark")].map((mark) => mark.textContent),
      };
    })`);
}

export async function text(page, selector) {
  return page.evaluate(`document.querySelector(${JSON.stringify(selector)}).textContent`);
}

export async function choose(page, selector, value) {
  await page.evaluate(`(() => {
    const select = document.querySelector(${JSON.stringify(selector)});
    select.value = ${JSON.stringify(value)};
    select.dispatchEvent(new Event("change"));
  })()`);
  await page.settle();
}

export async function search(page, query) {
  await page.press("/");
  await page.type(query);
}

/** The boxes that are drawn: depth, left, right, node. */
export async function boxes(page) {
  await page.until(`document.getElementById("flame").ariaBusy !== "true"`);
  await page.settle();
  return page.evaluate(`everypath.flameView.drawn.flatMap((row, depth) => (row ?? []).map(([left, right, node]) => ({ depth, left, right, node })))
    .filter(({ node }) => node >= 0)`);
}
