#!/usr/bin/env python3
"""Holds `everypath loops --dependences` against isl, of kernels with the shapes of PolyBench's.

    python3 -m venv venv && venv/bin/pip install islpy==2026.2.2
    venv/bin/python tests/tools/compare_legality.py EVERYPATH

Each kernel is written twice from one row of KERNELS: as C, which is compiled, traced and asked, and as a domain and access relations,
from which isl computes all dependences. A transformation is legal by isl if no distance of these is turned around by it. The loops
that carry dependences are compared, too. Loops are rectangular: numbers of iterations are those of the variables then.
"""
import json
import os
import subprocess
import sys
import tempfile

import islpy as isl

# Name, loops (variable, first, behind the last), what is written, and what is read.
KERNELS = [
    ("gemm", [("i", 0, 6), ("j", 0, 7), ("k", 0, 5)], ["c", "i", "j"], [["c", "i", "j"], ["a", "i", "k"], ["b", "k", "j"]]),
    ("gemm_kij", [("k", 0, 5), ("i", 0, 6), ("j", 0, 7)], ["c", "i", "j"], [["c", "i", "j"], ["a", "i", "k"], ["b", "k", "j"]]),
    ("atax", [("i", 0, 7), ("j", 0, 6)], ["c", "0", "j"], [["c", "0", "j"], ["a", "i", "j"], ["b", "0", "i"]]),
    ("mvt", [("i", 0, 7), ("j", 0, 6)], ["c", "0", "i"], [["c", "0", "i"], ["a", "j", "i"], ["b", "0", "j"]]),
    ("seidel", [("t", 0, 3), ("i", 1, 6), ("j", 1, 6)], ["a", "i", "j"],
     [["a", "i-1", "j-1"], ["a", "i-1", "j"], ["a", "i-1", "j+1"], ["a", "i", "j-1"], ["a", "i", "j"], ["a", "i", "j+1"],
      ["a", "i+1", "j-1"], ["a", "i+1", "j"], ["a", "i+1", "j+1"]]),
    ("stencil", [("i", 1, 7), ("j", 1, 7)], ["a", "i", "j"], [["a", "i-1", "j"], ["a", "i", "j-1"]]),
    ("jacobi", [("i", 1, 7), ("j", 1, 7)], ["b", "i", "j"], [["a", "i-1", "j"], ["a", "i+1", "j"], ["a", "i", "j-1"]]),
    ("wave", [("i", 1, 7), ("j", 0, 6)], ["a", "i", "j"], [["a", "i-1", "j+1"]]),
    ("anti", [("i", 0, 6), ("j", 1, 7)], ["a", "i", "j"], [["a", "i+1", "j-1"]]),
    ("anti_forward", [("i", 0, 6), ("j", 0, 6)], ["a", "i", "j"], [["a", "i+1", "j+1"]]),
    ("fdtd", [("t", 0, 3), ("i", 1, 7), ("j", 0, 6)], ["a", "i", "j"], [["a", "i", "j"], ["b", "i", "j"], ["b", "i-1", "j"]]),
    ("heat", [("t", 0, 3), ("i", 1, 7)], ["a", "0", "i"], [["a", "0", "i-1"], ["a", "0", "i+1"]]),
    ("transposed", [("i", 0, 6), ("j", 0, 6)], ["a", "i", "j"], [["a", "j", "i"]]),
    ("diagonal", [("i", 0, 6), ("j", 0, 6)], ["c", "0", "i+j"], [["c", "0", "i+j"], ["a", "i", "j"]]),
    ("last", [("i", 0, 6), ("j", 0, 6)], ["c", "0", "j"], [["a", "i", "j"]]),
    ("skewed", [("i", 0, 6), ("j", 2, 8)], ["a", "i", "j"], [["a", "i", "j-2"]]),
    ("copy", [("i", 0, 6), ("j", 0, 6)], ["b", "i", "j"], [["a", "j", "i"]]),
]
NAME = 0


