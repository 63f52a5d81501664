"""The module of jit.wat, by Wasmtime."""
from wasmtime import Engine, Instance, Module, Store, wat2wasm

store = Store(Engine())
text = open("jit.wat").read()
exports = Instance(store, Module(store.engine, wat2wasm(text)), []).exports(store)
print(exports["fib"](store, 38), exports["mix"](store, 200000000))
