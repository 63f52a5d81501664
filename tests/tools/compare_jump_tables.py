#!/usr/bin/env python3
"""Compares the indirect jumps of `everypath flow` with those that ddisasm finds.

    pip install ddisasm gtirb
    ddisasm PROGRAM --ir out.gtirb
    everypath flow PROGRAM --format json > flow.json
    compare_jump_tables.py out.gtirb flow.json

An indirect jump is named by the address behind it. Both have either targets in the function, or none known (a tail
call). Differences are listed; the exit status is 1 if there are some.
"""

import json
import sys

import gtirb


def of_ddisasm(path):
    """Targets of each indirect jump, by the address behind it."""
    jumps = {}
    for module in gtirb.IR.load_protobuf(path).modules:
        for block in module.code_blocks:
            for edge in block.outgoing_edges:
                label = edge.label
                is_jump = label and label.type == gtirb.EdgeType.Branch and not label.direct
                if not is_jump:
                    continue
                targets = jumps.setdefault(block.address + block.size, set())
                if isinstance(edge.target, gtirb.CodeBlock):
                    targets.add(edge.target.address)
    return jumps


def of_flow(path):
    """The same, and the ends of tail calls, which may go by a word that the dynamic linker fills."""
    with open(path) as file:
        functions = json.load(file)["functions"]
    jumps, slots = {}, set()
    for function in functions:
        ends = {block[2]: block[1] for block in function["blocks"]}
        for edge in function["edges"]:
            block = function["blocks"][edge["from"]]
            if edge["kind"] == "case":
                to = function["blocks"][edge["to"]][0] if "to" in edge else edge["address"]
                jumps.setdefault(block[1], set()).add(to)
            elif edge["kind"] == "tail call" and "address" in edge:
                slots.add(block[1])
        for jump in function["tail_jumps"]:
            jumps.setdefault(ends[jump], set())
    return jumps, slots


def main(ddisasm, flow):
    theirs, (ours, slots) = of_ddisasm(ddisasm), of_flow(flow)
    same = tables = differ = 0
    for jump in sorted(theirs.keys() | ours.keys()):
        one, two = theirs.get(jump), ours.get(jump)
        if one == two:
            same += 1
            tables += bool(one)
            continue
        # Stubs of the dynamic linker are no functions here.
        if two is None and (not one or jump in slots):
            continue
        differ += 1
        more = sorted(hex(target) for target in (two or set()) - (one or set()))
        less = sorted(hex(target) for target in (one or set()) - (two or set()))
        print(f"{jump:#x}: only here {more}, only ddisasm {less}", end="")
        print(", not a jump here" if two is None else ", not one there" if one is None else "")
    print(f"{same} indirect jumps with the same targets, {tables} of them by tables; {differ} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
