//! Signal structures as the kernel reads and writes them.
//!
//! ```text
//! rt_sigframe on the stack (arch/x86/include/asm/sigframe.h):
//!   rsp -> pretcode      8   return address: the restorer
//!          ucontext    304   flags, link, stack, sigcontext, sigmask
//!          siginfo     128
//!          ...               fpstate, 64-byte aligned, pointed to by sigcontext
//! ```

pub const SIGILL: u32 = 4;
pub const SIGTRAP: u32 = 5;
pub const SIGABRT: u32 = 6;
pub const SIGBUS: u32 = 7;
pub const SIGFPE: u32 = 8;
pub const SIGKILL: u32 = 9;
pub const SIGSEGV: u32 = 11;
pub const SIGPIPE: u32 = 13;
pub const SIGCHLD: u32 = 17;
pub const SIGCONT: u32 = 18;
pub const SIGSTOP: u32 = 19;
pub const SIGURG: u32 = 23;
pub const SIGXFSZ: u32 = 25;
pub const SIGWINCH: u32 = 28;
pub const SIGSYS: u32 = 31;
pub const NSIG: u32 = 64;

pub const SA_NOCLDSTOP: u64 = 1;
pub const SA_NOCLDWAIT: u64 = 2;
pub const SA_SIGINFO: u64 = 4;
pub const SA_RESTORER: u64 = 0x0400_0000;
pub const SA_ONSTACK: u64 = 0x0800_0000;
pub const SA_RESTART: u64 = 0x1000_0000;
pub const SA_NODEFER: u64 = 0x4000_0000;
pub const SA_RESETHAND: u64 = 0x8000_0000;

pub const SIG_DFL: u64 = 0;
pub const SIG_IGN: u64 = 1;

pub const SIG_BLOCK: u32 = 0;
pub const SIG_UNBLOCK: u32 = 1;
pub const SIG_SETMASK: u32 = 2;

pub const SS_ONSTACK: u32 = 1;
pub const SS_DISABLE: u32 = 2;
pub const SS_AUTODISARM: u32 = 1 << 31;

/// A set of signals, bit N-1 for signal N.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct SigSet(pub u64);

impl SigSet {
    pub const ALL: SigSet = SigSet(!0);
    pub const EMPTY: SigSet = SigSet(0);
    /// The signals an instruction can raise.
    pub const SYNCHRONOUS: SigSet = SigSet(
        1 << (SIGILL - 1)
            | 1 << (SIGTRAP - 1)
            | 1 << (SIGBUS - 1)
            | 1 << (SIGFPE - 1)
            | 1 << (SIGSEGV - 1)
            | 1 << (SIGSYS - 1),
    );
    /// SIGKILL and SIGSTOP cannot be blocked.
    pub const UNBLOCKABLE: SigSet = SigSet(1 << (SIGKILL - 1) | 1 << (SIGSTOP - 1));

    pub const fn only(signal: u32) -> SigSet {
        SigSet(1 << (signal - 1))
    }
    pub const fn has(self, signal: u32) -> bool {
        self.0 >> (signal - 1) & 1 != 0
    }
    pub const fn with(self, other: SigSet) -> SigSet {
        SigSet(self.0 | other.0)
    }
    pub const fn without(self, other: SigSet) -> SigSet {
        SigSet(self.0 & !other.0)
    }
}

/// `struct kernel_sigaction`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SigAction {
    pub handler: u64,
    pub flags: u64,
    pub restorer: u64,
    pub mask: SigSet,
}

/// `stack_t`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SigStack {
    pub sp: u64,
    pub flags: u32,
    pub pad: u32,
    pub size: u64,
}

/// `siginfo_t`: number, errno, code, and a union of which we use the words.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SigInfo {
    pub signo: i32,
    pub errno: i32,
    pub code: i32,
    pub pad: i32,
    /// `fields[0]` is `si_addr` of a fault.
    pub fields: [u64; 14],
}

impl SigInfo {
    pub const NONE: SigInfo = SigInfo {
        signo: 0,
        errno: 0,
        code: 0,
        pad: 0,
        fields: [0; 14],
    };
}

/// `struct sigcontext`: registers in the kernel's order.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SigContext {
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rsp: u64,
    pub rip: u64,
    pub eflags: u64,
    /// cs, gs, fs, ss, 16 bits each.
    pub selectors: u64,
    pub err: u64,
    pub trapno: u64,
    pub oldmask: u64,
    pub cr2: u64,
    pub fpstate: u64,
    pub reserved: [u64; 8],
}

/// Selectors of 64-bit code and of data in user mode, and of 32-bit code
/// (`arch/x86/include/asm/segment.h`).
pub const USER_CS: u16 = 0x33;
pub const USER_DS: u16 = 0x2b;
pub const USER32_CS: u16 = 0x23;

impl SigContext {
    pub const fn cs(&self) -> u16 {
        self.selectors as u16
    }

    pub const fn set_cs(&mut self, cs: u16) {
        self.selectors = self.selectors & !0xffff | cs as u64;
    }

    /// The code and stack segments of any 64-bit program.
    pub const fn set_user_segments(&mut self) {
        self.set_cs(USER_CS);
        self.selectors = self.selectors & !(0xffff << 48) | (USER_DS as u64) << 48;
    }
}

/// `struct ucontext`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UContext {
    pub flags: u64,
    pub link: u64,
    pub stack: SigStack,
    pub mcontext: SigContext,
    pub sigmask: SigSet,
}

/// `struct rt_sigframe`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SigFrame {
    pub pretcode: u64,
    pub uc: UContext,
    pub info: SigInfo,
}

const _: () = {
    assert!(size_of::<SigInfo>() == 128);
    assert!(size_of::<SigContext>() == 256);
    assert!(size_of::<UContext>() == 304);
    assert!(size_of::<SigFrame>() == 440);
};

/// Bits of the page-fault error code (`SigContext::err`, Intel SDM vol. 3, 4.7).
pub mod pf {
    pub const PRESENT: u64 = 1;
    pub const WRITE: u64 = 2;
    pub const USER: u64 = 4;
    pub const FETCH: u64 = 16;
}

/// `trapno` values (Intel SDM vol. 3, table 6-1).
pub mod trap {
    pub const DEBUG: u64 = 1;
    pub const BREAKPOINT: u64 = 3;
    pub const INVALID_OPCODE: u64 = 6;
    pub const STACK: u64 = 12;
    pub const GENERAL_PROTECTION: u64 = 13;
    pub const PAGE_FAULT: u64 = 14;
    pub const ALIGNMENT: u64 = 17;
}

/// `si_code` values.
pub mod code {
    pub const SI_USER: i32 = 0;
    pub const SI_TKILL: i32 = -6;
    pub const SI_KERNEL: i32 = 0x80;
    pub const SEGV_MAPERR: i32 = 1;
    pub const SEGV_ACCERR: i32 = 2;
    pub const SYS_SECCOMP: i32 = 1;
}