def c_source():
    lines = ["#define NO __attribute__((noinline, noclone))", "static volatile long a[16][16], b[16][16], c[16][16];"]
    for name, loops, written, read in KERNELS:
        place = lambda own: "%s[%s][%s]" % tuple(own)
        body = "%s = %s + 1;" % (place(written), " + ".join(map(place, read)))
        heads = "".join("for (int %s = %d; %s < %d; %s++) " % (v, low, v, high, v) for v, low, high in loops)
        lines.append("NO void %s(void) { %s%s }" % (name, heads, body))
    lines.append("int main(void) { %s return 0; }" % " ".join("%s();" % kernel[NAME] for kernel in KERNELS))
    return "\n".join(lines)


def distances(loops, written, read):
    """All distances of dependences, as a set."""
    names = ", ".join(v for v, _, _ in loops)
    domain = " and ".join("%d <= %s < %d" % (low, v, high) for v, low, high in loops)
    space = lambda access: isl.UnionMap("{ S[%s] -> %s[%s, %s] : %s }" % ((names,) + tuple(access) + (domain,)))
    writes = space(written)
    reads = isl.UnionMap("{ }")
    for access in read:
        reads = reads.union(space(access))
    domain = isl.UnionSet("{ S[%s] : %s }" % (names, domain))
    before = domain.lex_lt_union_set(domain)
    pairs = writes.apply_range(reads.reverse())
    pairs = pairs.union(reads.apply_range(writes.reverse())).union(writes.apply_range(writes.reverse()))
    dependences = pairs.intersect(before)
    found = []
    dependences.deltas().foreach_point(lambda point: found.append(tuple(
        int(point.get_coordinate_val(isl.dim_type.set, at).to_python()) for at in range(len(loops)))))
    return set(found)


def sign(vector):
    return next((number for number in vector if number), 0)


def by_isl(loops, written, read):
    """Whether each transformation is legal, and which loops carry dependences."""
    found = distances(loops, written, read)
    legal = {}
    for at in range(len(loops) - 1):
        swapped = lambda own: own[:at] + (own[at + 1], own[at]) + own[at + 2:]
        legal["interchange", at] = all(sign(swapped(own)) >= 0 for own in found)
        band = lambda own: any(own[:at]) or all(number >= 0 for number in own[at:at + 2])
        legal["tiles", at] = all(band(own) for own in found)
    carried = {next(at for at, number in enumerate(own) if number) for own in found}
    return legal, carried


def by_everypath(nest):
    letters = "ijklmn"
    legal = {}
    for own in nest["transformations"]:
        kind = own["what"].split()[0]
        outer = own["what"].split(", ")[0][-1]
        legal[kind, letters.index(outer)] = own["forbidden_by"] is None
    carried = {one["depth"] - 1 for one in nest["loops"] if any(one["carries"].values())}
    return legal, carried


def main():
    everypath = os.path.abspath(sys.argv[1])
    differ = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        run = lambda *words: subprocess.run(words, cwd=folder, check=True, stdout=subprocess.PIPE).stdout
        with open(os.path.join(folder, "kernels.c"), "w") as out:
            out.write(c_source())
        run("gcc", "-O1", "-g", "-fno-unroll-loops", "-o", "kernels", "kernels.c")
        run(everypath, "trace", "--memory", "addresses", "-q", "-o", "run.evp", "--", "./kernels")
        names = ",".join(kernel[NAME] for kernel in KERNELS)
        shown = run(everypath, "loops", "--dependences", "run.evp", "--loops", names, "--format", "json")
    nests = {nest["loops"][0]["name"].split(":")[0]: nest for nest in json.loads(shown)["nests"]}
    for name, loops, written, read in KERNELS:
        (legal, carried), own = by_isl(loops, written, read), by_everypath(nests[name])
        compared += len(legal) + len(loops)
        if (legal, carried) != own:
            differ += 1
            print("%s: by isl %s, carried by %s; here %s" % (name, legal, sorted(carried), own))
    legal = sum(sum(by_isl(*kernel[1:])[0].values()) for kernel in KERNELS)
    print("%d kernels, %d facts compared, %d transformations legal; %d kernels differ" % (len(KERNELS), compared, legal, differ))
    return differ > 0


sys.exit(main())
