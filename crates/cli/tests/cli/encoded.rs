//! Contexts of edited programs against a shadow stack.
//!
//! The oracle is the processor: the edited program is stepped, and a shadow stack is kept of what it calls, and of what returns. It
//! knows nothing of numbers and records; at each instruction that is the program's own the path that these say must be the shadow's.

use std::collections::HashMap;
use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Mutex;

use analysis::encoded::events;
use analysis::encoded::{By, Call, Decoder, Frame, Function, Moment, Unknown, Whereabouts};
use isa::{Flow, Insn};
use nix::sys::ptrace;
use nix::unistd::Pid;
use placement::dictionary;
use testkit::folder::Folder;
use testkit::program::{Program, discover, missing_feature, repository};
use testkit::scope::Scope;
use trace::contexts::{HEAD, Record, State};

use crate::BINARY;
use crate::stepped::{Step, stepped};

/// Offset of a thread's state from `%gs`, as `wire::counters` has it.
const FIRST: u64 = 4096;
/// Most steps of a program at which its thread has its memory, in the gate and in `wide`.
const STEPS: [u64; 2] = [6_000, 60_000];
/// Steps after which a program is left in any case: its thread has no memory yet, or does little else than system calls.
const LONGEST: u64 = 300_000;
/// Frames are compared at one step of so many.
const EACH: u64 = 1;
/// Bytes between which two stack pointers are of one stack.
const NEAR: u64 = 1 << 20;
/// `mov $15, %rax; syscall`: what handlers of signals return to.
const RESTORER: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];

/// A call that has not returned.
#[derive(Debug)]
struct Active {
    /// Address of its return address.
    slot: u64,
    /// The call, if there is one; a handler of a signal has the stack pointer that was interrupted.
    call: Option<u64>,
    interrupted: Option<u64>,
    /// The function of edited code that it is in, or was in last.
    function: Option<Function>,
    /// The jump by which it went on as other code, if it did; and functions that did so before, by such jumps.
    out: Option<Call>,
    before: Vec<(Function, Call)>,
}

/// A run with its shadow stack.
struct Shadow {
    pid: Pid,
    memory: File,
    decoder: Decoder,
    sites: HashMap<(usize, u64), u32>,
    active: Vec<Active>,
    last: Option<Last>,
    figures: Figures,
    /// Calls were left by something else than returns, and control is still in other code: `longjmp` is about to go elsewhere, and is
    /// said to be where it was called until then.
    leaves: bool,
    is_gone: bool,
    /// The first path that is another one.
    failed: Option<String>,
}

/// The instruction before.
struct Last {
    insn: Insn,
    rsp: u64,
    rax: u64,
    place: Option<Whereabouts>,
}

#[derive(Debug, Default)]
struct Figures {
    steps: u64,
    /// Paths that were compared, those that are said to be unknown, and steps within what is inserted.
    compared: u64,
    unknown: u64,
    within: u64,
    /// Frames of the longest path, and most records.
    deepest: usize,
    records: usize,
    signals: u64,
}

impl Step for Shadow {
    fn new(pid: Pid) -> Self {
        let exe = fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        let bytes = fs::read(format!("{}.dictionary", exe.display())).unwrap();
        let files = dictionary::decode(&bytes).unwrap();
        let mut decoder = Decoder::new(files);
        let image = image::Image::open(&exe).unwrap();
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let own = maps
            .lines()
            .find(|line| line.ends_with(exe.to_str().unwrap()));
        let start = own.unwrap().split('-').next().unwrap();
        let start = u64::from_str_radix(start, 16).unwrap();
        let first = image.link_addr(image::FileOffset(0)).unwrap();
        decoder.set_bias(0, start - first.0);
        let sites = decoder.files().enumerate().flat_map(|(file, known)| {
            let sites = known.sites.iter().zip(0..);
            sites.map(move |(site, number)| ((file, site.at), number))
        });
        Shadow {
            pid,
            memory: File::open(format!("/proc/{pid}/mem")).unwrap(),
            sites: sites.collect(),
            decoder,
            active: vec![Active {
                slot: u64::MAX,
                call: None,
                interrupted: None,
                function: None,
                out: None,
                before: Vec::new(),
            }],
            last: None,
            figures: Figures::default(),
            leaves: false,
            is_gone: false,
            failed: None,
        }
    }

