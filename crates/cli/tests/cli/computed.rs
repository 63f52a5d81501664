//! Registers that `isa::compute` says an instruction leaves, held against the processor, step by step.

use std::fs::File;
use std::os::unix::fs::FileExt;

use isa::compute::State;
use isa::{Insn, Reg};
use nix::sys::ptrace;
use nix::unistd::Pid;
use testkit::folder::Folder;

use crate::regenerated_memory::FORMS;
use crate::stepped::{Step, stepped};

/// Registers before each instruction of a process, and what is wrong behind it.
struct Registers {
    pid: Pid,
    memory: File,
    before: Option<(State, Insn)>,
    computed: u64,
    wrong: Vec<String>,
}

impl Registers {
    /// Compares registers behind an instruction with what is said of them; all others are as they were.
    fn check(&mut self, before: &State, insn: &Insn, now: &State) {
        let said = insn.computes();
        for register in Reg::ALL {
            let number = register as usize;
            let found = now.registers[number];
            let is_lost = said.lost >> number & 1 != 0;
            let expected = match (said.result, said.loaded) {
                (Some((to, value)), _) if to == register => before.value(value),
                (_, Some(loaded)) if loaded.to == register => loaded.form.extend(found),
                _ if is_lost => found,
                _ => before.registers[number],
            };
            if found != expected {
                let text = format!("{:#x}: {said:?}: {register:?} {found:#x}", insn.pc());
                self.wrong.push(text);
            }
        }
        self.computed += u64::from(said.result.is_some());
    }
}

impl Step for Registers {
    fn new(pid: Pid) -> Registers {
        Registers {
            pid,
            memory: File::open(format!("/proc/{pid}/mem")).unwrap(),
            before: None,
            computed: 0,
            wrong: Vec::new(),
        }
    }

    fn step(&mut self) {
        let found = ptrace::getregs(self.pid).unwrap();
        let now = State {
            registers: [
                found.rax, found.rcx, found.rdx, found.rbx, found.rsp, found.rbp, found.rsi,
                found.rdi, found.r8, found.r9, found.r10, found.r11, found.r12, found.r13,
                found.r14, found.r15,
            ],
            fs: found.fs_base,
        };
        if let Some((before, insn)) = self.before.take() {
            // A call has pushed its return address, and its callee is not executed yet.
            let is_call = matches!(insn.flow(), isa::Flow::Call(_) | isa::Flow::IndirectCall);
            if !is_call {
                self.check(&before, &insn, &now);
            }
        }
        let mut code = [0; 15];
        let read = self.memory.read_at(&mut code, found.rip).unwrap_or(0);
        let insn = Insn::decode(&code[..read], found.rip);
        self.before = insn.ok().map(|insn| (now, insn));
    }
}

#[test]
fn registers_behind_instructions_are_as_computed() {
    let folder = Folder::new("computed");
    folder.program(&["-O2", "-static"], "forms", FORMS);
    let (output, run, steps) = stepped::<Registers>("./forms", &folder);
    assert!(output.status.success(), "{output:?}");
    println!("{steps} steps, {} registers computed", run.computed);
    assert!(run.computed > steps / 4, "{} of {steps}", run.computed);
    let shown = &run.wrong[..run.wrong.len().min(20)];
    assert!(
        run.wrong.is_empty(),
        "{} wrong: {shown:#?}",
        run.wrong.len()
    );
}
