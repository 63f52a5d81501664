//! How much of a part is run.
//!
//! Problem: all modes of all programs take most of an hour, and the gate has minutes.
//!
//! Approach: every part knows three scopes. What the gate leaves out is run by `cargo xtask wide`,
//! and each part says how many comparisons that are, so nothing is dropped in silence. The choice
//! is made by fixed tables (here and in [`crate::mode`]), never by chance.

/// How much of a part is run; from the environment variable `EVERYPATH_SCOPE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// The smoke after an edit: `cargo xtask check`.
    Check,
    /// The gate, which decides whether a commit lands: `cargo xtask ci`. The default.
    Gate,
    /// Everything: `cargo xtask wide`.
    Wide,
}

/// Programs of the smoke: one of each kind of behaviour, all of them short.
pub const SMOKE: [&str; 12] = [
    "code_selfmod_same_block",
    "contexts_exceptions",
    "contexts_fork",
    "flow_coroutines",
    "flow_longjmp",
    "insn_rep_strings",
    "load_static",
    "process_exec_chain",
    "signal_nested",
    "thread_create_join",
    "thread_shared_code",
    "vdso_calls",
];

/// Programs whose contexts and counts the gate compares with the stepping oracle: the shortest of
/// each kind, by measurement; `cargo xtask wide contexts counts` compares all of them.
pub const STEPPED: [&str; 57] = [
    "code_far_transfers",
    "code_large_model",
    "code_proc_self_mem",
    "code_read_by_the_kernel",
    "code_selfmod_after_jump",
    "code_selfmod_same_block",
    "contexts_fork_raw",
    "contexts_inclusive",
    "contexts_jumps",
    "contexts_leaves",
    "contexts_prog4",
    "contexts_prog6",
    "count_freestanding",
    "deep_recursion",
    "env_limit_address_space",
    "env_seccomp_sandbox",
    "escape_text_patch",
    "exec_without_rights",
    "fds_all_closed",
    "fds_openat2",
    "filter_all_threads",
    "filter_by_address",
    "filter_trap_emulates",
    "flags_alignment_prefixed",
    "flow_call_site_self",
    "flow_frame_pointer_moved",
    "flow_retpoline",
    "flow_self_jumps",
    "flow_tail_calls_million",
    "insn_int80",
    "insn_null_gs_selector",
    "insn_prefixes",
    "insn_red_zone",
    "insn_segment_registers",
    "insn_syscall_clobbers",
    "load_exit_status",
    "load_initial_registers",
    "load_musl_static",
    "mcf_contexts",
    "memory_lock_all",
    "memory_own_malloc",
    "process_daemon",
    "process_exec_from_thread",
    "process_sigchld",
    "signal_avx512_edit",
    "signal_default_fault",
    "signal_frame_layout",
    "signal_seccomp_trap_memory_calls",
    "signal_sent_segv",
    "signal_siglongjmp",
    "thread_clone_exits_at_once",
    "thread_mutex_cond",
    "thread_raw_clone",
    "thread_unjoined_at_exit",
    "traptor_gshare",
    "vdso_symbols",
    "vsyscall_page",
];

/// Programs of [`STEPPED`] whose counts the gate leaves to `wide`: counting each takes five seconds or more, and its kind
/// is among the others.
pub const CONTEXTS_ONLY: [&str; 33] = [
    "code_far_transfers",
    "code_large_model",
    "code_proc_self_mem",
    "code_read_by_the_kernel",
    "code_selfmod_same_block",
    "contexts_fork_raw",
    "contexts_prog4",
    "contexts_prog6",
    "count_freestanding",
    "deep_recursion",
    "env_seccomp_sandbox",
    "exec_without_rights",
    "fds_openat2",
    "filter_all_threads",
    "filter_by_address",
    "flags_alignment_prefixed",
    "flow_retpoline",
    "flow_tail_calls_million",
    "insn_int80",
    "insn_null_gs_selector",
    "insn_prefixes",
    "insn_red_zone",
    "insn_segment_registers",
    "insn_syscall_clobbers",
    "memory_lock_all",
    "memory_own_malloc",
    "process_daemon",
    "signal_avx512_edit",
    "signal_default_fault",
    "signal_frame_layout",
    "signal_sent_segv",
    "signal_siglongjmp",
    "vdso_symbols",
];

/// Scripts of `tests/real` that the gate runs.
pub const REAL: [&str; 7] = [
    "bash",
    "git",
    "interpreters",
    "perl",
    "python",
    "servers",
    "sqlite3",
];

/// Runs that the gate compares in lockstep with a native run of the same code: real programs, the
/// faults made on purpose (`run`, `contexts`) and programs of `tests/programs`.
pub const LOCKSTEP: [&str; 9] = [
    "awk",
    "run",
    "contexts",
    "code_selfmod_same_block",
    "flow_coroutines",
    "flow_retpoline",
    "insn_prefixes",
    "insn_red_zone",
    "signal_nested",
];

impl Scope {
    /// The scope of this process.
    ///
    /// # Panics
    /// The variable has another value than `check`, `gate` and `wide`.
    #[must_use]
    pub fn current() -> Scope {
        match std::env::var("EVERYPATH_SCOPE").as_deref() {
            Ok("check") => Scope::Check,
            Err(_) | Ok("gate") => Scope::Gate,
            Ok("wide") => Scope::Wide,
            Ok(other) => panic!("EVERYPATH_SCOPE={other}: it is check, gate or wide"),
        }
    }

    /// Divides `jobs` into those that this scope runs and the number that it leaves to `wide`:
    /// below [`Scope::Wide`] those whose name is in `chosen` are run.
    ///
    /// # Panics
    /// A name of `chosen` is no job's, so that a renamed program does not drop out of the gate
    /// in silence.
    pub fn choose<J>(
        self,
        jobs: Vec<J>,
        chosen: &[&str],
        name: impl Fn(&J) -> &str,
    ) -> (Vec<J>, usize) {
        if self == Scope::Wide || std::env::var_os("EVERYPATH_ONLY").is_some() {
            return (jobs, 0);
        }
        for wanted in chosen {
            assert!(
                jobs.iter().any(|job| name(job) == *wanted),
                "{wanted} is in a table of testkit::scope and is no job of this part"
            );
        }
        let all = jobs.len();
        let kept: Vec<J> = jobs
            .into_iter()
            .filter(|job| chosen.contains(&name(job)))
            .collect();
        let left = all - kept.len();
        (kept, left)
    }
}

#[cfg(test)]
mod tests {
    use super::Scope;

    #[test]
    fn the_gate_runs_the_chosen_and_counts_the_rest() {
        let jobs = vec!["a", "b", "c"];
        assert_eq!(
            Scope::Gate.choose(jobs.clone(), &["b"], |job| job),
            (vec!["b"], 2)
        );
        assert_eq!(
            Scope::Wide.choose(jobs.clone(), &["b"], |job| job),
            (jobs, 0)
        );
    }

    #[test]
    #[should_panic(expected = "d is in a table")]
    fn a_chosen_name_that_is_no_job_is_an_error() {
        let _ = Scope::Gate.choose(vec!["a"], &["d"], |job| job);
    }
}
