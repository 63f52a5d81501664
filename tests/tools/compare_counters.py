#!/usr/bin/env python3
"""Counters of edited programs against `everypath count`, block by block and edge by edge.

Each program of tests/programs is built as its `// build:` line says, run natively, under `everypath count`, and edited by
`everypath rewrite --tool TOOL`, each time where addresses are the same in every run. Said of each: whether output and status
are the native ones, and how many blocks and edges of the edited program differ.

    tests/tools/compare_counters.py [--everypath BIN] [--tool edges|blocks] [--work FOLDER] [NAME...]

NAME: only programs with this in their name. Programs whose ways depend on time, on their map of memory or on their unwind
tables differ without being wrong; docs/limits.md (`rewrite --tool edges`) says which others do. Status 1: an output differs.
"""

import argparse
import bisect
import collections
import json
import pathlib
import re
import shutil
import subprocess
import sys

PROGRAMS = pathlib.Path(__file__).resolve().parent.parent / "programs"
COMPILERS = {"cc": "gcc", "c++": "g++"}
SECONDS = 60


class Counts:
    """Blocks and edges of one file in a JSON report."""

    def __init__(self, report, program):
        section = report["sections"][0]
        paths = [module["path"] or "" for module in section["modules"]]
        own = next((at for at, path in enumerate(paths) if path.endswith("/" + program)), None)
        places = [
            (int(block["offset"], 16), block["bytes"]) if block["module"] == own else None
            for block in section["blocks"]
        ]
        counted = zip(places, section["blocks"])
        self.blocks = sorted((*place, block["executed"]) for place, block in counted if place)
        self.starts = [block[0] for block in self.blocks]
        self.edges = collections.Counter()
        for edge in section["edges"]:
            if edge["kind"] not in ("taken", "jump") or edge["to"] is None:
                continue
            source, target = places[edge["from"]], places[edge["to"]]
            if source and target:
                self.edges[sum(source), target[0]] += edge["count"]

    def at(self, offset):
        """Executions of the block with an offset."""
        at = bisect.bisect_right(self.starts, offset) - 1
        if at < 0 or offset >= self.blocks[at][0] + self.blocks[at][1]:
            return None
        return self.blocks[at][2]

    def differences(self, every):
        """How many blocks and edges are not as in the counts of all code."""
        wrong = sum(every.at(start) != executed for start, _, executed in self.blocks)
        for start, _, executed in every.blocks:
            own = self.at(start)
            wrong += own is not None and own != executed
        # Where jumps by shared tables went is not told.
        return wrong + sum(every.edges.get(edge) != count for edge, count in self.edges.items())


def run(words, folder):
    try:
        done = subprocess.run(["setarch", "-R", *words], cwd=folder, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "no end"
    return done.returncode, done.stdout, done.stderr


def report(everypath, files):
    done = subprocess.run([everypath, "report", *files, "--format", "json"], capture_output=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def compare(source, options):
    """What there is to say of a program."""
    build = re.search(r"// build: (.*)", source.read_text(errors="replace"))
    if not build:
        return "not built"
    name, folder = source.stem, options.work / source.stem
    shutil.rmtree(folder, ignore_errors=True)
    for part in ("native", "counted", "edited"):
        (folder / part).mkdir(parents=True)
    program = folder / name
    words = build[1].split()
    words[0] = COMPILERS.get(words[0], words[0])
    line = " ".join([*words, "-o", str(program), str(source), *([] if words[0] == "rustc" else ["-lm"])])
    if subprocess.run(line, shell=True, cwd=PROGRAMS, capture_output=True).returncode:
        return "not built"
    edit = [options.everypath, "rewrite", program, "-o", folder / "edited" / name, "--tool", options.tool]
    if subprocess.run(edit, capture_output=True).returncode:
        return "refused"
    for part in ("native", "counted"):
        shutil.copy(program, folder / part / name)
    native = run([f"./{name}"], folder / "native")
    if native != run([f"./{name}"], folder / "edited"):
        shutil.rmtree(folder / "native")
        (folder / "native").mkdir()
        shutil.copy(program, folder / "native" / name)
        return "DIFFERS" if native == run([f"./{name}"], folder / "native") else "never the same"
    run([options.everypath, "count", "-q", "-o", folder / "all.evp", "--", f"./{name}"], folder / "counted")
    files = sorted((folder / "edited").glob("*.evp"))
    every = report(options.everypath, [folder / "all.evp"])
    own = report(options.everypath, files) if files else None
    if not every or not own:
        return "same, nothing to compare"
    own, every = Counts(own, name), Counts(every, name)
    wrong = own.differences(every)
    return f"same, {wrong} counts differ" if wrong else f"equal, {len(own.blocks)} blocks"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--everypath", default="everypath")
    parser.add_argument("--tool", default="edges", choices=("edges", "blocks"))
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("counters.work"))
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()
    options.everypath = shutil.which(options.everypath) or sys.exit(f"no program {options.everypath}")
    options.work = options.work.resolve()
    kinds = collections.Counter()
    for source in sorted(PROGRAMS.iterdir()):
        wanted = not options.names or any(name in source.stem for name in options.names)
        if source.suffix not in (".c", ".cc", ".S", ".rs") or not wanted:
            continue
        said = compare(source, options)
        kinds[re.sub(r"\d+ ", "", said)] += 1
        print(f"{source.stem}: {said}", flush=True)
    for kind, count in kinds.most_common():
        print(f"{count:6} {kind}")
    sys.exit(1 if kinds["DIFFERS"] else 0)


if __name__ == "__main__":
    main()
