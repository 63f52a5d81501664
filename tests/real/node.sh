# node: its compilers write code from several threads; workers, an HTTP server, children.
# real: limit 300
# real: small-chaos every compiled function is new code, which chaos drops at once
setup() {
    cat >"$SHARED/mix.js" <<'END'
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const { createServer, get } = require("http");
const { execFileSync } = require("child_process");
const crypto = require("crypto"), zlib = require("zlib");
const rounds = process.env.SIZE === "full" ? 200000 : 500;

function hash(n) {
    let h = 0;
    for (let i = 0; i < n; i++) h = (Math.imul(h, 31) + i * (i & 3 ? 1.5 : 2)) | 0;
    return h;
}
if (!isMainThread) {
    parentPort.postMessage(hash(workerData));
} else {
    (async () => {
        const worker = (n) => new Promise((done) => new Worker(__filename, { workerData: n }).on("message", done));
        console.log("workers", await Promise.all([worker(rounds), worker(rounds / 2)]));
        class Shape { area() { return 0; } }
        class Square extends Shape { constructor(s) { super(); this.s = s; } area() { return this.s * this.s; } }
        let sum = 0;
        for (let i = 0; i < rounds; i++) sum += (i % 3 ? new Square(i % 10) : new Shape()).area();
        console.log(sum, [..."the quick brown fox"].map((c) => c.charCodeAt()).sort().join().length);
        function* naturals() { let n = 0; while (true) yield n++; }
        const it = naturals(); let last;
        for (let i = 0; i < rounds / 10; i++) last = it.next().value;
        console.log(last, "a1b22c333".replace(/(\d)+/g, "<$1>"), JSON.stringify({ a: [1, { b: null }] }), 2n ** 100n);
        try { null.x; } catch (e) { console.log(e.message); }
        const text = "x".repeat(5000) + sum;
        console.log(zlib.gunzipSync(zlib.gzipSync(text)).toString() === text);
        console.log(crypto.createHash("sha256").update(text).digest("hex"));
        console.log(await new Promise((r) => crypto.pbkdf2("p", "s", 100, 16, "sha1", (e, k) => r(k.toString("hex")))));
        console.log(execFileSync("echo", ["from a child"]).toString().trim());
        const server = createServer((q, a) => a.end("answer to " + q.url)).listen(0, "127.0.0.1", () => {
            get({ port: server.address().port, path: "/x", agent: false }, (a) => {
                a.on("data", (d) => console.log(d.toString()));
                a.on("end", () => server.close(() => process.exit(6)));
            });
        });
    })();
}
END
}

run() {
    node "$SHARED/mix.js" || echo "node: $?"
    echo 'process.exitCode = 2; setTimeout(() => console.log("later"), 20)' | node || echo "node: $?"
}
