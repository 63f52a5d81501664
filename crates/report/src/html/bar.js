// Parts of the head and of the bar that all pages have.

/** When something began. */
function timeOf(unixMs) {
  const begun = new Date(unixMs);
  const date = begun.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  return make("time", { dateTime: begun.toISOString(), title: begun.toISOString() }, date);
}

function fillNotes(element, notes) {
  element.querySelector("summary").textContent = counted(notes.length, "note");
  element.querySelector("ul").append(...notes.map((note) => make("li", {}, visible(note))));
}

/** Lets the details be made wider and narrower. */
function splitter(bar, pane) {
  const set = (size) => document.documentElement.style.setProperty("--details", `${Math.round(size)}px`);
  const isBelow = () => getComputedStyle(bar).cursor === "row-resize";
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    const box = pane.getBoundingClientRect();
    const move = ({ clientX, clientY }) => {
      const size = isBelow() ? box.bottom - clientY : box.right - clientX;
      set(Math.max(120, Math.min(size, (isBelow() ? innerHeight : innerWidth) * 0.7)));
    };
    bar.addEventListener("pointermove", move);
    bar.addEventListener("pointerup", () => bar.removeEventListener("pointermove", move), { once: true });
  });
  bar.addEventListener("keydown", (event) => {
    const box = pane.getBoundingClientRect();
    const size = isBelow() ? box.height : box.width;
    const step = { ArrowLeft: 20, ArrowUp: 20, ArrowRight: -20, ArrowDown: -20 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    set(size + step);
  });
}