    fn is_done(&self) -> bool {
        let Figures {
            compared,
            unknown,
            within,
            ..
        } = self.figures;
        let most = STEPS[usize::from(Scope::current() == Scope::Wide)];
        self.is_gone
            || compared + unknown + within >= most
            || self.figures.steps >= LONGEST
            || self.failed.is_some()
    }

    fn step(&mut self) {
        let Ok(registers) = ptrace::getregs(self.pid) else {
            // Another thread has ended the process.
            self.is_gone = true;
            return;
        };
        let (rip, rsp) = (registers.rip, registers.rsp);
        self.figures.steps += 1;
        self.follow(&registers);
        let place = self.decoder.whereabouts(rip);
        let active = self.active.last_mut().unwrap();
        if let Ok(Some(place)) = place {
            // It went on as another function, which it did not know.
            let from = self.last.as_ref().and_then(|last| last.place);
            let from = from.filter(|from| from.function != place.function);
            let jump = from
                .filter(|from| Some(from.function) == active.function)
                .and_then(|from| {
                    let file = from.function.file;
                    let site = *self.sites.get(&(file, from.old))?;
                    let known = self.decoder.files().nth(file)?;
                    (known.sites[site as usize].kind == 2).then_some(Call { file, site })
                });
            let before = active.function.zip(active.out.take().or(jump));
            active.before.extend(before);
            active.function = Some(place.function);
        } else if let (
            Ok(None),
            Some(Last {
                insn,
                place: Some(from),
                ..
            }),
        ) = (place, &self.last)
            && !matches!(
                insn.flow(),
                Flow::Call(_) | Flow::IndirectCall | Flow::Return(_)
            )
        {
            let file = from.function.file;
            active.out = self
                .sites
                .get(&(file, from.old))
                .map(|site| Call { file, site: *site });
        }
        self.leaves &= !matches!(place, Ok(Some(_)));
        if self.figures.steps.is_multiple_of(EACH) && !self.leaves {
            self.compare(&registers, place);
        }
        let mut bytes = [0; 15];
        let read = self.memory.read_at(&mut bytes, rip).unwrap_or(0);
        let insn = Insn::decode(&bytes[..read], rip);
        let last_place = self.last.take().and_then(|last| last.place);
        self.last = insn.ok().map(|insn| Last {
            insn,
            rsp,
            rax: registers.rax,
            place: match place {
                Ok(place) => place,
                // Inserted code belongs to the instruction that was executed before.
                Err(_) => last_place,
            },
        });
    }
}

