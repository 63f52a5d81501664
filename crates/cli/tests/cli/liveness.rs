//! Registers and flags that `flow` says are dead matter to nobody.
//!
//! The oracle is the program itself: it is stepped, and before each instruction the general registers, the lower parts
//! of vector registers and the flags that are not live there are given other values. Output and status stay the same.

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use flow::{Liveness, Program};
use image::{Image, LinkAddr};
use isa::{Flags, RegisterSet};
use nix::sys::ptrace::{self, regset};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use testkit::folder::Folder;
use testkit::process;

use crate::flow::THROWS;

/// `AT_ENTRY`, `uapi/linux/auxvec.h`.
const AT_ENTRY: u64 = 9;
/// `int3`.
const TRAP: u8 = 0xcc;
/// Steps of a program; with more the test takes too long.
const MOST_STEPS: u64 = 10_000_000;
/// Vector registers are changed at one step of so many: that takes two more system calls.
const VECTOR_STEPS: u64 = 4;

/// Sets by link address, of a file that is mapped at an address.
struct Module {
    base: u64,
    live: HashMap<u64, RegisterSet>,
}

impl Module {
    fn new(path: &Path, base: u64) -> Module {
        let image = Image::open_whole(path).unwrap();
        let program = Program::of(&image);
        let liveness = Liveness::new(&image, &program);
        let mut live = HashMap::new();
        for function in program.functions.iter().filter(|one| one.is_complete()) {
            let own = liveness.of(function);
            for block in 0..function.graph.blocks.len() {
                for (at, set) in liveness.within(function, &own, block) {
                    // Code that two functions share.
                    let both: &mut RegisterSet = live.entry(at.0).or_default();
                    *both = both.with(set);
                }
            }
        }
        let first = image.link_addr(image::FileOffset(0));
        Module {
            base: base.wrapping_sub(first.unwrap_or(LinkAddr(0)).0),
            live,
        }
    }
}

/// Numbers without a pattern (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// A run whose dead registers are changed.
struct Clobbering {
    pid: Pid,
    modules: HashMap<PathBuf, Module>,
    /// Ranges of mapped files.
    maps: Vec<(u64, u64, PathBuf)>,
    random: Random,
    steps: u64,
    changes: u64,
}

impl Clobbering {
    /// The set of the next instruction, if it is known.
    fn live(&mut self, rip: u64) -> Option<RegisterSet> {
        let known = |maps: &[(u64, u64, PathBuf)]| {
            let map = maps.iter().find(|map| (map.0..map.1).contains(&rip))?;
            Some(map.2.clone())
        };
        let path = known(&self.maps).or_else(|| {
            self.look();
            known(&self.maps)
        })?;
        let module = self.modules.get(&path)?;
        module.live.get(&rip.wrapping_sub(module.base)).copied()
    }

    /// Reads what is mapped now.
    fn look(&mut self) {
        let text = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap();
        self.maps.clear();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = words[0].split_once('-').unwrap();
            let number = |digits| u64::from_str_radix(digits, 16).unwrap();
            let path = words.get(5).copied().unwrap_or_default();
            let path = PathBuf::from(path);
            if path.is_absolute() && u64::from_str_radix(words[2], 16) == Ok(0) {
                let start = number(start);
                let is_elf = fs::read(&path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
                if is_elf && !self.modules.contains_key(&path) {
                    self.modules.insert(path.clone(), Module::new(&path, start));
                }
            }
            self.maps.push((number(start), number(end), path));
        }
    }

    fn step(&mut self) {
        let mut registers = ptrace::getregs(self.pid).unwrap();
        self.steps += 1;
        assert!(self.steps < MOST_STEPS, "the program takes too long");
        let Some(live) = self.live(registers.rip) else {
            return;
        };
        let general = [
            &mut registers.rax,
            &mut registers.rcx,
            &mut registers.rdx,
            &mut registers.rbx,
            &mut registers.rsp,
            &mut registers.rbp,
            &mut registers.rsi,
            &mut registers.rdi,
            &mut registers.r8,
            &mut registers.r9,
            &mut registers.r10,
            &mut registers.r11,
            &mut registers.r12,
            &mut registers.r13,
            &mut registers.r14,
            &mut registers.r15,
        ];
        for (number, register) in general.into_iter().enumerate() {
            if live.general >> number & 1 == 0 {
                *register = self.random.next();
                self.changes += 1;
            }
        }
        // OF, SF, ZF, AF, CF, PF, as in `isa::Flags`.
        for (bit, place) in [11, 7, 6, 4, 0, 2].into_iter().enumerate() {
            let flag = Flags(1 << bit);
            if live.flags.without(flag) == live.flags {
                registers.eflags ^= (self.random.next() >> 32 & 1) << place;
                self.changes += 1;
            }
        }
        ptrace::setregs(self.pid, registers).unwrap();
        if self.steps.is_multiple_of(VECTOR_STEPS) && live.vectors & 0xffff != 0xffff {
            let mut vectors = ptrace::getregset::<regset::NT_PRFPREG>(self.pid).unwrap();
            for number in (0..16).filter(|number| live.vectors >> number & 1 == 0) {
                for word in 0..4 {
                    vectors.xmm_space[number * 4 + word] = self.random.next() as u32;
                }
                self.changes += 1;
            }
            ptrace::setregset::<regset::NT_PRFPREG>(self.pid, vectors).unwrap();
        }
    }
}

