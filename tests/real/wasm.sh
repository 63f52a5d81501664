# WebAssembly by two compilers: Wasmtime's (Cranelift) called from Python, and node's. Loops, memory, call-backs into the
# host, tables, and traps, which both find by faults: beyond the memory, division by zero, no more stack.
# real: limit 300
# real: small-chaos every compiled function is new code, which chaos drops at once
setup() {
    /usr/bin/python3 -m venv "$SHARED/venv"
    "$SHARED/venv/bin/pip" install --quiet --disable-pip-version-check wasmtime==50.0.1
    cat >"$SHARED/mix.wat" <<'END'
(module
  (import "host" "log" (func $log (param i32) (result i32)))
  (memory (export "memory") 2)
  (table 3 funcref)
  (elem (i32.const 0) $double $square)
  (type $one (func (param i32) (result i32)))
  (func $double (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2)))
  (func $square (param i32) (result i32) (i32.mul (local.get 0) (local.get 0)))
  (func $fib (export "fib") (param i32) (result i32)
    (if (result i32) (i32.lt_s (local.get 0) (i32.const 2))
      (then (local.get 0))
      (else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
  (func (export "fill") (param $n i32) (result i64) (local $i i32) (local $sum i64)
    (loop $again
      (i32.store8 (local.get $i) (i32.rem_u (i32.mul (local.get $i) (i32.const 7919)) (i32.const 251)))
      (local.set $sum (i64.add (i64.rotl (local.get $sum) (i64.const 5)) (i64.load8_u (local.get $i))))
      (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
    (local.get $sum))
  (func (export "sum") (param $n i32) (result f64) (local $i i32) (local $s f64)
    (loop $again
      (local.set $s (f64.add (local.get $s) (f64.sqrt (f64.convert_i32_s (local.get $i)))))
      (br_if $again (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
    (local.get $s))
  (func (export "vectors") (param $n i32) (result i32) (local $v v128)
    (loop $again
      (local.set $v (i32x4.add (local.get $v) (i32x4.mul (i32x4.splat (local.get $n)) (v128.const i32x4 1 2 3 4))))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (i32x4.extract_lane 3 (local.get $v)))
  (func (export "by_table") (param i32 i32) (result i32) (call_indirect (type $one) (local.get 1) (local.get 0)))
  (func (export "ask") (param i32) (result i32) (i32.add (call $log (local.get 0)) (i32.const 1)))
  (func (export "load") (param i32) (result i32) (i32.load (local.get 0)))
  (func (export "divide") (param i32) (result i32) (i32.div_s (i32.const 7) (local.get 0)))
  (func $deep (export "deep") (param i32) (result i32) (i32.add (call $deep (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
  (func (export "never") (result i32) unreachable))
END
    cat >"$SHARED/host.py" <<'END'
import os, sys, threading
import wasmtime
from wasmtime import Engine, Func, FuncType, Instance, Module, Store, Trap, ValType

rounds = 1 if os.environ["SIZE"] == "full" else 0
engine = Engine()
binary = wasmtime.wat2wasm(open(sys.argv[1]).read())
open("mix.wasm", "wb").write(binary)
module = Module(engine, binary)

def instance():
    store = Store(engine)
    log = Func(store, FuncType([ValType.i32()], [ValType.i32()]), lambda n: n * 10)
    exports = Instance(store, module, [log]).exports(store)
    return lambda name, *arguments: exports[name](store, *arguments)

call = instance()
print(call("fib", 24 if rounds else 12), call("fill", 100000 if rounds else 500), call("sum", 1000000 if rounds else 500), call("vectors", 300000 if rounds else 500))
print([call("by_table", n, 6) for n in (0, 1)], sum(call("ask", n) for n in range(2000 if rounds else 20)))
for name, arguments in [("load", (1 << 20,)), ("load", (-1,)), ("load", (131071,)), ("divide", (0,)), ("never", ()), ("deep", (0,)), ("by_table", (2, 1)), ("by_table", (9, 1))] * 3:
    try:
        print(call(name, *arguments))
    except Trap as trap:
        print(name, arguments, trap.trap_code, len(trap.frames) > 0)

# One engine, an instance for each thread.
answers = []
def work(n):
    own = instance()
    answers.append((n, own("fib", 15 + n if rounds else 8)))
    try:
        own("never")
    except Trap:
        answers.append((n, "trapped"))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(answers, key=str))

def failing(n):
    raise ValueError(f"from the host {n}")
store = Store(engine)
raising = Instance(store, module, [Func(store, FuncType([ValType.i32()], [ValType.i32()]), failing)]).exports(store)
try:
    raising["ask"](store, 3)
except ValueError as error:
    print(error)
END
    cat >"$SHARED/host.js" <<'END'
const { readFileSync } = require("fs");
const full = process.env.SIZE === "full";
const compiled = new WebAssembly.Module(readFileSync("mix.wasm"));
const { exports: its } = new WebAssembly.Instance(compiled, { host: { log: (n) => n * 10 } });
for (let i = 0; i < (full ? 30 : 1); i++) its.fib(full ? 20 : 8);
console.log(its.fib(full ? 24 : 12), its.fill(full ? 100000 : 500), its.sum(full ? 1000000 : 500), its.vectors(full ? 300000 : 500), its.ask(4));
for (const [name, ...rest] of [["load", 1 << 20], ["load", -1], ["divide", 0], ["never"], ["deep", 0], ["by_table", 2, 1]])
    for (let i = 0; i < 3; i++) try { console.log(its[name](...rest)); } catch (e) { console.log(name, e.constructor.name, e.message); }
WebAssembly.compile(readFileSync("mix.wasm")).then((m) => console.log(WebAssembly.Module.exports(m).length));
END
}

run() {
    "$SHARED/venv/bin/python" -B "$SHARED/host.py" "$SHARED/mix.wat"
    node "$SHARED/host.js"
}