impl Shadow {
    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        let _ = self.memory.read_at(&mut bytes, at);
        u64::from_le_bytes(bytes)
    }

    /// Follows the instruction that was executed.
    fn follow(&mut self, registers: &nix::libc::user_regs_struct) {
        let rsp = registers.rsp;
        let last = self.last.as_ref();
        let is_call =
            last.filter(|last| matches!(last.insn.flow(), Flow::Call(_) | Flow::IndirectCall));
        let call = is_call.map(|last| (last.insn.pc(), last.insn.next_pc(), last.rsp));
        let returns_from_signal =
            last.is_some_and(|last| last.rax == 15 && last.insn.flow() == Flow::Syscall);
        let goes_on = last.is_some_and(|last| last.insn.next_pc() == registers.rip);
        // The kernel may have put frames for two signals on the stack at once, and only one was seen.
        let is_back = |active: &Active| active.interrupted == Some(rsp);
        let handler = self.active.iter().rposition(is_back);
        if let Some(handler) = handler.filter(|_| returns_from_signal) {
            self.active.truncate(handler);
        }
        let returns = last.is_some_and(|last| matches!(last.insn.flow(), Flow::Return(_)));
        let (count, top) = (
            self.active.len(),
            self.active.last().map_or(0, |top| top.slot),
        );
        // Calls that have returned, or were left.
        while let Some(active) = self.active.last() {
            let is_left = match active.interrupted {
                Some(before) if active.slot.abs_diff(before) > NEAR => {
                    rsp.abs_diff(active.slot) > NEAR && rsp.abs_diff(before) < NEAR
                }
                _ => active.slot < rsp && rsp - active.slot < NEAR,
            };
            if !is_left {
                // A handler on another stack may have been left with what it called.
                let handler = self
                    .active
                    .iter()
                    .rposition(|active| active.interrupted.is_some());
                let Some(handler) = handler else { break };
                let before = self.active[handler].interrupted.unwrap();
                let is_other = self.active[handler].slot.abs_diff(before) > NEAR;
                if !is_other
                    || rsp.abs_diff(self.active[handler].slot) < NEAR
                    || rsp.abs_diff(before) > NEAR
                {
                    break;
                }
                self.active.truncate(handler);
                continue;
            }
            self.active.pop();
        }
        let left = count - self.active.len();
        self.leaves |=
            left > 1 || left == 1 && !(returns && rsp >= top + 8) && !returns_from_signal;
        let is_handler = registers.rdx == rsp + 8 && (1..=64).contains(&registers.rdi);
        let mut back = [0; 9];
        let _ = self.memory.read_at(&mut back, self.word(rsp));
        let call = call.filter(|(_, next, before)| rsp + 8 == *before && self.word(rsp) == *next);
        if let Some((pc, ..)) = call {
            self.active.push(Active {
                slot: rsp,
                call: Some(pc),
                interrupted: None,
                function: None,
                out: None,
                before: Vec::new(),
            });
        } else if is_handler
            && back == RESTORER
            && !goes_on
            && self.active.last().is_none_or(|top| top.slot != rsp)
        {
            self.figures.signals += 1;
            self.active.push(Active {
                slot: rsp,
                call: None,
                interrupted: Some(self.word(rsp + 8 + 160)),
                function: None,
                out: None,
                before: Vec::new(),
            });
        }
    }

    /// The path of the shadow stack.
    fn path(&self) -> Vec<Frame> {
        let mut frames = Vec::new();
        let mut other = None;
        for active in &self.active {
            let call = active.call.and_then(|call| {
                let place = self.decoder.whereabouts(call).ok().flatten()?;
                let file = place.function.file;
                let site = *self.sites.get(&(file, place.old))?;
                Some(Call { file, site })
            });
            let kind = call.map(|call| {
                let file = self.decoder.files().nth(call.file).unwrap();
                file.sites[call.site as usize].kind
            });
            let Some(function) = active.function else {
                other = call.or(other);
                continue;
            };
            let by = match (active.interrupted, call, kind) {
                (Some(_), ..) => By::Signal,
                (None, Some(call), Some(0 | 1)) => By::Call(call),
                (None, Some(call), _) => By::Other(call),
                (None, None, _) => other.map_or(By::Outside, By::Other),
            };
            // A function that other code called is not in the path behind its jump to other code.
            let stays = |by: By| !matches!(by, By::Other(_) | By::Outside);
            let mut by = by;
            for &(function, out) in &active.before {
                if stays(by) {
                    frames.push(Frame { by, function });
                    by = By::Other(out);
                }
            }
            let is_out = active.out.is_some();
            match by {
                By::Other(call) if is_out => other = Some(call),
                By::Outside if is_out => other = None,
                _ => {
                    frames.push(Frame { by, function });
                    other = active.out;
                }
            }
        }
        frames
    }

    fn moment(&self, registers: &nix::libc::user_regs_struct) -> Moment {
        let gs = registers.gs_base;
        let state = |offset: usize| self.word(gs + FIRST + offset as u64);
        let mut moment = Moment {
            number: state(offset_of!(State, number)),
            site: state(offset_of!(State, site)),
            lost: state(offset_of!(State, lost)),
            records: Vec::new(),
            at: registers.rip,
            stack: registers.rsp,
        };
        let mut at = state(offset_of!(State, top));
        while at > FIRST + HEAD {
            let mut bytes = [0; size_of::<Record>()];
            self.memory.read_exact_at(&mut bytes, gs + at).unwrap();
            let record = Record::of(&bytes);
            at = record.below.into();
            moment.records.push(record);
        }
        moment
    }

    fn compare(
        &mut self,
        registers: &nix::libc::user_regs_struct,
        place: Result<Option<Whereabouts>, Unknown>,
    ) {
        // Before the first entry there is no memory.
        if registers.gs_base == 0 || self.word(registers.gs_base) == 0 {
            return;
        }
        // A handler has returned, and the kernel does not know yet.
        let mut next = [0; 9];
        let _ = self.memory.read_at(&mut next, registers.rip);
        let is_restorer = next == RESTORER || next[..2] == RESTORER[7..] && registers.rax == 15;
        if place.is_err() || is_restorer {
            self.figures.within += 1;
            return;
        }
        let moment = self.moment(registers);
        let own = self.path();
        match self.decoder.path(&moment) {
            Ok(path) if path.iter().any(|frame| frame.by == By::Unknown) => {
                let is_unknown = |frame: &Frame| frame.by == By::Unknown;
                let first = path.iter().position(is_unknown).unwrap_or(0);
                let behind = path.len() - 1 - path.iter().rposition(is_unknown).unwrap_or(0);
                let end = &own[own.len().saturating_sub(behind)..];
                if end != &path[path.len() - behind..] || own.get(..first) != Some(&path[..first]) {
                    self.fail("what is known differs", &path, &own, &moment);
                }
                self.figures.unknown += 1;
            }
            Ok(path) if path == own => self.figures.compared += 1,
            Ok(path) => self.fail("it differs", &path, &own, &moment),
            Err(Unknown::Lost | Unknown::Within | Unknown::Trap) => self.figures.unknown += 1,
            Err(other) => self.fail(&other.to_string(), &[], &own, &moment),
        }
        self.figures.deepest = self.figures.deepest.max(own.len());
        self.figures.records = self.figures.records.max(moment.records.len());
    }

    fn fail(&mut self, why: &str, path: &[Frame], own: &[Frame], moment: &Moment) {
        let file = self.decoder.files().next().unwrap();
        let shown = |frames: &[Frame]| {
            let names = frames.iter().map(|frame| {
                let function = &file.functions[frame.function.function as usize];
                format!(
                    "  {} ({:#x}) {:?}\n",
                    function.name, function.entry, frame.by
                )
            });
            names.collect::<String>()
        };
        let text = format!(
            "{why}, at {:#x}:\n{}its stack:\n{}{moment:x?}\n{:x?}",
            moment.at,
            shown(path),
            shown(own),
            self.active
        );
        self.failed.get_or_insert(text);
    }
}