fn command(first: &str, line: &str, folder: &Folder) -> Command {
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("{first}exec {line}")])
        .current_dir(folder.path())
        .env("LC_ALL", "C")
        .env("LD_BIND_NOW", "1")
        .stdin(Stdio::null());
    command
}

/// Lets a program that was just executed run to its entry, as the dynamic linker takes most steps of a short run.
fn run_to_entry(pid: Pid) {
    let vector = fs::read(format!("/proc/{pid}/auxv")).unwrap();
    let words: Vec<u64> = vector
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let mut pairs = words.chunks_exact(2);
    let entry = pairs.find(|pair| pair[0] == AT_ENTRY).unwrap()[1];
    let path = format!("/proc/{pid}/mem");
    let memory = File::options().read(true).write(true).open(path);
    let memory = memory.unwrap();
    let mut first = [0];
    memory.read_exact_at(&mut first, entry).unwrap();
    memory.write_all_at(&[TRAP], entry).unwrap();
    ptrace::cont(pid, None).unwrap();
    let stopped = waitpid(pid, None).unwrap();
    assert_eq!(stopped, WaitStatus::Stopped(pid, Signal::SIGTRAP));
    memory.write_all_at(&first, entry).unwrap();
    let mut registers = ptrace::getregs(pid).unwrap();
    registers.rip = entry;
    ptrace::setregs(pid, registers).unwrap();
}

/// Runs a line with what is dead changed at every step; also steps and changes.
#[expect(clippy::zombie_processes, reason = "waitpid sees its end")]
fn clobbered(line: &str, folder: &Folder, seed: u64) -> (Output, u64, u64) {
    let [out, err] = ["out", "err"].map(|name| folder.file(name));
    let mut command = command("kill -STOP $$; ", line, folder);
    command
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap());
    let child = command.spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    process::wait_until("the shell stops itself", || process::is_stopped(pid));
    ptrace::attach(pid).unwrap();
    let mut run = Clobbering {
        pid,
        modules: HashMap::new(),
        maps: Vec::new(),
        random: Random(seed),
        steps: 0,
        changes: 0,
    };
    waitpid(pid, None).unwrap();
    kill(pid, Signal::SIGCONT).unwrap();
    // Until the shell executes the program.
    let mut signal = None;
    loop {
        ptrace::cont(pid, signal).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => break,
            WaitStatus::Stopped(_, other) => signal = Some(other),
            other => panic!("{other:?}"),
        }
    }
    run_to_entry(pid);
    let mut signal = None;
    let status = loop {
        run.step();
        ptrace::step(pid, signal.take()).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
            WaitStatus::Stopped(_, other) => signal = Some(other),
            WaitStatus::Exited(_, code) => break ExitStatus::from_raw(code << 8),
            WaitStatus::Signaled(_, signal, _) => break ExitStatus::from_raw(signal as i32),
            other => panic!("{other:?}"),
        }
    };
    let output = Output {
        status,
        stdout: fs::read(out).unwrap(),
        stderr: fs::read(err).unwrap(),
    };
    (output, run.steps, run.changes)
}

fn check(lines: &[&str], seeds: &[u64]) {
    let folder = Folder::new("liveness");
    fs::write(folder.file("throws.cc"), THROWS).unwrap();
    let built = folder.run("g++", &["-O2", "-o", "throws", "throws.cc"]);
    assert!(built.status.success(), "{built:?}");
    for line in lines {
        let native = command("", line, &folder).output().unwrap();
        for &seed in seeds {
            let (output, steps, changes) = clobbered(line, &folder, seed);
            println!("{line}: {steps} steps, {changes} changes");
            assert_eq!(output, native, "{line}");
            assert!(
                changes > steps,
                "{line}: {changes} changes in {steps} steps"
            );
        }
    }
}

#[test]
fn dead_registers_and_flags_matter_to_nobody() {
    check(&["./throws", "ls -l /usr/bin/env"], &[1]);
}

#[test]
#[ignore = "steps for minutes"]
fn dead_registers_of_larger_programs() {
    let lines = [
        "gzip -c throws.cc",
        "gawk 'BEGIN { print atan2(1, 2), int(7.9), toupper(\"x\"), match(\"a1\", /[0-9]/) }'",
        "sqlite3 :memory: 'create table t(a); insert into t values(1),(2); select sum(a)*2.5 from t group by a order by 1;'",
        "git --no-pager diff --no-index --stat -p throws.cc /dev/null",
        "perl -e 'my %h = map { $_ => sprintf(\"%x\", $_) } 1..99; print join \",\", sort grep { /a/ } values %h'",
        "xz -0 -c throws.cc",
        "openssl dgst -sha256 throws.cc",
    ];
    check(&lines, &[1, 2]);
}
