# Python: threads, processes, asyncio, sockets, ctypes call-backs, decimal, SSL.
# real: small-chaos the interpreter's main loop is one indirect jump
setup() {
    cat >"$SHARED/many.py" <<'END'
import asyncio, collections, concurrent.futures, ctypes, decimal, functools, hashlib, heapq, json, mmap, multiprocessing
import os, pickle, queue, random, re, signal, socket, sqlite3, ssl, struct, subprocess, sys, tempfile, threading, time, zlib

scale = 20 if os.environ["SIZE"] == "full" else 1

def show(name, *values):
    print(name, *values, flush=True)

@functools.lru_cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

def threads():
    todo, done = queue.Queue(), []
    lock = threading.Lock()
    def worker():
        while (n := todo.get()) is not None:
            with lock:
                done.append(sum(range(n)))
    workers = [threading.Thread(target=worker) for _ in range(4)]
    for t in workers: t.start()
    for n in range(100 * scale): todo.put(n)
    for t in workers: todo.put(None)
    for t in workers: t.join()
    show("threads", len(done), sum(done))

def square(n):
    return n * n

def processes():
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            show("processes", method, sum(pool.map(square, range(100))))
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        show("futures", sorted(pool.map(fibonacci, [80, 90, 70])))

async def serve():
    async def answer(reader, writer):
        while line := await reader.readline():
            writer.write(line.upper()); await writer.drain()
        writer.close()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async def client(n):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"client %d\n" % n)
        line = await reader.readline()
        writer.close()
        return line
    show("asyncio", sorted(await asyncio.gather(*(client(n) for n in range(10)))))
    process = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    show("subprocess", await process.communicate(b"through cat"))
    try:
        await asyncio.wait_for(asyncio.sleep(30), 0.05)
    except asyncio.TimeoutError:
        show("timed out")

def foreign():
    libc = ctypes.CDLL(None)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 50)(*(n * 37 % 50 for n in range(50)))
    libc.qsort(numbers, 50, 4, kind(lambda a, b: a[0] - b[0]))
    show("ctypes", list(numbers) == list(range(50)))
    libm = ctypes.CDLL("libm.so.6"); libm.pow.restype = ctypes.c_double
    show("pow", libm.pow(ctypes.c_double(2), ctypes.c_double(0.5)))

def signals():
    got = []
    signal.signal(signal.SIGUSR1, lambda *a: got.append("usr1"))
    os.kill(os.getpid(), signal.SIGUSR1)
    signal.signal(signal.SIGALRM, lambda *a: got.append("alarm"))
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    while "alarm" not in got: time.sleep(0.01)
    show("signals", sorted(got))
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(w, b"child"); os._exit(7)
    show("fork", os.read(r, 9), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    show("killed", subprocess.run(["sh", "-c", "kill -9 $$"]).returncode)
    show("pipe", subprocess.run("seq 1000 | sort -r | head -1", shell=True, capture_output=True).stdout)

def data():
    random.seed(5)
    values = [random.random() for _ in range(500 * scale)]
    show("sorted", hashlib.sha256(repr(sorted(values)).encode()).hexdigest()[:16])
    tree = {"a": [1, 2.5, None, {"b": "\u00fc" * 9}], "c": list(range(300 * scale))}
    show("json", json.loads(json.dumps(tree)) == tree, len(pickle.dumps(tree)), zlib.crc32(json.dumps(tree).encode()))
    text = " ".join(str(n) for n in range(1000 * scale))
    show("re", len(re.findall(r"\b(\d)\d*\1\b", text)), re.sub(r"(?P<x>1+)", r"<\g<x>>", text)[-30:])
    decimal.getcontext().prec = 60
    show("decimal", decimal.Decimal(2).sqrt(), pow(3, 2000 * scale, 10**40 + 1))
    show("heap", heapq.nsmallest(3, values)[0] > 0, collections.Counter(text).most_common(2))
    db = sqlite3.connect(":memory:"); db.create_function("double", 1, lambda x: x * 2)
    show("sqlite", db.execute("select sum(double(value)) from json_each(?)", (json.dumps(list(range(99))),)).fetchone())
    with tempfile.TemporaryFile() as f:
        f.write(b"x" * 9000); f.flush()
        with mmap.mmap(f.fileno(), 0) as m: m[5:7] = b"yz"; show("mmap", m[3:9], m.find(b"z"))
    show("ssl", ssl.create_default_context().verify_mode)
    def deep(n): return n and 1 + deep(n - 1)
    try: deep(10**6)
    except RecursionError as error: show("recursion", str(error)[:40])
    code = compile("\n".join(f"def f{n}(x): return x + {n}" for n in range(50 * scale)), "made", "exec"); space = {}
    exec(code, space); show("compiled", space[f"f{50 * scale - 1}"](1))

if __name__ == "__main__":
    threads(); processes(); asyncio.run(serve()); foreign(); signals(); data()
    sys.exit(3)
END
}

run() {
    /usr/bin/python3 "$SHARED/many.py" || echo "exit $?"
    /usr/bin/python3 -c 'import os; os.abort()' 2>/dev/null || echo "exit $?"
    /usr/bin/python3 -c 'import time; time.sleep(30)' & sleep 0.3; kill -TERM $! ; wait $! 2>/dev/null || echo "exit $?"
    /usr/bin/python3 -X faulthandler -c 'import ctypes; ctypes.string_at(8)' 2>&1 | grep -c 'Segmentation fault' || true
    /usr/bin/python3 -m timeit -n 1 -r 1 pass >/dev/null
    /usr/bin/python3 -m compileall -q -f -d made . 
    /usr/bin/python3 -I -c 'import cProfile, io, pstats, sys; cProfile.run("sum(range(9))", "profile"); print(pstats.Stats("profile", stream=io.StringIO()).total_calls)'
    rm -f profile
}
