#!/usr/bin/env python3
"""Edits all ELF files of folders, and runs programs with the edited file in place of the original.

For each file: what `everypath rewrite` says; then, in a mount namespace of its own in which the edited
file is bound over the original, a command whose output and status must be as with the original. For a
program that is the program itself with --version or --help; for a library, the first program of the
folders that needs it. With --strip also after strip and llvm-strip. Needs root (unshare, mount).

    tests/tools/sweep_rewrite.py [--everypath BIN] [--tool TOOL] [--paranoid] [--strip] [--only KIND] [--limit N] FOLDER...

Ends with a table and exit status 1 if anything differed.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

# Programs that do something to the machine whatever they are asked.
LEFT_OUT = {"init", "systemd", "halt", "reboot", "shutdown", "poweroff", "telinit", "runlevel", "agetty", "getty",
            "sulogin", "login", "su", "switch_root", "pivot_root", "unshare", "nsenter", "chroot", "Xorg", "X"}
# Ways to ask a program for something that it says each time.
TRIES = (["--version"], ["--help"])
SECONDS = 10
FUNCTIONS = collections.Counter()


def elf_files(folders):
    found = {}
    for folder in folders:
        for directory, names, files in os.walk(folder):
            names.sort()
            for name in sorted(files):
                path = os.path.join(directory, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                with open(path, "rb") as file:
                    head = file.read(20)
                # Guile's byte code is in files of this form, for no machine.
                if head[:5] == b"\x7fELF\x02" and head[16] in (2, 3) and head[18] == 62:
                    stat = os.stat(path)
                    found.setdefault((stat.st_dev, stat.st_ino), path)
    return list(found.values())


def run(command, bound=None):
    """Status and output of a command, with a file bound over another one."""
    script = 'exec "$@"'
    if bound:
        script = f'mount --bind "{bound[0]}" "{bound[1]}" && exec "$@"'
    words = ["unshare", "-m", "--propagation", "private", "timeout", "-k", "1", str(SECONDS), "sh", "-c", script, "sh"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": folder, "LC_ALL": "C", "TMPDIR": folder}
        done = subprocess.run(words + command, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.replace(folder.encode(), b"")


def trial(path):
    """A command that shows the file at work, whose output is the same each time; None if there is none."""
    if is_program(path):
        if os.path.basename(path) in LEFT_OUT:
            return None
        candidates = [[path] + words for words in TRIES]
    else:
        candidates = [[program, "--version"] for program in USERS.get(os.path.realpath(path), [])[:3]]
    for command in candidates:
        first = run(command)
        if first[0] in (124, 137) or first != run(command):
            continue
        return command, first
    return None


def users(programs):
    """Programs by the libraries that they need."""
    needed = collections.defaultdict(list)
    for program in programs:
        if os.path.basename(program) in LEFT_OUT:
            continue
        done = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for word in done.stdout.split():
            if word.startswith("/"):
                needed[os.path.realpath(word)].append(program)
    return needed


def is_program(path):
    return os.access(path, os.X_OK) and ".so" not in os.path.basename(path)


def one(path):
    with tempfile.TemporaryDirectory() as folder:
        edited = os.path.join(folder, "edited")
        start = time.time()
        done = subprocess.run([OPTIONS.everypath, "rewrite", path, "-o", edited, "--tool", *OPTIONS.tool.split()]
                              + ["--paranoid"] * OPTIONS.paranoid + ["--explain"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        seconds = time.time() - start
        kind = "programs" if is_program(path) else "libraries"
        note_functions(done.stdout)
        if done.returncode != 0:
            reason = done.stdout.strip().replace(f"'{path}'", "it").splitlines()[-1:]
            return kind, "refused", path, reason[0] if reason else str(done.returncode), seconds
        found = trial(path)
        if not found:
            return kind, "edited, not run", path, "", seconds
        command, native = found
        forms = [edited]
        if OPTIONS.strip:
            for strip in ("strip", "llvm-strip-14"):
                form = f"{edited}.{strip}"
                subprocess.run([strip, "-o", form, edited], check=True, stderr=subprocess.DEVNULL)
                forms.append(form)
        for form in forms:
            os.chmod(form, os.stat(path).st_mode & 0o777)
            now = run(command, (form, os.path.realpath(path)))
            # Programs with children print in another order now and then.
            if now != native and now not in [run(command) for _ in range(8)]:
                name = os.path.basename(form)
                return kind, "differs", path, f"{name}: {' '.join(command)}: {native!r:.200} {now!r:.200}", seconds
        return kind, "same", path, "", seconds


def note_functions(said):
    """Adds up what `--explain` says of functions: moved, and left by gate."""
    for line in said.splitlines():
        if found := re.search(r"(\d+) functions moved", line):
            FUNCTIONS["moved"] += int(found[1])
        elif found := re.search(r"left at .*: (G\d+), (.*)", line):
            FUNCTIONS[f"left, {found[1]}: {found[2]}"] += 1


def main():
    global OPTIONS, USERS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--everypath", default="everypath")
    parser.add_argument("--tool", default="segment")
    parser.add_argument("--paranoid", action="store_true")
    parser.add_argument("--strip", action="store_true")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--only", choices=("programs", "libraries"))
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    OPTIONS = parser.parse_args()
    files = elf_files(OPTIONS.folders)
    USERS = users([path for path in files if is_program(path)])
    if OPTIONS.only:
        files = [path for path in files if is_program(path) == (OPTIONS.only == "programs")]
    files = files[:OPTIONS.limit]
    counts, seconds, bytes_ = collections.Counter(), 0.0, 0
    reasons = collections.Counter()
    with ThreadPoolExecutor(2) as pool:
        for path, (kind, result, _, why, took) in zip(files, pool.map(one, files)):
            counts[kind, result] += 1
            seconds += took
            bytes_ += os.path.getsize(path)
            if result == "refused":
                reasons[why] += 1
                print(f"refused  {path}: {why}", flush=True)
            elif result == "differs":
                print(f"DIFFERS  {path}: {why}", flush=True)
    print("\n| | same | edited, not run | refused | differs |\n|---|---|---|---|---|")
    for kind in ("programs", "libraries"):
        row = [counts[kind, result] for result in ("same", "edited, not run", "refused", "differs")]
        print(f"| {kind} | " + " | ".join(f"{value:,}" for value in row) + " |")
    print(f"\n{bytes_ / 1e6:,.1f} MB edited in {seconds:,.1f} s")
    for what, count in sorted(FUNCTIONS.items()):
        print(f"{count:>9,}  functions {what}")
    for why, count in reasons.most_common():
        print(f"{count:>6}  {why}")
    sys.exit(any(result == "differs" for _, result in counts))


if __name__ == "__main__":
    main()
