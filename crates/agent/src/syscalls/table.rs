//! Which system calls must be bent, and why: a row each.

use sys::{Errno, nr};

/// Way in which a call is intercepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Executable memory may come, go, move or change rights.
    Mmap,
    Munmap,
    Mprotect,
    Mremap,
    Madvise,
    /// The heap grows, executable if all that can be read is.
    Brk,
    /// Which memory can be executed is ours to say.
    Personality,
    /// System V shared memory may be code, or replace it.
    Shmat,
    Shmdt,
    /// Asks about memory or does something to it: there is none where the engine is.
    Looks,
    /// Paths that may name `/proc/self/exe` or `/proc/self/maps`.
    Open,
    Openat,
    Readlink,
    Readlinkat,
    /// Other calls that follow a path: (index of the path argument).
    Path(usize),
    Sigaction,
    Sigprocmask,
    Sigaltstack,
    /// The kernel writes to memory: (index of the address, of the length).
    Fills(usize, usize),
    /// An array of buffers is filled: (index of the array, of its length).
    FillsVector(usize, usize),
    /// Buffers of received messages are filled.
    FillsMessages,
    /// The file may be the program's own memory, once that was opened for writing.
    Stores,
    Prctl,
    /// The program's calls are filtered from now on, and not the engine's.
    Seccomp,
    /// A process that is traced runs natively.
    Ptrace,
    /// Limits of memory are for the engine, too: (index of the resource).
    Limit(usize),
    /// All memory is locked: not the engine's.
    Mlockall,
    Openat2,
    Sigpending,
    Sigtimedwait,
    /// A descriptor shows signals that we may hold.
    Signalfd,
    /// Waits for descriptors, which may show those signals.
    Polls,
    /// Waits under another signal mask: (index of its address).
    Waits(usize),
    /// From now on reading memory may wait for a thread of the program.
    Userfault,
    /// Done by the translator, which owns the thread's state.
    Sigreturn,
    Clone,
    Clone3,
    Fork,
    Vfork,
    Execve,
    Execveat,
    Exit,
    ExitGroup,
    ArchPrctl,
    /// Refused with an error as by a kernel without the feature.
    Refuse(Errno),
}

