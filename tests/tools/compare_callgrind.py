#!/usr/bin/env python3
"""Compares the costs of functions in two callgrind files, of Everypath and of valgrind, for one module.

    export LD_BIND_NOW=1 GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-ERMS,-FSRM
    everypath contexts -q --unroll-recursion -o run.evp PROGRAM; everypath report run.evp --format callgrind > ours
    valgrind --tool=callgrind --callgrind-out-file=theirs PROGRAM
    compare_callgrind.py ours theirs MODULE

The variables make the C library choose the same variants of its functions. A program that depends on addresses, the size of its
environment or the processor executes other instructions under valgrind, so inclusive costs are compared for functions all of whose callees,
however deep, have equal own costs; functions of a cycle are left out, because valgrind counts those below a recursive call twice.
"""
import collections
import re
import sys


class File:
    def __init__(self, path):
        self.own, self.inclusive = collections.Counter(), collections.Counter()
        self.edges = collections.defaultdict(set)
        names = {}
        positions, pending, current, callee_object, obj = 1, False, None, None, ""

        def name(kind, text):
            match = re.match(r"\((\d+)\)(?: (.*))?$", text)
            if not match:
                return text
            if match.group(2) is not None:
                names[kind, match.group(1)] = match.group(2)
            return names[kind, match.group(1)]

        def function(obj, text):
            # Functions of a cycle have a number behind their names.
            return obj.split("/")[-1], re.sub(r"'\d+$", "", name("fn", text))

        for line in open(path, errors="replace"):
            line = line.rstrip("\n")
            key, _, rest = line.partition("=")
            if line.startswith("part:"):
                names.clear()
            elif line.startswith("positions:"):
                positions = len(line.split()) - 1
            elif key == "ob":
                obj = name("ob", rest)
            elif key == "cob":
                callee_object = name("ob", rest)
            elif key == "fn":
                current, callee_object = function(obj, rest), None
            elif key == "cfn":
                callee, callee_object = function(callee_object or obj, rest), None
            elif key == "calls":
                pending = True
            elif line[:1].isdigit() or line[:1] in ("+", "-", "*"):
                words = line.split()
                cost = int(words[positions]) if len(words) > positions else 0
                if pending:
                    self.edges[current].add(callee)
                    self.inclusive[callee] += cost
                    pending = False
                else:
                    self.own[current] += cost


def cycles(edges):
    """Functions that call themselves, however deep (Tarjan's algorithm without recursion)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), set()
    for root in list(edges):
        work = [(root, iter(edges[root]))] if root not in index else []
        for node, _ in work:
            index[node] = low[node] = len(index)
            stack.append(node)
            on_stack.add(node)
        while work:
            node, callees = work[-1]
            for callee in callees:
                if callee == node:
                    found.add(node)
                if callee not in index:
                    index[callee] = low[callee] = len(index)
                    stack.append(callee)
                    on_stack.add(callee)
                    work.append((callee, iter(edges.get(callee, ()))))
                    break
                if callee in on_stack:
                    low[node] = min(low[node], index[callee])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while not component or component[-1] != node:
                        component.append(stack.pop())
                        on_stack.discard(component[-1])
                    if len(component) > 1:
                        found.update(component)
    return found


def main():
    ours, theirs, module = File(sys.argv[1]), File(sys.argv[2]), sys.argv[3]
    callers = collections.defaultdict(set)
    for file in (ours, theirs):
        for caller, callees in file.edges.items():
            for callee in callees:
                callers[callee].add(caller)
    every = set(ours.own) | set(theirs.own)
    other = {function for function in every if ours.own[function] != theirs.own[function]}
    todo = list(other)
    while todo:
        for caller in callers[todo.pop()] - other:
            other.add(caller)
            todo.append(caller)
    left_out = other | cycles(ours.edges) | cycles(theirs.edges)
    both = [function for function in ours.own if function in theirs.own and function[0] == module]
    own = sum(ours.own[function] == theirs.own[function] for function in both)
    compared = [function for function in both if function not in left_out]
    unequal = [f for f in compared if ours.inclusive[f] != theirs.inclusive[f]]
    print(f"{module}: {len(both)} functions, own costs equal {own}; inclusive compared {len(compared)}, equal {len(compared) - len(unequal)}")
    for function in unequal:
        print(function[1][:100], ours.inclusive[function], theirs.inclusive[function])
    return bool(unequal)


sys.exit(main())
