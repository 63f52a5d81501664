//! Calls that may not come back, or come back more often than they are made.
//!
//! Problem: counts of what lies behind a call follow from those before it only if it returns. `exit`, `longjmp`, exceptions and the end
//! of a thread leave all frames above them; `fork` and `setjmp` come back twice.
//!
//! Approach: a call of this file's own code comes back if nothing that the code calls can do any of that; one of a function of
//! another file, if the C library's description of that function says that it does not call back, wait, or end anything. Calls by
//! address may do everything. What lies behind all others has a counter. A file's own `fork` and `setjmp` are known by their
//! code ([`Twice`]).
//!
//! Limits: a handler of a signal that leaves by `longjmp`, and the end of the process by a signal, may abandon any frame.

use std::collections::HashMap;

use flow::{EdgeKind, Function, Program, To};
use image::{Image, LinkAddr};
use rayon::prelude::*;

use crate::twice::Twice;

/// Functions of the C and mathematical libraries that return: they neither call back, nor block where a thread can be cancelled
/// (POSIX.1-2017, 2.9.5.2), nor end the program.
const RETURN: &[&str] = &[
    "memcpy",
    "memmove",
    "memset",
    "memcmp",
    "memchr",
    "memrchr",
    "rawmemchr",
    "mempcpy",
    "memmem",
    "strlen",
    "strnlen",
    "strcmp",
    "strncmp",
    "strcasecmp",
    "strncasecmp",
    "strcpy",
    "strncpy",
    "stpcpy",
    "stpncpy",
    "strcat",
    "strncat",
    "strchr",
    "strrchr",
    "strchrnul",
    "strstr",
    "strcasestr",
    "strspn",
    "strcspn",
    "strpbrk",
    "strtok_r",
    "strsep",
    "strdup",
    "strndup",
    "strcoll",
    "strxfrm",
    "bcmp",
    "bzero",
    "index",
    "rindex",
    "ffs",
    "__memcpy_chk",
    "__memmove_chk",
    "__memset_chk",
    "__strcpy_chk",
    "__strncpy_chk",
    "__strcat_chk",
    "__stpcpy_chk",
    "__rawmemchr",
    "__mempcpy_chk",
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "malloc_usable_size",
    "strtol",
    "strtoul",
    "strtoll",
    "strtoull",
    "strtod",
    "strtof",
    "strtold",
    "strtoimax",
    "strtoumax",
    "atoi",
    "atol",
    "atoll",
    "atof",
    "abs",
    "labs",
    "div",
    "ldiv",
    "__isoc23_strtol",
    "__isoc23_strtoul",
    "__isoc23_strtoll",
    "__isoc23_strtoull",
    "__ctype_b_loc",
    "__ctype_tolower_loc",
    "__ctype_toupper_loc",
    "__errno_location",
    "tolower",
    "toupper",
    "isalnum",
    "isalpha",
    "isdigit",
    "isspace",
    "iswalnum",
    "iswalpha",
    "iswspace",
    "iswprint",
    "towlower",
    "towupper",
    "wcwidth",
    "mbrtowc",
    "wcrtomb",
    "mbsinit",
    "mbrlen",
    "wcslen",
    "wmemcpy",
    "wmemset",
    "wmemcmp",
    "wcscmp",
    "wcschr",
    "getenv",
    "secure_getenv",
    "time",
    "clock",
    "gettimeofday",
    "clock_gettime",
    "localtime_r",
    "gmtime_r",
    "mktime",
    "difftime",
    "getpid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "sysconf",
    "isatty",
    "rand",
    "srand",
    "random",
    "srandom",
    "drand48",
    "rand_r",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "atan2",
    "sinh",
    "cosh",
    "tanh",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "pow",
    "sqrt",
    "cbrt",
    "hypot",
    "fmod",
    "floor",
    "ceil",
    "round",
    "trunc",
    "rint",
    "nearbyint",
    "lround",
    "lrint",
    "fabs",
    "ldexp",
    "frexp",
    "modf",
    "copysign",
    "fma",
    "fmin",
    "fmax",
    "sinf",
    "cosf",
    "tanf",
    "expf",
    "logf",
    "powf",
    "sqrtf",
    "fmodf",
    "floorf",
    "ceilf",
    "roundf",
    "sincos",
    "sincosf",
    "erf",
    "erfc",
    "tgamma",
    "lgamma",
    "__stpncpy_chk",
    "__strncat_chk",
    "__cxa_atexit",
    "atexit",
    "pthread_self",
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "pthread_mutex_trylock",
    "pthread_mutex_init",
    "pthread_mutex_destroy",
    "pthread_getspecific",
    "pthread_setspecific",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pthread_rwlock_unlock",
    "pthread_equal",
    "_ZdlPv",
    "_ZdlPvm",
    "_ZdaPv",
    "__tls_get_addr",
];

