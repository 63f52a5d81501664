#!/usr/bin/env python3
"""Holds traces regenerated from witnesses against `everypath trace`, instruction by instruction and thread by thread.

    sweep_traces.py --everypath BIN [--opt=-O2] [--compiler gcc] [--limit N] SOURCE...

Each source is compiled and edited with --tool trace; original and edited program run with the same name, arguments and environment,
the original under `trace --no-shared-libs`. Of that trace, code of the functions that moved must be what was regenerated. Programs whose
runs differ by chance are told apart by a second trace of the original.
"""

import argparse
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SECONDS = 60
MOST = 30_000_000


def run(command, folder, **more):
    """Status and standard output of a command; None: it does not end."""
    try:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=SECONDS, **more)
    except subprocess.TimeoutExpired:
        return None
    return done.returncode, done.stdout, done.stderr


def threads(everypath, traces):
    """Instructions of each thread of some traces, and their texts."""
    all_found, all_names = [], {}
    for trace in traces:
        read = threads_of(everypath, trace)
        if read is None:
            return None
        all_found += read[0]
        all_names.update(read[1])
    return all_found, all_names


def threads_of(everypath, trace):
    """Instructions of each thread of a trace, and their texts."""
    dump = subprocess.Popen([everypath, "dump", trace], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found, names, count = [], {}, 0
    for line in dump.stdout:
        if line.startswith(b"# process"):
            found.append([])
        if line.startswith(b"#"):
            continue
        fields = line.split(None, 3)
        if len(fields) < 3:
            continue
        pc = int(fields[1], 16)
        found[-1].append(pc)
        names.setdefault(pc, fields[2])
        count += 1
        if count > MOST:
            dump.kill()
            return None
    return found, names


def same(everypath, own, other):
    """Whether two traces are the same where the first one has code; with a word about where not."""
    own, other = threads(everypath, own), threads(everypath, other)
    if own is None or other is None:
        return None, "too long"
    (own, own_names), (other, other_names) = own, other
    by_name = {}
    for pc, name in other_names.items():
        by_name.setdefault(name, pc)
    moved = collections.Counter(
        by_name[name] - pc for pc, name in own_names.items() if name in by_name)
    distance = moved.most_common(1)[0][0] if moved else 0
    known = set(own_names)
    own = [thread for thread in own if thread]
    # Another image's code is at other places.
    other = [[pc - distance for pc in thread if pc - distance in known] for thread in other]
    other = [thread for thread in other if thread]
    if own == other:
        return True, f"{sum(map(len, own))} instructions"
    if sorted(map(tuple, own)) == sorted(map(tuple, other)):
        return True, f"{sum(map(len, own))} instructions, threads in another order"
    for number, (one, two) in enumerate(zip(own, other)):
        if one != two:
            at = next((at for at, (a, b) in enumerate(zip(one, two)) if a != b), min(len(one), len(two)))
            names = [own_names.get(pc, b"?").decode() for pc in one[max(0, at - 2):at + 2]]
            names += ["/"] + [own_names.get(pc, b"?").decode() for pc in two[max(0, at - 2):at + 2]]
            return False, f"thread {number} of {len(own)}/{len(other)} at {at} of {len(one)}/{len(two)}: {' '.join(names)}"
    return False, f"{len(own)} threads, and {len(other)}"


def check(everypath, source, flags, folder):
    name = source.stem
    original, edited = folder / "a" / name, folder / "b" / name
    for path in (original, edited):
        path.parent.mkdir()
    language = {".cc": "g++", ".c": "gcc", ".S": "gcc"}.get(source.suffix)
    if language is None:
        return "not compiled", ""
    if source.suffix == ".S" and b"_start" in source.read_bytes():
        flags = flags + ["-nostdlib", "-static"]
    built = run([language, *flags, "-pthread", "-o", original, source, "-lm", "-ldl"], source.parent)
    if built is None or built[0] != 0:
        return "not compiled", ""
    done = run([everypath, "rewrite", original, "-o", edited, "--tool", "trace"], folder)
    if done is None or done[0] != 0:
        return "refused", done and done[2].decode().strip()
    work = folder / "work"
    environment = {"PATH": os.environ["PATH"], "EVERYPATH_COUNTERS": str(work)}

    def at_work(command):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        return run(command, work, env=environment)

    natively = at_work([original])
    ran = at_work([edited])
    if natively is None or ran is None:
        return "not run", ""
    files = sorted(work.glob("*.evp"))
    word = "" if natively[:2] == ran[:2] else f" (status {natively[0]} and {ran[0]}, output {natively[1] == ran[1]})"
    if not files:
        return "without a file", word
    kept = []
    for number, file in enumerate(files):
        kept.append(folder / f"run{number}.evp")
        made = run([everypath, "regenerate", file, "-o", kept[-1]], folder)
        if made is None or made[0] != 0 or b"contradicts" in made[2]:
            return "CONTRADICTS", (made[2].decode().strip() if made else "") + word
    traces = [folder / "one.evp", folder / "two.evp"]
    for trace in traces:
        if at_work([everypath, "trace", "--no-shared-libs", "-q", "-o", trace, "--", original]) is None:
            return "not traced", word
    is_same, why = same(everypath, kept, traces[:1])
    if is_same:
        return "the same", f"{len(files)} files, {why}{word}"
    if is_same is None or not same(everypath, traces[:1], traces[1:])[0]:
        return "by chance", why + word
    return "DIFFERS", why + word


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--everypath", required=True)
    parser.add_argument("--opt", default="-O2")
    parser.add_argument("--limit", type=int)
    parser.add_argument("sources", nargs="+", type=pathlib.Path)
    flags = parser.parse_args()
    everypath = str(pathlib.Path(flags.everypath).resolve())
    results = collections.Counter()
    for source in flags.sources[:flags.limit]:
        with tempfile.TemporaryDirectory() as folder:
            result, word = check(everypath, source.resolve(), flags.opt.split(), pathlib.Path(folder))
        results[result] += 1
        print(f"{source.name}: {result}; {word}", flush=True)
    print(", ".join(f"{count} {result}" for result, count in results.most_common()))
    sys.exit(1 if results["DIFFERS"] + results["CONTRADICTS"] else 0)


if __name__ == "__main__":
    main()
