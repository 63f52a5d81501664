//! Traces regenerated from witnesses of every test program that executes the same in each run: those of `everypath trace`.

use std::collections::HashSet;
use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use testkit::folder::Folder;
use testkit::program::{Program, discover, repository};

use crate::BINARY;
use crate::counted::counters;
use crate::regenerated::threads;
use crate::regenerated_memory::{Access, accesses, difference};

/// Beginning of the reason for a program that is not edited.
const REFUSED: &str = "refused: ";

/// Programs whose regenerated traces are not those of `trace`, with the reason; refused ones are not among them.
const OTHERS: &[(&str, &[&str])] = &[
    (
        "It looks at its own file, addresses, memory or unwind table, which are others once it is edited; static programs relocate themselves by theirs.",
        &[
            "code_far_transfers",
            "contexts_exceptions",
            "contexts_recursion",
            "escape_maps_search",
            "escape_ranges",
            "flow_backtrace",
            "flow_backtrace_signal",
            "flow_longjmp_blocks",
            "load_at_64k",
            "load_musl_static",
            "load_static",
            "load_static_pie",
            "load_where_the_cache_goes",
            "memory_free_ranges",
            "memory_grows_down",
            "memory_just_unmapped",
            "process_exec_stack",
            "vdso_moved_and_unmapped",
        ],
    ),
    (
        "A handler runs in the middle of a block, or in another place of the order than the fault; or a process is ended in the middle of one.",
        &[
            "insn_gather_fault",
            "insn_gather_fault_lanes",
            "insn_rdtsc_forbidden",
            "insn_rep_fault",
            "insn_scatter_fault_lanes",
            "memory_brk_fork",
            "process_clone3_results",
            "process_exec_detached",
            "process_exec_odd_arguments",
            "signal_altstack_errors",
            "signal_altstack_overflow",
            "signal_avx512_edit",
            "signal_bad_stack_pointer",
            "signal_blocked_fault",
            "signal_context_edit",
            "signal_double_fault",
            "signal_frame_layout",
            "signal_frame_unwritable",
            "signal_keeps_nt_and_id",
            "signal_siglongjmp",
            "signal_x87_state",
            "thread_last_one_out",
        ],
    ),
    (
        "A child runs in its parent's memory, or was made in a way, or is executed from a file, by which its witnesses find no parent and no plan.",
        &[
            "contexts_vfork",
            "filter_inherited",
            "flow_many_targets",
            "load_interpreter_as_program",
            "process_clone_shared_handlers",
            "process_clone_vfork_no_stack",
            "process_daemon",
            "process_exec_by_fd",
            "process_execveat_flags",
            "process_vfork",
            "signal_sigreturn_rejected",
        ],
    ),
    (
        "It has other stacks, or calls that are none; what is not followed is said.",
        &[
            "contexts_signals",
            "escape_jumps",
            "flow_coroutines",
            "flow_exception_from_signal",
            "flow_retpoline",
            "stack_overflow",
            "stack_slices",
            "stack_switches",
        ],
    ),
    (
        "Its threads execute something else in each run.",
        &["flow_slot_rewritten", "rust_threads_and_panics"],
    ),
    (
        "It crashes when it is edited, with counters, too.",
        &[
            "code_far_forms",
            "flags_alignment_check",
            "flags_alignment_prefixed",
            "insn_odd_encodings",
            "stack_pointer_anywhere",
            "traced_without_exec",
        ],
    ),
    (
        "It takes away what recording needs (files, memory, system calls, the trap flag), fills what all processes share, or is a debugger.",
        &[
            "signal_queue_limit",
            "env_chroot",
            "env_limit_files",
            "env_limit_files_none",
            "env_mount_namespace",
            "env_seccomp_eperm",
            "env_seccomp_sandbox",
            "env_user_namespace",
            "exec_under_a_debugger",
            "filter_by_address",
            "insn_rdtsc_forbidden_everywhere",
            "signal_single_step",
            "signal_trap_flag_everywhere",
            "traced_at_once",
            "traced_by_attaching",
        ],
    ),
    (
        "It adds with the carry that is there when a function is called, of which the convention says nothing.",
        &["insn_out_of_reach_operands"],
    ),
];

/// Programs that have equal instructions, and whose memory is elsewhere in another way than page by page: they map it again and again
/// where something was before, look for a place far away or on the stack, have addresses chosen at random, or a stack that begins with numbers of processes.
const ELSEWHERE: &[&str] = &[
    "code_address_reuse",
    "code_jit_many_pages",
    "code_read_implies_exec",
    "insn_call_memory_at_page_end",
    "process_exec_chain",
    "vsyscall_bad_pointers",
];

