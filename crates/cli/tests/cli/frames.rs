//! Unwind tables of moved code give the right frames at every instruction.
//!
//! The oracle is a stack of the calls themselves: an edited program is stepped with its edited libraries, and each call puts
//! down where its return address stands and which values the registers have that a callee preserves. Before each
//! instruction of moved code its row, found through the new index, must lead to all of these. By induction whole
//! backtraces are right. The rows are read by gimli, of which the editor has nothing.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, EvaluationResult, Expression,
    LittleEndian, Register, RegisterRule, UnwindContext, UnwindSection, Value,
};
use image::Image;
use nix::sys::ptrace;
use nix::unistd::Pid;
use object::{Object, ObjectSection};
use testkit::folder::Folder;

use crate::BINARY;
use crate::flow::THROWS;
use crate::rewrite::panics;
use crate::stepped::{Mapped, Step, command, stepped};

type Slice = EndianSlice<'static, LittleEndian>;

/// `rbx`, `rbp`, `r12` to `r15` by their numbers in DWARF.
const PRESERVED: [u16; 6] = [3, 6, 12, 13, 14, 15];
const RETURN_ADDRESS: Register = Register(16);
/// Longest and shortest calls.
const CALLS: std::ops::RangeInclusive<u64> = 2..=15;

/// A row: the frame address, and where the registers and the return address are kept.
#[derive(Clone)]
struct Row {
    cfa: CfaRule<usize>,
    /// For each of `PRESERVED`, then the return address.
    rules: Vec<RegisterRule<usize>>,
    /// Bytes of the entry's section, which expressions are in.
    frames: EhFrame<Slice>,
}

/// Moved code of a file, and its tables.
struct Edited {
    code: std::ops::Range<u64>,
    frames: EhFrame<Slice>,
    index: EhFrameHdr<Slice>,
    bases: BaseAddresses,
    rows: HashMap<u64, Option<Row>>,
    /// Beginnings of the code that entries of the table describe, as far as it ran.
    described: HashSet<u64>,
}

fn edited(path: &Path, _: &Image) -> Option<Box<std::cell::RefCell<Edited>>> {
    // Slices that live as long as the test, which is one run.
    let bytes: &'static [u8] = Box::leak(fs::read(path).unwrap().into_boxed_slice());
    let file = object::File::parse(bytes).unwrap();
    let section = |name: &str| file.section_by_name(name);
    let code = section(".everypath.text")?;
    let [frames, index] = [".eh_frame", ".eh_frame_hdr"].map(|name| section(name).unwrap());
    let data = |section: &object::Section<'static, '_>| section.data().unwrap();
    Some(Box::new(std::cell::RefCell::new(Edited {
        code: code.address()..code.address() + code.size(),
        frames: EhFrame::new(data(&frames), LittleEndian),
        index: EhFrameHdr::new(data(&index), LittleEndian),
        bases: BaseAddresses::default()
            .set_eh_frame(frames.address())
            .set_eh_frame_hdr(index.address()),
        rows: HashMap::new(),
        described: HashSet::new(),
    })))
}

impl Edited {
    /// The row of an address of the file.
    fn row(&mut self, at: u64) -> Option<Row> {
        if let Some(row) = self.rows.get(&at) {
            return row.clone();
        }
        let header = self.index.parse(&self.bases, 8).unwrap();
        let table = header.table().unwrap();
        let mut context = UnwindContext::new();
        let found = table.unwind_info_for_address(
            &self.frames,
            &self.bases,
            &mut context,
            at,
            EhFrame::cie_from_offset,
        );
        if found.is_ok() {
            let fde =
                table.fde_for_address(&self.frames, &self.bases, at, EhFrame::cie_from_offset);
            self.described.insert(fde.unwrap().initial_address());
        }
        let row = found.ok().map(|found| Row {
            cfa: found.cfa().clone(),
            rules: PRESERVED
                .map(Register)
                .into_iter()
                .chain([RETURN_ADDRESS])
                .map(|register| found.register(register).unwrap_or(RegisterRule::SameValue))
                .collect(),
            frames: self.frames,
        });
        self.rows.insert(at, row.clone());
        row
    }
}

