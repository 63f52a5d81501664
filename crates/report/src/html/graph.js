// The graph of a function, with how often each block was executed: blocks below one another in
// the order of their addresses, forward edges on the right, backward ones on the left, each in a lane of its own.

const GRAPH_LINE = 15;
const GRAPH_GAP = 22;
const GRAPH_LANE = 9;
const GRAPH_LETTER = 7.25;
const GRAPH_MARGIN = 12;
/** Blocks of a graph that is drawn; larger ones nobody reads. */
const GRAPH_BLOCKS = 2000;

/** Element with the graph of a listing; `executions` are those of instruction N. */
function graphOf(listing, executions) {
  const { graph } = listing;
  if (graph.start.length > GRAPH_BLOCKS) {
    return make("p", { className: "hint" }, `Its graph has ${counted(graph.start.length, "block")}, too many to be drawn; everypath flow --function does.`);
  }
  const blocks = graphBlocks(listing, executions);
  const lanes = { forward: [], back: [] };
  const edges = graph.edges.map(([from, to, kind]) => {
    if (to === from + 1 && kind === "fall-through") return { from, to, kind };
    const side = to <= from ? "back" : "forward";
    return { from, to, kind, side, lane: freeLane(lanes[side], Math.min(from, to), Math.max(from, to)) };
  });
  const width = longest(blocks.flatMap(({ lines }) => lines)) * GRAPH_LETTER + 16;
  const left = GRAPH_MARGIN + (lanes.back.length + 1) * GRAPH_LANE;
  const right = left + width;
  const { top, height } = blocks[blocks.length - 1];
  const picture = svg("svg", { width: right + (lanes.forward.length + 1) * GRAPH_LANE + GRAPH_MARGIN, height: top + height + GRAPH_GAP });
  picture.append(...edges.map((edge) => graphEdge(edge, blocks, left, right)), ...blocks.map((block) => graphBlock(block, left, width)));
  const host = make("div", { className: "graph", tabIndex: 0 });
  if (!graph.complete) host.append(make("p", { className: "hint" }, "Some of its edges are not known: everypath flow --function says why."));
  host.append(picture);
  return host;
}

/** Place and lines of each block: how often, then its instructions as far as the page has them. */
function graphBlocks({ graph, at, text }, executions) {
  const order = at.map((_, number) => number).sort((one, other) => at[one] - at[other]);
  let top = GRAPH_MARGIN;
  return graph.start.map((start, number) => {
    let first = 0;
    for (let end = order.length; first < end; ) {
      const middle = (first + end) >> 1;
      if (at[order[middle]] < start) first = middle + 1;
      else end = middle;
    }
    const own = [];
    for (; first < order.length && at[order[first]] < graph.end[number]; first++) own.push(order[first]);
    const times = own.length > 0 ? executions(own[0]) : 0;
    const lines = own.map((insn) => `+0x${(at[insn] - at[0]).toString(16)}  ${visible(text[insn])}`);
    if (own.length < graph.insns[number]) lines.push(counted(graph.insns[number] - own.length, "instruction"));
    const block = { top, times, lines: [times > 0 ? counted(times, "time") : "not executed", ...lines] };
    block.height = block.lines.length * GRAPH_LINE + 8;
    top += block.height + GRAPH_GAP;
    return block;
  });
}

/** A lane in which nothing lies from one block to another. */
function freeLane(lanes, first, last) {
  let lane = lanes.findIndex((taken) => taken.every(([from, to]) => last < from || to < first));
  if (lane < 0) lane = lanes.push([]) - 1;
  lanes[lane].push([first, last]);
  return lane;
}

function graphBlock({ top, height, lines, times }, x, width) {
  const box = svg("g", { class: times > 0 ? "block" : "block never" });
  box.append(svg("rect", { x, y: top, width, height }));
  lines.forEach((line, at) => {
    const text = svg("text", { x: x + 8, y: top + GRAPH_LINE * (at + 1) });
    text.textContent = line;
    box.append(text);
  });
  return box;
}

function graphEdge({ from, to, kind, side, lane }, blocks, left, right) {
  const [bottom, start] = [blocks[from].top + blocks[from].height, blocks[to].top];
  const [edge, sign] = side === "back" ? [left, -1] : [right, 1];
  const way = side ? `M${edge} ${bottom - 6}H${edge + sign * (lane + 1) * GRAPH_LANE}V${start + 6}H${edge}` : `M${left + 20} ${bottom}V${start}`;
  const head = side ? `m0 0l${sign * 6} -4v8z` : "m0 0l-4 -6h8z";
  const path = svg("path", { d: way + head, class: `edge ${kind.replaceAll(" ", "-")}` });
  const title = svg("title", {});
  title.textContent = kind;
  path.append(title);
  return path;
}

function svg(tag, attributes) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
