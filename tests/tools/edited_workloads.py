#!/usr/bin/env python3
"""Edits large programs with their libraries and has each do some work: output, status and files as with the original.

`--version`, which sweep_rewrite.py asks for, comes to few functions; compilers, linkers and interpreters have
their jump tables and handlers in others. A program that is not installed is named and left out. Old code is
filled with traps, so that a way to it that was not foreseen ends the program.

    tests/tools/edited_workloads.py [--everypath BIN] [--tool TOOL] [NAME...]

Ends with exit status 1 if anything differed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile

C = r"""
#include <stdio.h>
#include <stdlib.h>
typedef struct N { struct N *l, *r; int k; } N;
static N *ins(N *n, int k) {
    if (!n) { n = calloc(1, sizeof *n); n->k = k; return n; }
    if (k < n->k) n->l = ins(n->l, k); else n->r = ins(n->r, k);
    return n;
}
static double f(double *a, int n) { double s = 0; for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) s += a[i] * a[j]; return s; }
int ev(const char *s) {
    int v = 0;
    for (; *s; s++)
        switch (*s) {
        case '0': v++; break; case '1': v += 3; break; case '2': v *= 7; break;
        case '3': v ^= 5; break; case '4': v -= 9; break; case '5': v <<= 1; break; default: return -1;
        }
    return v;
}
int main(int c, char **v) {
    N *t = 0; double a[100];
    for (int i = 0; i < 1000; i++) t = ins(t, rand());
    for (int i = 0; i < 100; i++) a[i] = i;
    printf("%f %d\n", f(a, 100), ev(v[0]));
    return 0;
}
"""
RUBY = r"""
def fib(n) n < 2 ? n : fib(n-1)+fib(n-2) end
h = Hash.new(0); "the quick brown fox".each_char { |c| h[c]+=1 }
p h.sort_by { |k,v| [-v,k] }, fib(18)
begin; raise ArgumentError, "x"; rescue => e; p e; ensure; puts "e"; end
p (catch(:done) { 10.times { |i| throw :done, i if i==5 } })
f = Fiber.new { 3.times { |i| Fiber.yield i }; :end }
5.times { p (f.resume rescue $!.class) }
t = 4.times.map { |i| Thread.new { (1..1000).sum * i } }; p t.map(&:value)
p (1..50).inject(:*), "abc".unpack("C*"), [3,1,2].sort, "a-b-c".gsub(/-(.)/) { $1.upcase }
"""
OCAML = r"""
exception E of int
let rec f n = if n = 0 then raise (E 3) else 1 + f (n-1)
let () = for i = 1 to 1000 do (try ignore (f i) with E k -> if i mod 500 = 0 then Printf.printf "%d %d\n" i k) done;
 let h = Hashtbl.create 10 in for i = 0 to 9999 do Hashtbl.replace h (i mod 77) i done; Printf.printf "%d\n" (Hashtbl.length h);
 List.iter (fun s -> try print_endline (string_of_int (int_of_string s)) with Failure m -> print_endline m) ["12";"x";"0x1f"]
"""
LUA = r"""
local t={} for i=1,20000 do t[#t+1]=(i*7919)%10007 end table.sort(t)
print(t[1],t[#t],#t, string.rep("ab",10):gsub("a","%0c"), pcall(error,{1}), select('#',1,2,3))
local co=coroutine.wrap(function(a) for i=1,5 do a=coroutine.yield(a*i) end return "end" end)
print(co(1),co(2),co(3),co(4),co(5),co(6))
print(string.format("%5.2f %s %q",3.14159,"x","a\nb"), math.maxinteger//3, 7//2, 7%3, 1<<20)
"""
LLVM = "/usr/lib/llvm-14/bin"
CC1 = f"-cc1 -triple x86_64-pc-linux-gnu -emit-obj -O2 -internal-isystem {LLVM}/../lib/clang/14.0.6/include " \
      "-internal-externc-isystem /usr/include/x86_64-linux-gnu -internal-externc-isystem /usr/include work.c -o out"
LINK = "-flavor gnu -pie --eh-frame-hdr -m elf_x86_64 -dynamic-linker /lib64/ld-linux-x86-64.so.2 -o out " \
       "/lib/x86_64-linux-gnu/Scrt1.o /lib/x86_64-linux-gnu/crti.o work.o -L/lib/x86_64-linux-gnu -lc /lib/x86_64-linux-gnu/crtn.o"

# Name, program, its arguments.
WORKLOADS = [
    ("clang", f"{LLVM}/clang", CC1),
    ("lld", f"{LLVM}/lld", LINK),
    ("opt", f"{LLVM}/opt", "-O3 work.ll -S -o -"),
    ("objdump", f"{LLVM}/llvm-objdump", "-d -r --no-show-raw-insn work.o"),
    ("ruby", "/usr/bin/ruby", "work.rb"),
    ("ocamlrun", "/usr/bin/ocamlrun", "/usr/bin/ocaml work.ml"),
    ("ocaml", "work.native", ""),
    ("lua", "/usr/bin/lua5.4", "work.lua"),
]


def prepare():
    """Sources, and what compilers make of them."""
    for name, text in [("work.c", C), ("work.rb", RUBY), ("work.ml", OCAML), ("native.ml", OCAML), ("work.lua", LUA)]:
        with open(name, "w") as file:
            file.write(text)
    for command in ["clang-14 -O1 -c work.c -o work.o", "clang-14 -O1 -S -emit-llvm work.c -o work.ll",
                    "ocamlopt native.ml -o work.native"]:
        if shutil.which(command.split()[0]):
            subprocess.run(command.split(), check=True)


def done(command):
    """Output, status, and the file that a command wrote, if it wrote one."""
    if os.path.exists("out"):
        os.remove("out")
    ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
    made = open("out", "rb").read() if os.path.exists("out") else None
    return ran.returncode, ran.stdout, made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--everypath", default="target/release/everypath")
    parser.add_argument("--tool", default="null")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    everypath = os.path.abspath(options.everypath)
    differs = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        prepare()
        for name, program, arguments in WORKLOADS:
            if options.names and name not in options.names:
                continue
            if not os.path.exists(program):
                print(f"{name}: missing, {program}", flush=True)
                continue
            words = [everypath, "rewrite", "--libs", program, "-o", f"{name}.edited", "--tool", options.tool, "--paranoid"]
            edited = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if edited.returncode:
                print(f"{name}: not edited: {edited.stdout.strip()}", flush=True)
                differs += 1
                continue
            native = done([os.path.abspath(program), *arguments.split()])
            new = done([everypath, "exec", f"{name}.edited", *arguments.split()])
            shutil.rmtree(f"{name}.edited")
            same = native == new and native[0] == 0
            differs += not same
            print(f"{name}: {'the same' if same else f'differs: status {native[0]}, edited {new[0]}: {new[1][-300:]!r}'}", flush=True)
    sys.exit(1 if differs else 0)


if __name__ == "__main__":
    main()
