#!/usr/bin/env python3
"""Compares the lines of `everypath count --format lcov` with those of gcov.

    tests/tools/compare_gcov.py [--flags "-O0"] SOURCE.c SOURCE.cc ...

Each source is compiled twice, for gcov and without, and run twice. Lines that differ are printed with both counts.
Programs that time or chance decides, or that end by `_exit` or a signal, differ: gcov loses what it has not written.
"""
import argparse
import gzip
import json
import os
import re
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EVERYPATH = os.environ.get("EVERYPATH", os.path.join(ROOT, "target/release/everypath"))
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def build(source, flags, name, folder):
    compiler = "g++" if source.endswith((".cc", ".cpp")) else "gcc"
    command = [compiler, "-g", *flags, "-I", os.path.dirname(source), "-o", name, source, "-lm", "-lpthread"]
    subprocess.run(command, cwd=folder, check=True, **QUIET)


def theirs(source, flags, folder):
    """Counts by line, `None` if the program wrote none."""
    build(source, ["--coverage", *flags], "counted", folder)
    subprocess.run(["./counted"], cwd=folder, timeout=60, **QUIET)
    data = [name for name in os.listdir(folder) if name.endswith(".gcda")]
    if not data:
        return None
    subprocess.run(["gcov", "--json-format", data[0]], cwd=folder, check=True, **QUIET)
    written = [name for name in os.listdir(folder) if name.endswith(".gcov.json.gz")][0]
    with gzip.open(os.path.join(folder, written)) as file:
        units = json.load(file)["files"]
    lines = {}
    for unit in units:
        if os.path.basename(unit["file"]) == os.path.basename(source):
            for line in unit["lines"]:
                number = line["line_number"]
                lines[number] = lines.get(number, 0) + line["count"]
    return lines


def ours(source, flags, folder):
    build(source, flags, "plain", folder)
    command = [EVERYPATH, "count", "--format", "lcov", "--report", "cover.info", "--", "./plain"]
    subprocess.run(command, cwd=folder, timeout=100, **QUIET)
    lines, inside = {}, False
    with open(os.path.join(folder, "cover.info")) as file:
        for line in file:
            if line.startswith("SF:"):
                inside = os.path.basename(line[3:].strip()) == os.path.basename(source)
            found = re.match(r"DA:(\d+),(\d+)", line)
            if inside and found:
                lines[int(found[1])] = int(found[2])
    return lines


def compare(source, flags):
    """How many lines have the same count, and how many another one."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            gcov = theirs(source, flags, folder)
            if gcov is None:
                print(f"{source}: gcov's data is not written")
                return 0, 0
            own = ours(source, flags, folder)
        except (subprocess.SubprocessError, OSError, IndexError) as error:
            print(f"{source}: not compared: {error}")
            return 0, 0
    with open(source) as file:
        text = file.read().split("\n")
    name = os.path.basename(source)
    both = sorted(gcov.keys() & own.keys())
    differ = [line for line in both if gcov[line] != own[line]]
    for line in differ:
        print(f"{name}:{line}: gcov {gcov[line]}, everypath {own[line]}: {text[line - 1].strip()[:80]}")
    only = sorted(own.keys() - gcov.keys())
    print(f"{name}: {len(both) - len(differ)} the same, {len(differ)} differ, only everypath {only[:10]}")
    return len(both) - len(differ), len(differ)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--flags", default="-O0")
    parser.add_argument("sources", nargs="+")
    arguments = parser.parse_args()
    counts = [compare(os.path.abspath(source), arguments.flags.split()) for source in arguments.sources]
    print(sum(same for same, _ in counts), "the same,", sum(differ for _, differ in counts), "differ")


main()