/// Edits a program and steps it; gives its figures.
fn follows(folder: &Folder, program: &str, line: &str) -> Result<Figures, String> {
    // Both have the same name.
    for place in ["original", "edited"] {
        fs::create_dir_all(folder.file(place)).expect("a new folder");
    }
    let [original, edited] = ["original", "edited"].map(|place| format!("{place}/{program}"));
    fs::rename(folder.file(program), folder.file(&original)).expect("it is there");
    let words = ["encode", &original, "-o", &edited];
    let output = folder.run(BINARY, &words);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{REFUSED}{said}"));
    }
    let run = |path: &str| folder.run("bash", &["-c", &format!("exec ./{path} {line}")]);
    let (native, own) = (run(&original), run(&edited));
    if (&own.stdout, own.status) != (&native.stdout, native.status) {
        return Err(format!("another run: {own:?} for {native:?}"));
    }
    let (_, shadow, _) = stepped::<Shadow>(&format!("./{edited} {line}"), folder);
    match shadow.failed {
        Some(failed) => Err(failed),
        None => Ok(shadow.figures),
    }
}

/// Beginning of the reason for a program that is not edited.
const REFUSED: &str = "refused: ";

#[test]
fn contexts_of_a_real_program_are_those_of_its_stack() {
    let folder = Folder::new("encoded-real");
    assert!(
        folder
            .run("cp", &["/usr/bin/gzip", "gzip"])
            .status
            .success()
    );
    let text = "one two three one two three\n".repeat(20);
    fs::write(folder.file("text"), text).expect("a file");
    let figures = follows(&folder, "gzip", "-c text").expect("its contexts are right");
    assert!(
        figures.compared > 5_000 && figures.unknown == 0,
        "{figures:?}"
    );
}