/// A call that has not returned.
struct Call {
    /// Address of its return address.
    slot: u64,
    preserved: [u64; 6],
}

struct Frames {
    pid: Pid,
    memory: File,
    files: Mapped<Option<Box<std::cell::RefCell<Edited>>>>,
    calls: Vec<Call>,
    /// Program counter and stack pointer before the last instruction.
    before: (u64, u64),
    checked: u64,
    wrong: Vec<String>,
}

impl Frames {
    fn word(&self, addr: u64) -> u64 {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, addr).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn expression(
        &self,
        row: &Row,
        at: gimli::UnwindExpression<usize>,
        registers: &[u64; 17],
        cfa: Option<u64>,
    ) -> u64 {
        let expression: Expression<Slice> = at.get(&row.frames).unwrap();
        let encoding = gimli::Encoding {
            address_size: 8,
            format: gimli::Format::Dwarf32,
            version: 4,
        };
        let mut evaluation = expression.evaluation(encoding);
        if let Some(cfa) = cfa {
            evaluation.set_initial_value(cfa);
        }
        let mut result = evaluation.evaluate().unwrap();
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = Value::Generic(registers[usize::from(register.0)]);
                    evaluation.resume_with_register(value).unwrap()
                }
                EvaluationResult::RequiresMemory { address, .. } => {
                    let value = Value::Generic(self.word(address));
                    evaluation.resume_with_memory(value).unwrap()
                }
                other => panic!("{other:?}"),
            };
        }
        evaluation.value_result().unwrap().to_u64(!0).unwrap()
    }

    /// A sentence on what a row has wrong.
    fn fault(&self, row: &Row, registers: &[u64; 17], call: &Call) -> Option<String> {
        let cfa = match row.cfa {
            CfaRule::RegisterAndOffset { register, offset } => {
                registers[usize::from(register.0)].wrapping_add_signed(offset)
            }
            CfaRule::Expression(at) => self.expression(row, at, registers, None),
        };
        if cfa != call.slot + 8 {
            return Some(format!("frame address {cfa:#x}, not {:#x}", call.slot + 8));
        }
        let kept = PRESERVED.iter().zip(&call.preserved);
        for ((register, expected), rule) in kept.zip(&row.rules) {
            let value = match *rule {
                RegisterRule::Undefined => continue,
                RegisterRule::SameValue => registers[usize::from(*register)],
                RegisterRule::Offset(offset) => self.word(cfa.wrapping_add_signed(offset)),
                RegisterRule::Register(other) => registers[usize::from(other.0)],
                RegisterRule::Expression(at) => {
                    self.word(self.expression(row, at, registers, Some(cfa)))
                }
                ref other => panic!("{other:?}"),
            };
            if value != *expected {
                return Some(format!(
                    "register {register}: {value:#x}, not {expected:#x}"
                ));
            }
        }
        let is_usual = row.rules.last() == Some(&RegisterRule::Offset(-8));
        (!is_usual).then(|| format!("return address: {:?}", row.rules.last()))
    }
}

impl Step for Frames {
    fn new(pid: Pid) -> Frames {
        Frames {
            pid,
            memory: File::open(format!("/proc/{pid}/mem")).unwrap(),
            files: Mapped::new(pid, edited),
            calls: Vec::new(),
            before: (0, 0),
            checked: 0,
            wrong: Vec::new(),
        }
    }

    fn step(&mut self) {
        let found = ptrace::getregs(self.pid).unwrap();
        // By their numbers in DWARF.
        let registers = [
            found.rax, found.rdx, found.rcx, found.rbx, found.rsi, found.rdi, found.rbp, found.rsp,
            found.r8, found.r9, found.r10, found.r11, found.r12, found.r13, found.r14, found.r15,
            found.rip,
        ];
        while self.calls.last().is_some_and(|call| call.slot < found.rsp) {
            self.calls.pop();
        }
        let (pc, stack) = std::mem::replace(&mut self.before, (found.rip, found.rsp));
        if found.rsp == stack.wrapping_sub(8) {
            let pushed = self.word(found.rsp);
            let is_call = CALLS.contains(&pushed.wrapping_sub(pc)) && found.rip != pushed;
            if is_call {
                self.calls.push(Call {
                    slot: found.rsp,
                    preserved: PRESERVED.map(|register| registers[usize::from(register)]),
                });
            }
        }
        let row = match self.files.at(found.rip) {
            Some((Some(file), at)) if file.borrow().code.contains(&at) => {
                Some(file.borrow_mut().row(at))
            }
            _ => None,
        };
        let (Some(row), Some(call)) = (row, self.calls.last()) else {
            return;
        };
        self.checked += 1;
        let fault = match row {
            Some(row) => self.fault(&row, &registers, call),
            None => Some("no row".to_owned()),
        };
        if let Some(fault) = fault {
            self.wrong.push(format!("{:#x}: {fault}", found.rip));
        }
    }
}

