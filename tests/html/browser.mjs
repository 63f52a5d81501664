// A headless Chromium, driven over the DevTools protocol through two pipes:
// messages are JSON, each ended by a zero byte. Nothing else is needed.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** How long anything may take before it counts as broken. */
const LIMIT_MS = 120_000;

export class Browser {
  constructor() {
    this.profile = mkdtempSync(join(tmpdir(), "everypath-html-"));
    const switches = [
      "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
      "--disable-background-networking", "--remote-debugging-pipe", `--user-data-dir=${this.profile}`,
    ];
    this.process = spawn("chromium", [...switches, "about:blank"], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
    this.process.on("error", (error) => {
      console.error(`cannot start chromium (Debian: chromium): ${error.message}`);
      process.exit(1);
    });
    this.out = this.process.stdio[3];
    this.number = 0;
    this.waiting = new Map();
    this.listeners = [];
    let rest = Buffer.alloc(0);
    this.process.stdio[4].on("data", (data) => {
      rest = Buffer.concat([rest, data]);
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        this.received(JSON.parse(rest.subarray(0, end).toString()));
        rest = rest.subarray(end + 1);
      }
    });
  }

  received(message) {
    const waiting = this.waiting.get(message.id);
    if (!waiting) {
      for (const listener of this.listeners) listener(message);
      return;
    }
    this.waiting.delete(message.id);
    clearTimeout(waiting.timer);
    if (message.error) waiting.reject(new Error(`${waiting.method}: ${message.error.message}`));
    else waiting.resolve(message.result);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = ++this.number;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer`)), LIMIT_MS);
      this.waiting.set(id, { resolve, reject, timer, method });
      this.out.write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  /** Opens a page in a window of this size. */
  async open(url, width = 1280, height = 800, scheme = "light", scale = 1) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId);
    await page.begin(width, height, scheme, scale);
    await page.send("Page.navigate", { url });
    await page.until("window.everypath !== undefined || document.getElementById('loading')?.textContent.includes('cannot')");
    return page;
  }

  async close() {
    await this.send("Browser.close").catch(() => {});
    await new Promise((resolve) => (this.process.exitCode === null ? this.process.on("exit", resolve) : resolve()));
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

export class Page {
  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    /** What went wrong in the page, as sentences. */
    this.errors = [];
    /** Addresses that were asked for, that of the page included. */
    this.requests = [];
    browser.listeners.push((message) => message.sessionId === session && this.heard(message));
  }

  heard({ method, params }) {
    if (method === "Runtime.exceptionThrown") {
      const { text, exception } = params.exceptionDetails;
      this.errors.push(`exception: ${exception?.description ?? text}`);
    } else if (method === "Runtime.consoleAPICalled") {
      this.errors.push(`console: ${params.args.map((arg) => arg.value ?? arg.description).join(" ")}`);
    } else if (method === "Log.entryAdded") {
      this.errors.push(`log: ${params.entry.text}`);
    } else if (method === "Network.requestWillBeSent") {
      this.requests.push(params.request.url);
    }
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  async begin(width, height, scheme, scale) {
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await this.send(`${domain}.enable`);
    await this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: scale, mobile: false });
    const features = [
      { name: "prefers-color-scheme", value: scheme },
      { name: "prefers-reduced-motion", value: "reduce" },
    ];
    await this.send("Emulation.setEmulatedMedia", { features });
  }

  /** The value of an expression in the page. */
  async evaluate(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", {
      expression, awaitPromise: true, returnByValue: true,
    });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** Waits until an expression is true. */
  async until(expression) {
    const begun = Date.now();
    while (!(await this.evaluate(expression))) {
      if (Date.now() - begun > LIMIT_MS) throw new Error(`never true: ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Waits until the page has drawn what it has to. */
  async settle() {
    await this.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0))))");
  }

  /** Clicks into the middle of the first element that a selector finds, or at a place of it. */
  async click(selector, { count = 1, x, y } = {}) {
    const box = await this.evaluate(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      if (!element) return null;
      element.scrollIntoView({ block: "nearest" });
      const { left, top, width, height } = element.getBoundingClientRect();
      return { left, top, width, height };
    })()`);
    if (!box || box.width === 0) throw new Error(`nothing to click at ${selector}`);
    const at = { x: box.left + (x ?? box.width / 2), y: box.top + (y ?? box.height / 2), button: "left" };
    await this.send("Input.dispatchMouseEvent", { type: "mouseMoved", ...at, button: "none" });
    for (let n = 1; n <= count; n++) {
      await this.send("Input.dispatchMouseEvent", { type: "mousePressed", ...at, clickCount: n });
      await this.send("Input.dispatchMouseEvent", { type: "mouseReleased", ...at, clickCount: n });
    }
    await this.settle();
  }

  /** Moves the pointer to a place of an element. */
  async point(selector, x, y) {
    const { left, top } = await this.evaluate(`document.querySelector(${JSON.stringify(selector)}).getBoundingClientRect().toJSON()`);
    await this.send("Input.dispatchMouseEvent", { type: "mouseMoved", x: left + x, y: top + y });
    await this.settle();
  }

  /** Presses keys one after the other: letters, or names such as ArrowDown. */
  async press(...keys) {
    for (const key of keys) {
      const text = key.length === 1 ? key : key === "Enter" ? "\r" : undefined;
      const codes = { Enter: 13, Escape: 27, ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40, End: 35, Home: 36, PageDown: 34 };
      const about = { key, windowsVirtualKeyCode: codes[key] ?? 0 };
      await this.send("Input.dispatchKeyEvent", { type: "keyDown", text, ...about });
      await this.send("Input.dispatchKeyEvent", { type: "keyUp", ...about });
      await this.settle();
    }
  }

  /** Types into the element that has the focus. */
  async type(text) {
    await this.send("Input.insertText", { text });
    await this.settle();
  }

  async screenshot() {
    const { data } = await this.send("Page.captureScreenshot", { format: "png" });
    return Buffer.from(data, "base64");
  }
}