/// Test programs whose contexts are not compared, with the reason.
const OTHERS: &[(&[&str], &str)] = &[
    (
        &[
            "code_far_forms",
            "escape_text_patch",
            "exec_under_a_debugger",
            "filter_trap_emulates",
            "flags_alignment_check",
            "flags_alignment_prefixed",
            "flow_backtrace",
            "flow_frame_pointer_moved",
            "insn_odd_encodings",
            "insn_out_of_reach_operands",
            "load_proc_status",
            "memory_grows_down",
            "memory_lock_all",
            "process_exec_stack",
            "signal_jump_to_bad_memory",
            "signal_single_step",
            "signal_trap_flag_everywhere",
            "traced_at_once",
            "traced_by_attaching",
            "vsyscall_page",
        ],
        "It looks at its own code, memory or %gs, sets the flag for alignment or for traps, traps system calls, or takes flags as arguments: it runs otherwise with any counters.",
    ),
    (
        &["signal_interrupted_gs_rep", "signal_sent_while_blocked"],
        "Stepped, it never ends: the signals that it waits for do not all reach it.",
    ),
    (
        &[
            "stack_pointer_anywhere",
            "thread_clone_exits_at_once",
            "traced_without_exec",
        ],
        "Its stack pointer leads to no memory, or its threads have none of their own for %fs: it crashes in front of entries, with any counters.",
    ),
    (
        &["contexts_signals"],
        "A handler goes on in old code behind a trap: the shadow stack knows no site of calls from there.",
    ),
    (
        &[
            "contexts_jumps",
            "flow_many_targets",
            "insn_syscall_clobbers",
            "insn_vzeroupper_sse",
            "load_initial_registers",
        ],
        "It has no C library, so its thread has no pointer, by which the test knows that there is memory.",
    ),
    (
        &["code_far_transfers"],
        "It leaves calls by far returns, which tell nobody.",
    ),
    (
        &["insn_rsp_as_general"],
        "It has other numbers than stack pointers in rsp, and is said to be unknown then.",
    ),
    (
        &["flow_retpoline"],
        "Its returns are jumps to a thunk, which are not told from others.",
    ),
    (
        &[
            "flow_coroutines",
            "insn_kernel_targets",
            "stack_slices",
            "stack_switches",
            "vsyscall_bad_pointers",
        ],
        "It switches stacks, which the shadow stack does not follow.",
    ),
];

/// Test programs in the gate: callbacks, cycles, tail calls, virtual calls, exceptions, `longjmp`, handlers of signals on
/// their own stack, children.
const GATE: [&str; 9] = [
    "code_growing_stack",
    "contexts_exceptions",
    "contexts_fork_raw",
    "contexts_recursion",
    "contexts_selected",
    "flow_longjmp",
    "flow_tail_calls",
    "flow_virtual_calls",
    "contexts_vfork",
];

