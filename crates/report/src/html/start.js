// How a page opens.

/** Shows what `load` gives as a `Page`, and then, behind everything else, the code. */
async function start(load, Page) {
  const loading = document.getElementById("loading");
  try {
    if (typeof DecompressionStream === "undefined") {
      throw new Error("this browser is too old for it; one of 2024 or later is needed");
    }
    const data = await load();
    document.getElementById("app").hidden = false;
    window.everypath = new Page(data);
    loading.hidden = true;
    window.everypath.setListings(await loadListings());
  } catch (error) {
    loading.textContent = `The recording cannot be shown: ${error.message}`;
    throw error;
  }
}
