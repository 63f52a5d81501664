//! Registers and flags that `flow` says are dead matter to nobody.
//!
//! The oracle is the program itself: it is stepped, and before each instruction the general registers, the lower parts
//! of vector registers and the flags that are not live there are given other values. Output and status stay the same.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use flow::{Liveness, Program};
use image::Image;
use isa::{Flags, RegisterSet};
use nix::sys::ptrace::{self, regset};
use nix::unistd::Pid;
use testkit::folder::Folder;

use crate::flow::THROWS;
use crate::stepped::{Mapped, Step, command, stepped};

/// Vector registers are changed at one step of so many: that takes two more system calls.
const VECTOR_STEPS: u64 = 4;

/// Sets of a file, by address.
type Sets = HashMap<u64, RegisterSet>;

fn sets(_: &Path, image: &Image) -> Sets {
    let program = Program::of(image);
    let liveness = Liveness::new(image, &program);
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
    live
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
struct Clobbering<const SEED: u64> {
    pid: Pid,
    files: Mapped<Sets>,
    random: Random,
    steps: u64,
    changes: u64,
}

impl<const SEED: u64> Step for Clobbering<SEED> {
    fn new(pid: Pid) -> Self {
        Clobbering {
            pid,
            files: Mapped::new(pid, sets),
            random: Random(SEED),
            steps: 0,
            changes: 0,
        }
    }

    fn step(&mut self) {
        let mut registers = ptrace::getregs(self.pid).unwrap();
        self.steps += 1;
        let found = self.files.at(registers.rip);
        let Some(live) = found.and_then(|(sets, at)| sets.get(&at).copied()) else {
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

fn check<const SEED: u64>(lines: &[&str]) {
    let folder = Folder::new("liveness");
    fs::write(folder.file("throws.cc"), THROWS).unwrap();
    let built = folder.run("g++", &["-O2", "-o", "throws", "throws.cc"]);
    assert!(built.status.success(), "{built:?}");
    for line in lines {
        let native = command("", line, &folder).output().unwrap();
        let (output, run, steps) = stepped::<Clobbering<SEED>>(line, &folder);
        let changes = run.changes;
        println!("{line}: {steps} steps, {changes} changes");
        assert_eq!(output, native, "{line}");
        assert!(
            changes > steps,
            "{line}: {changes} changes in {steps} steps"
        );
    }
}

#[test]
fn dead_registers_and_flags_matter_to_nobody() {
    check::<1>(&["./throws"]);
}

#[test]
#[ignore = "steps for minutes"]
fn dead_registers_of_larger_programs() {
    let lines = [
        "ls -l /usr/bin/env",
        "gzip -c throws.cc",
        "gawk 'BEGIN { print atan2(1, 2), int(7.9), toupper(\"x\"), match(\"a1\", /[0-9]/) }'",
        "sqlite3 :memory: 'create table t(a); insert into t values(1),(2); select sum(a)*2.5 from t group by a order by 1;'",
        "git --no-pager diff --no-index --stat -p throws.cc /dev/null",
        "perl -e 'my %h = map { $_ => sprintf(\"%x\", $_) } 1..99; print join \",\", sort grep { /a/ } values %h'",
        "xz -0 -c throws.cc",
        "openssl dgst -sha256 throws.cc",
    ];
    check::<1>(&lines);
    check::<2>(&lines);
}