#[test]
#[ignore = "wide: stacks of other programs are stepped in the gate"]
fn contexts_of_odd_programs_are_those_of_their_stacks() {
    follow_all(&|program| GATE.contains(&&*program.name), GATE.len());
}

#[test]
#[ignore = "wide: all test programs are stepped, minutes; a few are in the gate"]
fn contexts_of_test_programs_are_those_of_their_stacks() {
    let only = std::env::var("EVERYPATH_BEGINS").ok();
    let is_left = |name: &str| OTHERS.iter().any(|(names, _)| names.contains(&name));
    let wanted = |program: &Program| match &only {
        Some(only) => program.name.starts_with(only),
        None => !is_left(&program.name) && missing_feature(&program.directives.needs).is_none(),
    };
    follow_all(&wanted, if only.is_some() { 1 } else { 100 });
}

/// Follows test programs, of which so many at least have to agree.
fn follow_all(wanted: &dyn Fn(&Program) -> bool, least: usize) {
    let programs = discover(&repository().join("tests/programs")).expect("they are there");
    let follow = |program: &Program| {
        let built = testkit::build::build(program, &testkit::build::cache_directory());
        let built = built.expect("it is built").executable;
        let folder = Folder::new("encoded-programs");
        fs::copy(&built, folder.file("program")).expect("it was built");
        follows(&folder, "program", &program.directives.args.join(" "))
    };
    let wanted: Vec<&Program> = programs.iter().filter(|program| wanted(program)).collect();
    let next = Mutex::new(wanted.into_iter());
    let sum = Mutex::new((0, 0, Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(program) = next.lock().unwrap().next() else {
                        break;
                    };
                    let outcome = follow(program);
                    let mut sum = sum.lock().unwrap();
                    match outcome {
                        Ok(figures) if figures.compared == 0 => {
                            println!("FAILED {}: nothing was compared", program.name);
                            sum.2.push(program.name.clone());
                        }
                        Ok(figures) => {
                            println!("{}: {figures:?}", program.name);
                            sum.0 += 1;
                        }
                        Err(why) if why.starts_with(REFUSED) => sum.1 += 1,
                        Err(why) => {
                            println!("FAILED {}: {why}", program.name);
                            sum.2.push(program.name.clone());
                        }
                    }
                }
            });
        }
    });
    let (agreed, refused, failed) = sum.into_inner().unwrap();
    println!("{agreed} agree, {refused} are not edited");
    assert!(agreed >= least, "{agreed}");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Numbers without a pattern (xorshift).
fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn damaged_dictionaries_and_altered_records_are_no_harm() {
    let folder = Folder::new("encoded-damaged");
    let output = folder.run(BINARY, &["encode", "/usr/bin/gzip", "-o", "gzip"]);
    assert!(output.status.success(), "{output:?}");
    let bytes = fs::read(folder.file("gzip.dictionary")).expect("it was written");
    let mut state = 1;
    let mut decoded = 0;
    for turn in 0..60 {
        let mut damaged = bytes.clone();
        for _ in 0..turn % 4 {
            let at = random(&mut state) as usize % damaged.len();
            damaged[at] = random(&mut state) as u8;
        }
        let Some(files) = dictionary::decode(&damaged) else {
            continue;
        };
        decoded += 1;
        let entries: Vec<u64> = files
            .iter()
            .flat_map(|file| file.functions.iter().map(|function| function.entry))
            .collect();
        let sites: Vec<u64> = files
            .iter()
            .flat_map(|file| file.sites.iter().map(|site| site.at))
            .collect();
        let code: Vec<u64> = files
            .iter()
            .flat_map(|file| file.code.iter().map(|insn| insn.new))
            .collect();
        let decoder = Decoder::new(files);
        for _ in 0..200 {
            let mut one = |of: &[u64]| match of.is_empty() || random(&mut state).is_multiple_of(8) {
                true => random(&mut state),
                false => of[random(&mut state) as usize % of.len()],
            };
            let records = (0..4).map(|_| Record {
                level: one(&[8, 16, 24, u64::MAX]),
                number: one(&[0, 1, 5]),
                site: one(&sites) << 32 | 8,
                interrupted: one(&code),
                stack: one(&[8]),
                stack_before: one(&[8, 16]),
                entry: one(&entries) as u32,
                by: one(&sites) as u32,
                below: 0,
                kind: one(&[1, 2, 3, 4, 5, 6]) as u32,
            });
            let records = records.collect();
            let moment = Moment {
                number: one(&[0, 1, 7]),
                site: one(&sites) << 32 | 8,
                lost: 0,
                records,
                at: one(&code),
                stack: one(&[8]),
            };
            // It need not be known.
            let _ = decoder.path(&moment);
        }
        alter_events(&decoder, &entries, &mut state);
    }
    assert!(decoded > 10, "{decoded}");
}

