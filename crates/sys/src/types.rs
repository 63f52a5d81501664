//! Errors, constants and plain structures of the kernel interface.

/// A system call's error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    pub const EPERM: Errno = Errno(1);
    pub const ENOENT: Errno = Errno(2);
    pub const EINTR: Errno = Errno(4);
    pub const EIO: Errno = Errno(5);
    pub const ENOEXEC: Errno = Errno(8);
    pub const EAGAIN: Errno = Errno(11);
    pub const ENOMEM: Errno = Errno(12);
    pub const EACCES: Errno = Errno(13);
    pub const EFAULT: Errno = Errno(14);
    pub const EEXIST: Errno = Errno(17);
    pub const EINVAL: Errno = Errno(22);
    pub const ENOSYS: Errno = Errno(38);
    pub const ELOOP: Errno = Errno(40);
    pub const ELIBBAD: Errno = Errno(80);
    pub const EOPNOTSUPP: Errno = Errno(95);

    /// The value a system call returns for this error.
    pub const fn as_result(self) -> isize {
        -(self.0 as isize)
    }
}

pub type Result<T> = core::result::Result<T, Errno>;

/// Splits what the kernel puts in rax.
pub const fn check(raw: isize) -> Result<usize> {
    if raw < 0 && raw >= -4095 {
        Err(Errno(-raw as i32))
    } else {
        Ok(raw as usize)
    }
}

pub const PROT_NONE: u32 = 0;
pub const PROT_READ: u32 = 1;
pub const PROT_WRITE: u32 = 2;
pub const PROT_EXEC: u32 = 4;
pub const PROT_GROWSDOWN: u32 = 0x0100_0000;

pub const MAP_SHARED: u32 = 0x01;
pub const MAP_PRIVATE: u32 = 0x02;
pub const MAP_FIXED: u32 = 0x10;
pub const MAP_ANONYMOUS: u32 = 0x20;
pub const MAP_32BIT: u32 = 0x40;
pub const MAP_GROWSDOWN: u32 = 0x100;
pub const MAP_NORESERVE: u32 = 0x4000;
pub const MAP_FIXED_NOREPLACE: u32 = 0x10_0000;

pub const MADV_DONTNEED: u32 = 4;
pub const MADV_DONTFORK: u32 = 10;
pub const MADV_HUGEPAGE: u32 = 14;
pub const MADV_DONTDUMP: u32 = 16;
pub const MADV_WIPEONFORK: u32 = 18;
pub const MADV_POPULATE_WRITE: u32 = 23;

pub const O_RDONLY: u32 = 0;
pub const O_RDWR: u32 = 2;
pub const O_CLOEXEC: u32 = 0o2_000_000;
pub const O_PATH: u32 = 0o10_000_000;
pub const AT_FDCWD: i32 = -100;
pub const AT_EMPTY_PATH: u32 = 0x1000;
pub const AT_SYMLINK_NOFOLLOW: u32 = 0x100;
pub const AT_EACCESS: u32 = 0x200;

pub const CLONE_VM: u64 = 0x100;
pub const CLONE_VFORK: u64 = 0x4000;
pub const CLONE_SIGHAND: u64 = 0x800;
pub const CLONE_THREAD: u64 = 0x10000;
pub const CLONE_CLEAR_SIGHAND: u64 = 0x1_0000_0000;

pub const PR_SET_NAME: u32 = 15;
pub const PR_GET_SECCOMP: u32 = 21;
pub const PR_SET_SECCOMP: u32 = 22;
pub const PR_GET_TSC: u32 = 25;
pub const PR_SET_TSC: u32 = 26;
pub const PR_TSC_SIGSEGV: u32 = 2;
pub const PR_SET_MM: u32 = 35;
pub const PR_SET_NO_NEW_PRIVS: u32 = 38;
pub const PR_SET_MM_MAP: u32 = 14;
pub const PR_SET_MM_MAP_SIZE: u32 = 15;

pub const ARCH_SET_GS: u32 = 0x1001;
pub const ARCH_SET_FS: u32 = 0x1002;
pub const ARCH_GET_FS: u32 = 0x1003;
pub const ARCH_GET_GS: u32 = 0x1004;

pub const FUTEX_WAIT: u32 = 0;
pub const FUTEX_WAKE: u32 = 1;

/// `struct stat` (uapi/asm/stat.h).
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub nlink: u64,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub pad0: u32,
    pub rdev: u64,
    pub size: i64,
    pub blksize: i64,
    pub blocks: i64,
    pub times: [u64; 6],
    pub unused: [i64; 3],
}
const _: () = assert!(size_of::<Stat>() == 144);

pub const S_IFMT: u32 = 0o170_000;
pub const S_IFREG: u32 = 0o100_000;
pub const S_ISUID: u32 = 0o4000;
pub const S_ISGID: u32 = 0o2000;
pub const S_IXGRP: u32 = 0o010;

/// `struct prctl_mm_map` (uapi/linux/prctl.h).
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct MmMap {
    pub start_code: u64,
    pub end_code: u64,
    pub start_data: u64,
    pub end_data: u64,
    pub start_brk: u64,
    pub brk: u64,
    pub start_stack: u64,
    pub arg_start: u64,
    pub arg_end: u64,
    pub env_start: u64,
    pub env_end: u64,
    pub auxv: u64,
    pub auxv_size: u32,
    pub exe_fd: u32,
}
const _: () = assert!(size_of::<MmMap>() == 104);

#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct Timespec {
    pub sec: i64,
    pub nsec: i64,
}

/// `struct clone_args` (uapi/linux/sched.h), version 2.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
pub struct CloneArgs {
    pub flags: u64,
    pub pidfd: u64,
    pub child_tid: u64,
    pub parent_tid: u64,
    pub exit_signal: u64,
    pub stack: u64,
    pub stack_size: u64,
    pub tls: u64,
    pub set_tid: u64,
    pub set_tid_size: u64,
    pub cgroup: u64,
}