/// Functions whose call ends the program, or replaces it if it succeeds.
const END: &[&str] = &[
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "abort",
    "execve",
    "execv",
    "execvp",
    "execvpe",
    "execl",
    "execlp",
    "execle",
    "fexecve",
    "execveat",
    "__assert_fail",
    "err",
    "errx",
    "verr",
    "verrx",
    "_ZSt9terminatev",
];

/// Functions whose call may return in a new process.
const FORK: &[&str] = &[
    "fork",
    "_Fork",
    "__fork",
    "__libc_fork",
    "daemon",
    "forkpty",
    "clone",
    "syscall",
];

/// Effects of calls on the frames above them.
pub struct Abandons<'p> {
    program: &'p Program,
    by_entry: HashMap<LinkAddr, usize>,
    /// By function: calls of it may not come back.
    may: Vec<bool>,
    /// By function: calls of it come back more than once.
    twice: Vec<Twice>,
}

impl<'p> Abandons<'p> {
    pub fn of(image: &Image, program: &'p Program) -> Abandons<'p> {
        let functions = &program.functions;
        let bytes = |addr: LinkAddr| image.bytes_from(addr);
        let twice = functions
            .par_iter()
            .map(|function| Twice::of(function, &bytes));
        let mut by_entry = HashMap::new();
        for (at, function) in functions.iter().enumerate() {
            let entries = function.others.iter().chain([&function.entry]);
            by_entry.extend(entries.map(|entry| (*entry, at)));
        }
        let mut abandons = Abandons {
            program,
            by_entry,
            may: vec![false; functions.len()],
            twice: twice.collect(),
        };
        let mut callers = vec![Vec::new(); functions.len()];
        let mut new = Vec::new();
        for (at, function) in functions.iter().enumerate() {
            let mut may = !function.is_complete() || abandons.twice[at] != Twice::default();
            for to in calls(function) {
                match abandons.function_at(to) {
                    Some(callee) => callers[callee].push(at),
                    None => may |= abandons.may_abandon(to),
                }
            }
            abandons.may[at] = may;
            new.extend(may.then_some(at));
        }
        while let Some(at) = new.pop() {
            for &caller in &callers[at] {
                if !std::mem::replace(&mut abandons.may[caller], true) {
                    new.push(caller);
                }
            }
        }
        abandons
    }

    /// Number of the function that a call enters, if it is one of the program.
    fn function_at(&self, to: To) -> Option<usize> {
        match to {
            To::Address(addr) => self.by_entry.get(&addr).copied(),
            _ => None,
        }
    }

    /// Whether a call of this may not come back, or come back more than once.
    pub fn may_abandon(&self, to: To) -> bool {
        if let Some(function) = self.function_at(to) {
            return self.may[function];
        }
        let name = self.program.name_of(to);
        name.is_none_or(|name| !RETURN.contains(&unversioned(name)))
    }

    /// Whether a call of this that does not return ended the program.
    pub fn ends(&self, to: To) -> bool {
        let name = self.program.name_of(to);
        name.is_some_and(|name| END.contains(&unversioned(name)))
    }

    /// Whether a function, by its number, may make a process in its own code: what of that lies behind the system call would add
    /// to counters of the parent.
    pub fn is_left(&self, function: usize) -> bool {
        self.twice[function].forks || self.twice[function].may_fork
    }

    /// Whether a call of this may return in a new process.
    pub fn forks(&self, to: To) -> bool {
        if self
            .function_at(to)
            .is_some_and(|function| self.twice[function].forks)
        {
            return true;
        }
        let name = self.program.name_of(to);
        name.is_some_and(|name| FORK.contains(&unversioned(name)))
    }
}

/// A symbol without its version.
fn unversioned(name: &str) -> &str {
    name.split('@').next().unwrap_or(name)
}

/// Targets of a function's calls, and of its jumps that stand for a return.
fn calls(function: &Function) -> impl Iterator<Item = To> + '_ {
    let edges = function.graph.edges.iter();
    let edges = edges.filter(|edge| {
        matches!(
            edge.kind,
            EdgeKind::Call
                | EdgeKind::NoReturn
                | EdgeKind::TailCall
                | EdgeKind::Case
                | EdgeKind::FallThrough
        )
    });
    let targets = edges.map(|edge| edge.to);
    targets.filter(|to| !matches!(to, To::Block(_)))
}