/// One row per bent call, with its reason.
pub const TABLE: &[(usize, Kind, &str)] = &[
    (
        nr::MMAP,
        Kind::Mmap,
        "code appears; the execute bit is ours; modules go near the cache",
    ),
    (nr::MUNMAP, Kind::Munmap, "code disappears"),
    (
        nr::MPROTECT,
        Kind::Mprotect,
        "the execute bit is ours; code becomes writable",
    ),
    (nr::PKEY_MPROTECT, Kind::Mprotect, "as mprotect"),
    (nr::MREMAP, Kind::Mremap, "code moves"),
    (
        nr::MADVISE,
        Kind::Madvise,
        "DONTNEED and the like change bytes of code",
    ),
    (nr::BRK, Kind::Brk, "as mmap, under READ_IMPLIES_EXEC"),
    (
        nr::PERSONALITY,
        Kind::Personality,
        "READ_IMPLIES_EXEC would make pages executable in truth",
    ),
    (
        nr::SHMAT,
        Kind::Shmat,
        "SHM_EXEC is a way to map code, SHM_REMAP one to replace it",
    ),
    (nr::SHMDT, Kind::Shmdt, "as munmap"),
    (
        nr::PTRACE,
        Kind::Ptrace,
        "a tracer is to see the program, and not the engine",
    ),
    (
        nr::MINCORE,
        Kind::Looks,
        "the engine's memory is free memory to the program",
    ),
    (nr::MSYNC, Kind::Looks, "as mincore"),
    (nr::MLOCK, Kind::Looks, "as mincore"),
    (nr::MLOCK2, Kind::Looks, "as mincore"),
    (nr::MUNLOCK, Kind::Looks, "as mincore"),
    (nr::OPEN, Kind::Open, "/proc/self/exe and maps"),
    (nr::OPENAT, Kind::Openat, "/proc/self/exe and maps"),
    (nr::OPENAT2, Kind::Openat2, "/proc/self/exe and maps"),
    (nr::READLINK, Kind::Readlink, "/proc/self/exe"),
    (nr::READLINKAT, Kind::Readlinkat, "/proc/self/exe"),
    (nr::STAT, Kind::Path(0), "/proc/self/exe"),
    (nr::ACCESS, Kind::Path(0), "/proc/self/exe"),
    (nr::STATFS, Kind::Path(0), "/proc/self/exe"),
    (nr::NEWFSTATAT, Kind::Path(1), "/proc/self/exe"),
    (nr::STATX, Kind::Path(1), "/proc/self/exe"),
    (nr::FACCESSAT, Kind::Path(1), "/proc/self/exe"),
    (nr::FACCESSAT2, Kind::Path(1), "/proc/self/exe"),
    (
        nr::RT_SIGACTION,
        Kind::Sigaction,
        "handlers are program code: the kernel is given ours",
    ),
    (
        nr::RT_SIGPROCMASK,
        Kind::Sigprocmask,
        "synchronous signals stay deliverable to us",
    ),
    (
        nr::SIGALTSTACK,
        Kind::Sigaltstack,
        "the kernel's alternate stack is ours",
    ),
    (
        nr::RT_SIGPENDING,
        Kind::Sigpending,
        "synchronous signals that were sent may be held by us",
    ),
    (nr::RT_SIGTIMEDWAIT, Kind::Sigtimedwait, "as rt_sigpending"),
    (nr::SIGNALFD, Kind::Signalfd, "as rt_sigpending"),
    (nr::SIGNALFD4, Kind::Signalfd, "as rt_sigpending"),
    (nr::POLL, Kind::Polls, "a signalfd may show what we hold"),
    (nr::SELECT, Kind::Polls, "as poll"),
    (nr::EPOLL_WAIT, Kind::Polls, "as poll"),
    (
        nr::RT_SIGSUSPEND,
        Kind::Waits(0),
        "handlers run under its mask; it may open synchronous signals",
    ),
    (nr::PPOLL, Kind::Waits(3), "as rt_sigsuspend"),
    (nr::PSELECT6, Kind::Waits(5), "as rt_sigsuspend"),
    (nr::EPOLL_PWAIT, Kind::Waits(4), "as rt_sigsuspend"),
    (nr::EPOLL_PWAIT2, Kind::Waits(4), "as rt_sigsuspend"),
    (nr::IO_PGETEVENTS, Kind::Waits(5), "as rt_sigsuspend"),
    (nr::IO_URING_ENTER, Kind::Waits(4), "as rt_sigsuspend"),
    (
        nr::READ,
        Kind::Fills(1, 2),
        "the kernel cannot write to pages that we guard",
    ),
    (
        nr::WRITE,
        Kind::Stores,
        "/proc/self/mem changes code behind page protection",
    ),
    (nr::PWRITE64, Kind::Stores, "as write"),
    (nr::WRITEV, Kind::Stores, "as write"),
    (nr::PWRITEV, Kind::Stores, "as write"),
    (nr::PWRITEV2, Kind::Stores, "as write"),
    (nr::PREAD64, Kind::Fills(1, 2), "as read"),
    (nr::RECVFROM, Kind::Fills(1, 2), "as read"),
    (nr::GETRANDOM, Kind::Fills(0, 1), "as read"),
    (nr::GETDENTS64, Kind::Fills(1, 2), "as read"),
    (nr::GETCWD, Kind::Fills(0, 1), "as read"),
    (nr::MSGRCV, Kind::Fills(1, 2), "as read"),
    (nr::MQ_TIMEDRECEIVE, Kind::Fills(1, 2), "as read"),
    (nr::READV, Kind::FillsVector(1, 2), "as read"),
    (nr::PREADV, Kind::FillsVector(1, 2), "as read"),
    (nr::PREADV2, Kind::FillsVector(1, 2), "as read"),
    (nr::PROCESS_VM_READV, Kind::FillsVector(1, 2), "as read"),
    (
        nr::PROCESS_VM_WRITEV,
        Kind::FillsVector(3, 4),
        "as read, when it writes to itself",
    ),
    (nr::RECVMSG, Kind::FillsMessages, "as read"),
    (nr::RECVMMSG, Kind::FillsMessages, "as read"),
    (
        nr::PRCTL,
        Kind::Prctl,
        "syscall user dispatch is told by address, which are the cache's; see seccomp",
    ),
    (
        nr::SECCOMP,
        Kind::Seccomp,
        "a filter must not be asked about the engine's calls",
    ),
    (
        nr::SETRLIMIT,
        Kind::Limit(0),
        "memory is set aside before it is limited",
    ),
    (nr::PRLIMIT64, Kind::Limit(1), "as setrlimit"),
    (
        nr::MLOCKALL,
        Kind::Mlockall,
        "the pool would be filled and locked whole",
    ),
    (
        nr::USERFAULTFD,
        Kind::Userfault,
        "no page may be awaited while the engine's lock is held",
    ),
    (
        nr::RT_SIGRETURN,
        Kind::Sigreturn,
        "returns to a program address",
    ),
    (nr::CLONE, Kind::Clone, "the child must start in the engine"),
    (
        nr::CLONE3,
        Kind::Clone3,
        "the child must start in the engine",
    ),
    (nr::FORK, Kind::Fork, "the child gets records of its own"),
    (
        nr::VFORK,
        Kind::Vfork,
        "the child shares memory but not the thread block",
    ),
    (
        nr::EXECVE,
        Kind::Execve,
        "the new program runs under the engine too",
    ),
    (
        nr::EXECVEAT,
        Kind::Execveat,
        "the new program runs under the engine too",
    ),
    (nr::EXIT, Kind::Exit, "the thread block becomes free"),
    (nr::EXIT_GROUP, Kind::ExitGroup, "the end is recorded"),
    (
        nr::ARCH_PRCTL,
        Kind::ArchPrctl,
        "the gs register is ours; shadow stacks cannot work",
    ),
    (
        334,
        Kind::Refuse(Errno::ENOSYS),
        "rseq: critical sections would be invisible to the kernel",
    ),
    (
        453,
        Kind::Refuse(Errno::EOPNOTSUPP),
        "map_shadow_stack: returns are jumps here",
    ),
];

/// The row of a call, if it has one.
pub fn kind(number: u64) -> Option<Kind> {
    TABLE
        .iter()
        .find(|(row, _, _)| *row as u64 == number)
        .map(|(_, kind, _)| *kind)
}
