// What the page carries, decoded.
//
// The elements and the form of their numbers are described in columns.rs and
// head.rs. Numbers are whole and below 2^53, so doubles hold them exactly.

/** The bytes of a data element; its text is given up, because it is large. */
async function inflated(id) {
  const element = document.getElementById(id);
  const lines = element.textContent.trim().split("\n");
  element.remove();
  let at = 0;
  const packed = new ReadableStream({
    pull(controller) {
      if (at === lines.length) {
        controller.close();
        return;
      }
      controller.enqueue(fromBase64(lines[at]));
      lines[at++] = "";
    },
  });
  const bytes = packed.pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(bytes).arrayBuffer());
}

function fromBase64(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

/** Reads numbers in base 128, lowest digit first. */
class Numbers {
  constructor(bytes, at = 0) {
    this.bytes = bytes;
    this.at = at;
  }

  next() {
    const { bytes } = this;
    let byte = bytes[this.at++];
    let value = byte & 127;
    for (let scale = 128; byte > 127; scale *= 128) {
      byte = bytes[this.at++];
      value += (byte & 127) * scale;
    }
    return value;
  }
}

/**
 * The tree of all contexts, as columns. A node is its position in preorder, so
 * the nodes below `i` are those from `i + 1` to `end[i] - 1`.
 */
class Contexts {
  constructor(count, levels, names) {
    this.count = count;
    this.depth = new Uint32Array(count);
    this.name = new Uint32Array(count);
    /** -1 for a root. */
    this.parent = new Int32Array(count);
    this.end = new Uint32Array(count).fill(count);
    this.deepest = 0;
    const open = [];
    const level = new Numbers(levels);
    const name = new Numbers(names);
    for (let i = 0; i < count; i++) {
      const depth = open.length - level.next();
      while (open.length > depth) this.end[open.pop()] = i;
      this.depth[i] = depth;
      this.name[i] = name.next();
      this.parent[i] = depth > 0 ? open[depth - 1] : -1;
      if (depth > this.deepest) this.deepest = depth;
      open.push(i);
    }
  }

  roots() {
    return this.siblings(0, this.count);
  }

  children(node) {
    return this.siblings(node + 1, this.end[node]);
  }

  siblings(from, to) {
    const nodes = [];
    for (let i = from; i < to; i = this.end[i]) nodes.push(i);
    return nodes;
  }

  /** From the root to the node itself. */
  path(node) {
    const path = [];
    for (let i = node; i >= 0; i = this.parent[i]) path.push(i);
    return path.reverse();
  }

  /** The nodes of each name: `list` from `start[name]` to `start[name + 1]`. */
  byName(names) {
    if (this.groups) return this.groups;
    const start = new Uint32Array(names + 1);
    for (let i = 0; i < this.count; i++) start[this.name[i] + 1]++;
    for (let n = 0; n < names; n++) start[n + 1] += start[n];
    const free = start.slice();
    const list = new Uint32Array(this.count);
    for (let i = 0; i < this.count; i++) list[free[this.name[i]]++] = i;
    this.groups = { start, list };
    return this.groups;
  }
}

/** The values of one metric, packed: per thread where they begin and their sum. */
class Values {
  constructor(bytes, threads) {
    this.bytes = bytes;
    this.starts = [];
    this.sums = [];
    const numbers = new Numbers(bytes);
    for (let t = 0; t < threads; t++) {
      this.starts.push(numbers.at);
      let sum = 0;
      for (let left = numbers.next(); left > 0; left--) {
        numbers.next();
        sum += numbers.next();
      }
      this.sums.push(sum);
    }
  }

  /** Adds those of a thread to the values of all nodes. */
  add(thread, values) {
    const numbers = new Numbers(this.bytes, this.starts[thread]);
    let node = 0;
    for (let left = numbers.next(); left > 0; left--) {
      node += numbers.next();
      values[node] += numbers.next();
    }
  }
}

/** The list of a key, made if there is none. */
function listIn(map, key) {
  if (!map.has(key)) map.set(key, []);
  return map.get(key);
}

/** A document that the page carries. */
async function inflatedJson(id) {
  return JSON.parse(new TextDecoder().decode(await inflated(id)));
}

async function loadHead() {
  return inflatedJson("data-head");
}

/** Everything the page of contexts carries, but for code. */
async function load() {
  const head = await loadHead();
  const levels = await inflated("data-levels");
  const names = await inflated("data-names");
  const valuesOf = async (what) => {
    const values = [];
    for (let m = 0; m < head.metrics.length; m++) {
      values.push(new Values(await inflated(`data-${what}-${m}`), head.threads.length));
    }
    return values;
  };
  const values = await valuesOf("values");
  const inclusive = head.folded ? { nodes: await valuesOf("inclusive"), functions: await valuesOf("functions") } : null;
  return { head, contexts: new Contexts(head.nodes, levels, names), values, inclusive };
}
