// Perfetto's trace processor, as its page runs it: `node perfetto.mjs ENGINE TRACE SQL…`
// reads TRACE and prints an array with the rows of each query, as JSON.
//
// ENGINE is a folder with trace_processor.wasm, engine_bundle.node.js (the page's worker,
// which runs it) and engine.mjs (the page's side of their conversation). They expect a
// browser; the little that they ask of one is made here.

import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

// How much of a trace is handed over at once, as the page does it.
const PIECE = 32 << 20;

const [folder, trace, ...queries] = process.argv.slice(2);
const { EngineBase } = await import(pathToFileURL(resolve(folder, "engine.mjs")));
// Fields of answers that the page's side does not know are named on the console.
console.warn = console.error;

class Engine extends EngineBase {
  mode = "WASM";
  id = "node";

  constructor(port) {
    super();
    this.port = port;
    port.onmessage = (message) => this.onRpcResponseBytes(message.data);
  }

  rpcSendRequestBytes(bytes) {
    this.port.postMessage(bytes);
  }
}

// What the worker loads its program with: a request that is answered at once.
class FromFolder {
  open(_, file) {
    this.file = file;
  }

  send() {
    this.response = new Uint8Array(readFileSync(join(folder, this.file))).buffer;
  }
}

// Runs the worker's code in this thread, up to where it takes requests.
async function start() {
  globalThis.self = globalThis;
  globalThis.WorkerGlobalScope = class {};
  globalThis.location = { href: "http://localhost/" };
  globalThis.XMLHttpRequest = FromFolder;
  // It would take a build with 64-bit addresses if a small program with such could be
  // compiled, but ENGINE has the other.
  const { Module } = WebAssembly;
  WebAssembly.Module = function (bytes) {
    if (bytes.length < 100) throw new Error("no 64-bit addresses");
    return new Module(bytes);
  };
  vm.runInThisContext(readFileSync(join(folder, "engine_bundle.node.js"), "utf8"));
  WebAssembly.Module = Module;
  // What it has put off until the program is there.
  await new Promise((next) => setImmediate(next));
  const { port1, port2 } = new MessageChannel();
  self.onmessage({ data: port1 });
  return new Engine(port2);
}

// The rows of a result: objects by the names of the columns.
function rows(result) {
  const found = [];
  for (const row = result.iter({}); row.valid(); row.next()) {
    found.push(Object.fromEntries(result.columns().map((name) => [name, row.get(name)])));
  }
  return found;
}

const engine = await start();
const bytes = readFileSync(trace);
for (let at = 0; at < bytes.length; at += PIECE) {
  await engine.parse(new Uint8Array(bytes.subarray(at, at + PIECE)));
}
await engine.notifyEof();
const answers = [];
for (const query of queries) answers.push(rows(await engine.query(query)));
const exact = (_, value) => (typeof value === "bigint" ? Number(value) : value);
// The open port would keep this running; it ends when all is written.
process.stdout.write(JSON.stringify(answers, exact) + "\n", () => process.exit(0));