/// Reads events of any bytes, with lengths, kinds and functions that may be right.
fn alter_events(decoder: &Decoder, entries: &[u64], state: &mut u64) {
    let mut read = 0;
    for turn in 0..80 {
        let mut bytes: Vec<u8> = (0..60)
            .flat_map(|_| (random(state) >> (random(state) % 64)).to_le_bytes())
            .collect();
        let mut at = 0;
        while at + 8 * 20 < bytes.len() {
            let entry = entries.get(random(state) as usize % entries.len().max(1));
            let (kind, words) = [(0, 9), (1, 4), (5, 18), (0, 18), (4, 4), (3, 4), (6, 9)]
                [random(state) as usize % 7];
            let kind = if random(state).is_multiple_of(9) {
                random(state) & 0xffff
            } else {
                kind
            };
            let head = entry.copied().unwrap_or(0) & 0xffff_ffff | kind << 32 | (8 * words) << 48;
            bytes[at..at + 8].copy_from_slice(&head.to_le_bytes());
            // A top that is there, or not.
            let top = [4160u64, 4224, 4288, random(state)][turn % 4];
            bytes[at + 48..at + 56].copy_from_slice(&top.to_le_bytes());
            at += 8 * words as usize;
        }
        for event in events::Stream::default()
            .read(decoder, &bytes)
            .into_iter()
            .flatten()
        {
            read += 1;
            let _ = decoder.path_in(event.function, &event.moment);
        }
    }
    assert!(read > 20, "{read}");
}

/// A program that says where it was, in a callback, in a cycle, in a handler of a signal, and behind `longjmp`.
const SAYS: &str = r#"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include "everypath.h"
static jmp_buf back;
__attribute__((noinline)) static void say(const char *what) { printf("%s: %s\n", what, everypath_context()); }
static int compare(const void *a, const void *b) { static int once; if (!once++) say("compare"); return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static int deep(int n) { if (n == 0) { say("deep"); return 1; } return deep(n - 1) + 1; }
__attribute__((noinline)) static void jump(int n) { if (n == 0) longjmp(back, 1); jump(n - 1); say("never"); }
static void handler(int signal) { (void)signal; say("handler"); }
int main(void) {
    int numbers[] = {3, 1, 2};
    say("main");
    qsort(numbers, 3, sizeof *numbers, compare);
    printf("%d\n", deep(3));
    if (!setjmp(back)) jump(2);
    say("behind");
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    say("end");
    return 0;
}
"#;

#[test]
fn words_of_a_log_are_decoded_to_paths() {
    let folder = Folder::new("encoded-log");
    let include = format!("-I{}", repository().join("include").display());
    folder.program(&["-O1", "-g", &include], "says", SAYS);
    let native = folder.run("./says", &[]);
    let native = String::from_utf8_lossy(&native.stdout).into_owned();
    assert!(native.starts_with("main: \ncompare: \n"), "{native}");
    let output = folder.run(BINARY, &["encode", "says", "-o", "says.pcce"]);
    assert!(output.status.success(), "{output:?}");
    // The program that is shipped needs no symbols, and no dictionary.
    assert!(folder.run("strip", &["says.pcce"]).status.success());
    let log = folder.run("./says.pcce", &[]);
    fs::write(folder.file("log"), &log.stdout).expect("a file");
    let words = ["decode", "says.pcce.dictionary", "log"];
    let output = folder.run(BINARY, &words);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let at = "says.c";
    let expected = format!(
        "main: main {at}:15 > say {at}:8\n\
         compare: main {at}:16 > … > compare {at}:9 > say {at}:8\n\
         deep: main {at}:17 > deep {at}:10 > deep {at}:10 > deep {at}:10 > deep {at}:10 > say {at}:8\n\
         4\n\
         behind: main {at}:19 > say {at}:8\n\
         handler: … > (signal) > handler {at}:12 > say {at}:8\n\
         end: main {at}:22 > say {at}:8\n"
    );
    assert_eq!(text, expected);
    // Words that no path has, and another program's dictionary.
    fs::write(
        folder.file("log"),
        "x evp:1.2.3.4.5.6, evp:zz and evp:10.0.1.ffff.0.0.\n",
    )
    .expect("a file");
    let output = folder.run(BINARY, &words);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "x evp:1.2.3.4.5.6, evp:zz and evp:10.0.1.ffff.0.0.\n"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("evp:10.0.1.ffff.0.0: there is nothing at 0xffff"),
        "{output:?}"
    );
    let said = folder.refused(BINARY, &["decode", "says", "log"]);
    assert!(
        said.contains("is no dictionary of `everypath encode`"),
        "{said}"
    );
}

