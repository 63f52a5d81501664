//! The frame from which the kernel loads all of a thread's state (rt_sigreturn).
//!
//! Nobody but the kernel can load the registers, mask and alternate stack at once. A thread that
//! is in the engine has its general registers and the low halves of its vector registers in its
//! block, and everything else where the program left it: that is saved by `xsave`, in the layout
//! that the kernel expects (Intel SDM volume 1, 13.4; `struct _fpx_sw_bytes` at 464).

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

use agent::thread::{ThreadContext, reg};
use sys::signal::*;

/// Bits of `uc_flags`: there is extended state, and ss is to be restored as it is.
const FP_XSTATE: u64 = 1;
const SIGCONTEXT_SS: u64 = 2;
const STRICT_RESTORE_SS: u64 = 4;

const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// Offset of the words for software: magic, size with the second magic, components, size.
const SOFTWARE: usize = 464;
/// Legacy area and header.
const LEAST: usize = 576;
/// Components that a process gets on request only (AMX), and so are not in a usual frame.
const ON_REQUEST: u64 = 3 << 17;
/// Room for all others: 2,696 bytes with AVX-512 and protection keys.
const ROOM: usize = 8 << 10;

/// Area of the saved extended state.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Area([u8; ROOM]);

impl Area {
    pub const fn new() -> Area {
        Area([0; ROOM])
    }
}

/// The thread's state, to go on at `pc`. It points to `area`.
pub fn of(context: &ThreadContext, pc: u64, area: &mut Area) -> UContext {
    let regs = &context.regs;
    let mut mcontext = SigContext {
        r8: regs[8],
        r9: regs[9],
        r10: regs[10],
        r11: regs[11],
        r12: regs[12],
        r13: regs[13],
        r14: regs[14],
        r15: regs[15],
        rdi: regs[reg::RDI],
        rsi: regs[reg::RSI],
        rbp: regs[reg::RBP],
        rbx: regs[reg::RBX],
        rdx: regs[reg::RDX],
        rax: regs[reg::RAX],
        rcx: regs[reg::RCX],
        rsp: regs[reg::RSP],
        rip: pc,
        eflags: context.rflags,
        selectors: 0,
        err: 0,
        trapno: 0,
        oldmask: 0,
        cr2: 0,
        fpstate: save(context, area),
        reserved: [0; 8],
    };
    mcontext.set_user_segments();
    let xstate = match has_xsave() {
        true => FP_XSTATE,
        false => 0,
    };
    UContext {
        flags: xstate | SIGCONTEXT_SS | STRICT_RESTORE_SS,
        link: 0,
        stack: SigStack {
            sp: 0,
            flags: SS_DISABLE,
            pad: 0,
            size: 0,
        },
        mcontext,
        sigmask: SigSet::ALL,
    }
}

fn has_xsave() -> bool {
    __cpuid(1).ecx & 1 << 27 != 0
}

/// Components, and how many bytes they need: those that there is room for.
fn components() -> (u64, usize) {
    if !has_xsave() {
        return (0, 512);
    }
    // SAFETY: the system has enabled xsave.
    let enabled = unsafe { _xgetbv(0) } & !ON_REQUEST;
    // The legacy area has the first two.
    let (mut mask, mut size) = (enabled & 3, LEAST);
    for component in (2..63).filter(|component| enabled & 1 << component != 0) {
        let leaf = __cpuid_count(0xd, component);
        let end = (leaf.ebx + leaf.eax) as usize;
        if end + size_of_val(&MAGIC2) <= ROOM {
            (mask, size) = (mask | 1 << component, size.max(end));
        }
    }
    (mask, size)
}

/// Saves the extended state in `area`, and returns where that is.
fn save(context: &ThreadContext, area: &mut Area) -> u64 {
    let (mask, size) = components();
    let area = area.0.as_mut_ptr();
    // SAFETY: the area is as large as the components that are saved, and aligned. The engine has
    // nothing in the vector registers that it needs behind this.
    unsafe {
        asm!(
            "movups xmm0, [{from}]",
            "movups xmm1, [{from} + 16]",
            "movups xmm2, [{from} + 32]",
            "movups xmm3, [{from} + 48]",
            "movups xmm4, [{from} + 64]",
            "movups xmm5, [{from} + 80]",
            "movups xmm6, [{from} + 96]",
            "movups xmm7, [{from} + 112]",
            "movups xmm8, [{from} + 128]",
            "movups xmm9, [{from} + 144]",
            "movups xmm10, [{from} + 160]",
            "movups xmm11, [{from} + 176]",
            "movups xmm12, [{from} + 192]",
            "movups xmm13, [{from} + 208]",
            "movups xmm14, [{from} + 224]",
            "movups xmm15, [{from} + 240]",
            "test {xsave:e}, {xsave:e}",
            "jz 2f",
            "xsave64 [{area}]",
            "jmp 3f",
            "2:",
            "fxsave64 [{area}]",
            "3:",
            from = in(reg) &raw const context.xmm,
            area = in(reg) area,
            xsave = in(reg) u32::from(mask != 0),
            in("eax") mask as u32,
            in("edx") (mask >> 32) as u32,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack),
        );
    }
    if mask != 0 {
        let total = size as u32 + 4;
        let words = [MAGIC1, total, mask as u32, (mask >> 32) as u32, size as u32];
        // SAFETY: both are inside the area; 464 and the size are multiples of 4.
        unsafe {
            (area.add(SOFTWARE) as *mut [u32; 5]).write(words);
            (area.add(size) as *mut u32).write(MAGIC2);
        }
    }
    area as u64
}

/// Goes on with the state in `uc`.
///
/// # Safety
/// It is complete, and nothing of what the thread did until now is needed again.
pub unsafe fn load(uc: &UContext) -> ! {
    // SAFETY: the kernel takes the frame from below the stack pointer, and does not return here.
    unsafe {
        asm!(
            "mov rsp, {frame}",
            "jmp {gate}",
            frame = in(reg) uc,
            gate = in(reg) sys::gate::jump(false),
            in("rax") sys::nr::RT_SIGRETURN,
            options(noreturn),
        )
    }
}
