#!/usr/bin/env python3
"""Compares the memory accesses that two tools saw of one program, instruction by instruction.

    cargo run -p testkit --example accesses -- OURS PROGRAM      (single-stepping, the table of isa)
    ACCESSES_OUT=THEIRS setarch -R python3 -m pyqbdipreload accesses.py PROGRAM      (QBDI)
    compare_accesses.py OURS THEIRS

A line is: address of the instruction, address, size, R or W or RW, value in hex or `?`. Addresses of the stack differ by the
environment, so they are compared relative to the first push; addresses of the heap only if both are the program's own.
QBDI gives a repeated string instruction as one access of all its bytes, an update as a read and a write, and no values of more
than 8 bytes.
"""
import sys

STACK = 0x7FF000000000


def read(name):
    stack, rows = None, []
    for line in open(name):
        words = line.split()
        if words[0] == "stack":
            continue
        pc, address, size = int(words[0], 16), int(words[1], 16), words[2]
        kinds = words[3]
        value = words[4] if len(words) > 4 else "?"
        for kind in kinds:
            rows.append([pc, address, int(size) if size != "?" else None, kind, value if kinds != "RW" or kind == "W" else "?"])
    return rows


def by_instruction(rows):
    """Runs of accesses of one execution of an instruction: (pc, [accesses])."""
    groups = []
    for pc, *rest in rows:
        if groups and groups[-1][0] == pc and pc is not None:
            groups[-1][1].append(rest)
        else:
            groups.append((pc, [rest]))
    return groups


def spans(accesses, stack):
    """The accesses of one instruction, neighbours joined: (place, bytes, kind)."""
    found = []
    for address, size, kind, _ in sorted(accesses, key=lambda a: (a[2], a[0])):
        place = ("stack", address - stack) if address >= STACK else ("at", address)
        if size is None:
            return None
        if found and found[-1][2] == kind and found[-1][0][0] == place[0] and found[-1][0][1] + found[-1][1] == place[1]:
            found[-1] = (found[-1][0], found[-1][1] + size, kind)
        else:
            found.append((place, size, kind))
    return found


def main():
    ours, theirs = read(sys.argv[1]), read(sys.argv[2])
    first = lambda rows: next(address for _, address, *_ in rows if address >= STACK)
    base = [first(rows) for rows in (ours, theirs)]
    a, b = by_instruction(ours), by_instruction(theirs)
    same, values, shown = 0, 0, 0
    for (pc, left), (other, right) in zip(a, b):
        one, two = spans(left, base[0]), spans(right, base[1])
        if pc != other or (two is not None and one != two):
            print(f"{pc:x} {one} is {other:x} {two}"[:300])
            shown += 1
            if shown > 10 or pc != other:
                break
            continue
        same += 1
        plain = lambda accesses: {(x[0], x[2]): int(x[3], 16) for x in accesses if x[3] != "?" and x[1] and x[1] <= 8}
        left, right = plain(left), plain(right)
        for (address, kind), value in right.items():
            at = address if address < STACK else address - base[1] + base[0]
            if (at, kind) in left:
                values += left[at, kind] == value
                # Pointers into the stack differ like its addresses.
                if left[at, kind] != value and value < STACK:
                    print(f"{pc:x} {kind} {address:x}: {left[at, kind]:x} is {value:x}")
                    shown += 1
    print(f"{same} instructions with equal accesses of {len(a)} and {len(b)}, {values} equal values, {shown} differences")
    return shown > 0 or len(a) != len(b)


sys.exit(main())
