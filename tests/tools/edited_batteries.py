#!/usr/bin/env python3
"""Runs scripts of tests/real with edited programs and libraries in the place of the originals.

Each script is set up once and run natively; then its programs, and all libraries that these need, are edited and bound over the
originals in a mount namespace of its own, so that every process of the run has them: shells, interpreters, compilers, servers. Output,
status and the files that are left must be the same in each round. Needs root (unshare, mount).

    tests/tools/edited_batteries.py [--everypath BIN] [--tool TOOL] [--paranoid] [--rounds N] [--size full|small] [SCRIPT...]

Ends with a table and exit status 1 if anything differed.
"""

import argparse
import glob
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REAL = os.path.join(ROOT, "tests/real")
SHELLS = ["/usr/bin/bash", "/usr/bin/dash"]
# Programs by script; all of their libraries go with them.
PROGRAMS = {
    "git_tests": ["/usr/bin/git", "/usr/bin/perl"] + SHELLS,
    "perl_tests": ["/usr/bin/perl"] + SHELLS,
    "python_tests": ["/usr/bin/python3.11"] + SHELLS,
    "postgres_tests": ["postgres", "psql", "pg_ctl", "pg_regress"] + SHELLS,
    "compilers": ["cc1", "cc1plus", "/usr/bin/as", "/usr/bin/x86_64-linux-gnu-gcc-12"] + SHELLS,
    "big_source": ["cc1", "/usr/bin/as", "/usr/bin/x86_64-linux-gnu-gcc-12"] + SHELLS,
    "sqlite3": ["/usr/bin/sqlite3"] + SHELLS,
    "compression": ["/usr/bin/xz", "/usr/bin/zstd", "/usr/bin/gzip", "/usr/bin/bzip2"] + SHELLS,
}
SCRIPT = 'set -eu; setup() { :; }; source "$1"; "$2"'


def find(name):
    """The file of a program that is in no PATH."""
    if name.startswith("/"):
        return os.path.realpath(name)
    if name in ("cc1", "cc1plus"):
        return os.path.realpath(subprocess.check_output(["gcc", f"-print-prog-name={name}"], text=True).strip())
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}") + glob.glob(f"/usr/lib/postgresql/*/lib/pgxs/src/test/regress/{name}"))
    return os.path.realpath(found[-1])


def files_of(programs):
    found = set()
    for program in map(find, programs):
        found.add(program)
        for word in subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True).stdout.split():
            if word.startswith("/") and "ld-linux" not in word:
                found.add(os.path.realpath(word))
    return sorted(found)


def run(name, function, shared, size, binds):
    """Status, output, files and seconds of a function of a script."""
    # Every run has the same paths.
    work = os.path.join(shared, "..", "work")
    subprocess.run(["rm", "-rf", work], check=True)
    os.makedirs(work)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": shared, "SHARED": shared, "SIZE": size, "REAL": REAL,
                   "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    mounts = "".join(f'mount --bind "{new}" "{old}"\n' for new, old in binds)
    script = mounts + 'exec bash -c "$0" real "$@"'
    start = time.time()
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-ec", script, SCRIPT, f"{REAL}/{name}.sh", function],
                          cwd=work if function == "run" else shared, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seconds = time.time() - start
    left = {}
    for directory, _, names in os.walk(work):
        for each in names:
            path = os.path.join(directory, each)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    left[os.path.relpath(path, work)] = hashlib.sha256(file.read()).hexdigest()
    return (done.returncode, done.stdout, left), seconds, done.stderr


def battery(name, options):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shared = os.path.join(folder, "shared")
        os.makedirs(shared)
        (status, *_), _, said = run(name, "setup", shared, options.size, [])
        if status != 0:
            return f"setup failed: {said[-300:]!r}", 0, 0
        binds = []
        for number, path in enumerate(files_of(PROGRAMS[name])):
            edited = os.path.join(folder, f"edited{number}")
            words = [options.everypath, "rewrite", path, "-o", edited, "--tool", options.tool] + ["--paranoid"] * options.paranoid
            done = subprocess.run(words, stderr=subprocess.PIPE, text=True)
            if done.returncode != 0:
                print(done.stderr.strip(), file=sys.stderr)
                continue
            os.chmod(edited, os.stat(path).st_mode & 0o777)
            binds.append((edited, path))
        ratios = []
        for _ in range(options.rounds):
            native, before, _ = run(name, "run", shared, options.size, [])
            edited, after, said = run(name, "run", shared, options.size, binds)
            ratios.append(after / before)
            if edited != native:
                print(native[:2], edited[:2], said.decode(errors="replace")[-2000:], file=sys.stderr)
                return "DIFFERS", len(binds), statistics.median(ratios)
        return "same", len(binds), statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--everypath", default="everypath")
    parser.add_argument("--tool", default="null")
    parser.add_argument("--paranoid", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", default="full", choices=("full", "small"))
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT")
    options = parser.parse_args()
    failed = False
    print("| script | files edited | rounds | result | times native |\n|---|---|---|---|---|", flush=True)
    for name in options.scripts or PROGRAMS:
        result, files, ratio = battery(name, options)
        failed |= result != "same"
        print(f"| {name} | {files} | {options.rounds} | {result} | {ratio:.2f} |", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