/// Steps programs that are edited by a tool; gives how many entries of their tables describe code that ran.
fn check(lines: &[(&str, &str)], tool: &str) -> usize {
    let mut described = 0;
    let folder = Folder::new("frames");
    fs::write(folder.file("throws.cc"), THROWS).unwrap();
    let built = folder.run("g++", &["-O2", "-o", "throws", "throws.cc"]);
    assert!(built.status.success(), "{built:?}");
    panics(&folder);
    for &(program, arguments) in lines {
        let path = folder.run(
            "sh",
            &["-c", &format!("readlink -f $(command -v {program})")],
        );
        let path = String::from_utf8(path.stdout).unwrap();
        let path = path.trim();
        let name = Path::new(path).file_name().unwrap().to_str().unwrap();
        let made_in = format!("{name}.d");
        let made = folder.run(
            BINARY,
            &[
                "rewrite",
                "--libs",
                path,
                "-o",
                &made_in,
                "--tool",
                tool,
                "--paranoid",
            ],
        );
        assert!(made.status.success(), "{made:?}");
        let native = command("", &format!("-a {name} {path} {arguments}"), &folder);
        let native = { native }.output().unwrap();
        let line = format!("-a {name} {made_in}/bin/{name} {arguments}");
        let (output, run, steps) = stepped::<Frames>(&line, &folder);
        let (checked, wrong) = (run.checked, run.wrong);
        let files = run.files.all().filter_map(Option::as_ref);
        let own: usize = files.map(|file| file.borrow().described.len()).sum();
        println!("{name}, {tool}: {steps} steps, {checked} frames of {own} entries");
        described += own;
        assert_eq!(output, native, "{name}");
        assert!(
            wrong.is_empty(),
            "{name}: {} wrong: {:#?}",
            wrong.len(),
            &wrong[..wrong.len().min(9)]
        );
        // The other steps are in the dynamic linker's code.
        assert!(checked > steps / 4, "{name}: {checked} of {steps}");
    }
    described
}

/// With one version of each function, and with two, both of which run.
#[test]
#[ignore = "wide: the libraries are edited twice; exceptions go through moved code in the gate"]
fn frames_of_every_moved_instruction() {
    let line = [("./throws", "")];
    let one = check(&line, "null");
    let two = check(&line, "two-versions");
    assert!(two > one + one / 2, "{two} of {one}");
}

#[test]
#[ignore = "wide: steps for minutes"]
fn frames_of_larger_programs() {
    let lines = [
        ("./panics", ""),
        ("ls", "-l /usr/bin/env"),
        ("gzip", "-c throws.cc"),
        (
            "gawk",
            "'BEGIN { print atan2(1, 2), int(7.9), toupper(\"x\"), match(\"a1\", /[0-9]/) }'",
        ),
        (
            "sqlite3",
            ":memory: 'create table t(a); insert into t values(1),(2); select sum(a)*2.5 from t group by a order by 1;'",
        ),
        (
            "git",
            "--no-pager diff --no-index --stat -p throws.cc /dev/null",
        ),
        (
            "perl",
            "-e 'my %h = map { $_ => sprintf(\"%x\", $_) } 1..99; print join \",\", sort grep { /a/ } values %h'",
        ),
        ("xz", "-0 -c throws.cc"),
        ("openssl", "dgst -sha256 throws.cc"),
    ];
    for tool in ["null", "two-versions"] {
        check(&lines, tool);
    }
}