/// Words of a Rust program, with its crate (`include/rust`).
const RUST: &str = r#"
#[inline(never)] fn say(what: &str) { println!("{what}: {}", everypath_context::context()); }
#[inline(never)] fn deep(n: u32) { if n > 0 { deep(n - 1) } else { say("deep") } std::hint::black_box(n); }
fn main() {
    say("main");
    let mut numbers = vec![3, 1, 2];
    let mut is_first = true;
    numbers.sort_by(|a: &i32, b| { if std::mem::take(&mut is_first) { say("compare") } a.cmp(b) });
    std::thread::spawn(|| deep(3)).join().unwrap();
}
"#;

#[test]
fn words_of_a_rust_program_are_decoded_to_paths() {
    let folder = Folder::new("encoded-rust");
    let library = repository().join("include/rust/src/lib.rs");
    let library = library.to_str().expect("a plain path");
    fs::write(folder.file("says.rs"), RUST).expect("a file");
    let compile = |words: &[&str]| {
        let mut compiler = Command::new("rustc");
        compiler
            .args(["--edition=2024", "-Copt-level=1", "-g"])
            .args(words);
        let built = compiler.current_dir(folder.path()).output();
        let built = built.expect("rustc is installed");
        assert!(built.status.success(), "{built:?}");
    };
    compile(&[
        "--crate-name=everypath_context",
        "--crate-type=lib",
        library,
    ]);
    compile(&["-L.", "--extern=everypath_context", "says.rs"]);
    let native = folder.run("./says", &[]);
    assert_eq!(native.stdout, b"main: \ncompare: \ndeep: \n");
    let output = folder.run(BINARY, &["encode", "says", "-o", "says.pcce"]);
    assert!(output.status.success(), "{output:?}");
    let log = folder.run("./says.pcce", &[]);
    fs::write(folder.file("log"), &log.stdout).expect("a file");
    let output = folder.run(BINARY, &["decode", "says.pcce.dictionary", "log"]);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let [main, compare, deep] = lines[..] else {
        panic!("{text}");
    };
    assert!(
        main.contains("says::main says.rs:5 > says::say says.rs:2"),
        "{main}"
    );
    assert!(
        compare.contains("says::main says.rs:8 > ") && compare.ends_with("says::say says.rs:2"),
        "{compare}"
    );
    assert_eq!(deep.matches("says::deep says.rs:3").count(), 4, "{deep}");
}