/// Runs a command in a folder, with a program's input.
fn run(folder: &Folder, input: &str, words: &[&str]) -> Output {
    let mut child = Command::new("timeout")
        .args(["--signal=KILL", "60", "setarch", "-R"])
        .args(words)
        .current_dir(folder.path())
        .env("EVERYPATH_COUNTERS", folder.file("run"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("timeout is there");
    let stdin = child.stdin.take();
    // A program need not read it.
    drop(stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
    child.wait_with_output().expect("it ends")
}

/// Instructions of a program's threads, one thread after the other, in an order that does not depend on their numbers.
fn sorted(mut threads: Vec<Vec<u64>>) -> Vec<Vec<u64>> {
    threads.retain(|thread| !thread.is_empty());
    threads.sort_unstable();
    threads
}

/// Compares a program; gives the number of instructions, or why there are none: it is not edited, or differs.
fn compare(program: &Program, options: &[&str]) -> Result<usize, String> {
    let built = testkit::build::build(program, &testkit::build::cache_directory());
    let built = built.map_err(|error| error.to_string())?;
    let built = built.executable;
    let name = built.file_name().and_then(|name| name.to_str());
    let name = name.expect("a plain name");
    let folder = Folder::new("regenerated-programs");
    // Their paths are as long, so their stacks are the same.
    let [original, edited] = ["orig", "edit"].map(|made| {
        fs::create_dir(folder.file(made)).expect("a new folder");
        folder.file(made).join(name).display().to_string()
    });
    fs::create_dir(folder.file("run")).expect("a new folder");
    fs::copy(&built, &original).expect("it was built");
    let original = &*original;
    let words = ["rewrite", original, "-o", &edited, "--tool", "trace"];
    let output = folder.run(BINARY, &[&words, options].concat());
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{REFUSED}{said}"));
    }
    let directives = &program.directives;
    let arguments = directives.args.iter().map(String::as_str);
    let arguments: Vec<&str> = arguments.collect();
    let native = run(
        &folder,
        &directives.stdin,
        &[&[original], &arguments[..]].concat(),
    );
    let own = run(
        &folder,
        &directives.stdin,
        &[&[&*edited], &arguments[..]].concat(),
    );
    if own != native {
        return Err(format!(
            "another run: {:?} for {:?}",
            own.status, native.status
        ));
    }
    let (mut threads_of_own, mut accesses_of_own) = (Vec::new(), Vec::new());
    for file in counters(&folder, "run") {
        let output = folder.run(BINARY, &["regenerate", "-q", &file, "-o", "own.evp"]);
        let said = String::from_utf8_lossy(&output.stderr);
        if !said.is_empty() {
            return Err(format!("said: {said}"));
        }
        threads_of_own.extend(threads(&folder, "own.evp", &[name]));
        if !options.is_empty() {
            accesses_of_own.extend(accesses(&folder, "own.evp", &[name]));
        }
    }
    let mut words = vec![
        BINARY,
        "trace",
        "-q",
        "--no-shared-libs",
        "-o",
        "traced.evp",
    ];
    if !options.is_empty() {
        words.extend(["--memory", "addresses"]);
    }
    words.extend(["--", original]);
    words.extend(&arguments);
    run(&folder, &directives.stdin, &words);
    let known: HashSet<u64> = threads_of_own.iter().flatten().copied().collect();
    let mut traced = threads(&folder, "traced.evp", &[name]);
    for thread in &mut traced {
        thread.retain(|at| known.contains(at));
    }
    let (own, traced) = (sorted(threads_of_own), sorted(traced));
    match own == traced {
        true if options.is_empty() => Ok(own.iter().map(Vec::len).sum()),
        true if ELSEWHERE.contains(&&*program.name) => Ok(0),
        true => {
            let mut traced = accesses(&folder, "traced.evp", &[name]);
            for thread in &mut traced {
                thread.retain(|access| known.contains(&access.0));
            }
            compare_accesses(accesses_of_own, traced)
        }
        false => {
            let lens = |threads: &[Vec<u64>]| threads.iter().map(Vec::len).collect::<Vec<_>>();
            let first = own.iter().zip(&traced).find_map(|(own, traced)| {
                let at = own
                    .iter()
                    .zip(traced)
                    .position(|(own, traced)| own != traced)?;
                Some((at, own[at], traced[at]))
            });
            Err(format!(
                "differs: {:?} for {:?}, {first:x?}",
                lens(&own),
                lens(&traced)
            ))
        }
    }
}

/// Compares the accesses of all threads; gives their number.
fn compare_accesses(
    mut own: Vec<Vec<Access>>,
    mut traced: Vec<Vec<Access>>,
) -> Result<usize, String> {
    for threads in [&mut own, &mut traced] {
        threads.retain(|thread| !thread.is_empty());
        threads.sort_by_cached_key(|thread| {
            let keys = thread.iter().map(|one| (one.0, one.1, one.2));
            keys.collect::<Vec<_>>()
        });
    }
    if own.len() != traced.len() {
        return Err(format!(
            "accesses of {} threads for {}",
            own.len(),
            traced.len()
        ));
    }
    let mut pairs = own.iter().zip(&traced);
    match pairs.find_map(|(own, traced)| difference(own, traced)) {
        Some(differs) => Err(differs),
        None => Ok(own.iter().map(Vec::len).sum()),
    }
}

#[test]
#[ignore = "wide: three hundred programs, a minute; a few are in the gate"]
fn test_programs_are_regenerated() {
    compare_all(&[]);
}

/// The accesses are compared, too.
#[test]
#[ignore = "wide: three hundred programs, a minute; a few are in the gate"]
fn test_programs_are_regenerated_with_values() {
    compare_all(&["--memory"]);
}

fn compare_all(options: &[&str]) {
    let programs = discover(&repository().join("tests/programs")).expect("they are there");
    let is_other = |name: &str| OTHERS.iter().any(|(_, names)| names.contains(&name));
    let (mut agreed, mut refused, mut failed) = (0, 0, Vec::new());
    for program in &programs {
        let directives = &program.directives;
        let is_same = directives.deterministic_counts && directives.no_counts.is_none();
        if !is_same || is_other(&program.name) {
            continue;
        }
        match compare(program, options) {
            Ok(_) => agreed += 1,
            Err(why) if why.starts_with(REFUSED) => refused += 1,
            Err(why) => failed.push(format!("{}: {why}", program.name)),
        }
    }
    println!("{agreed} agree, {refused} are not edited");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(agreed > 100, "{agreed}");
}
