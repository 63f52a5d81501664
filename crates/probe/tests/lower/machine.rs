//! Executes code of probes on registers, flags and memory that the test chooses.

use std::sync::{Mutex, PoisonError};

use isa::{Asm, Reg};
use probe::{Lane, Placed, Symbol};

/// Bytes of the memory at `%gs`.
pub const AREA: usize = 4096 + 384;
/// Bytes above the stack pointer, and below it, where handlers of signals have room.
pub const STACK: usize = 32;
const BELOW: usize = 64 << 10;
/// Whether the routine was called, and the other code reached: bytes at `%gs`.
pub const CALLED: u32 = 64;
pub const WENT: u32 = 65;
/// Symbols: the routine, the other code, and a word that a test looks at.
pub const ROUTINE: Symbol = Symbol(1);
pub const OTHER: Symbol = Symbol(2);
pub const WATCHED: Symbol = Symbol(3);
/// The routine that counts values.
pub const TALLY: Symbol = Symbol(4);
/// The routines that make room in lanes.
pub const FULL: Symbol = Symbol(5);
/// Flags that programs read: OF, SF, ZF, AF, PF, CF, and the bit that is always set and that for interrupts.
pub const FLAGS: u64 = 0x8d5;
const FIXED: u64 = 0x202;

const CODE: u64 = 4096;
const PROT_ALL: u32 = 7;
const MAP_PRIVATE_ANONYMOUS: u32 = 0x22;
const ARCH_SET_GS: usize = 0x1001;

/// Registers by number, and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Registers {
    pub general: [u64; 16],
    pub flags: u64,
}

/// Registers and memory that the code works on.
#[derive(Clone, Debug)]
pub struct State {
    pub registers: Registers,
    pub area: Vec<u8>,
    /// From the stack pointer on.
    pub stack: Vec<u8>,
    pub watched: u32,
}

#[repr(C)]
struct Exchange {
    before: Registers,
    after: Registers,
}

core::arch::global_asm!(
    ".data",
    ".balign 8",
    "probe_test_rsp: .quad 0",
    "probe_test_rsi: .quad 0",
    "probe_test_exchange: .quad 0",
    "probe_test_code: .quad 0",
    ".text",
    "probe_test_run:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rip + probe_test_rsp], rsp",
    "mov [rip + probe_test_code], rdi",
    "mov [rip + probe_test_exchange], rsi",
    "mov rsp, [rsi + 32]",
    "push qword ptr [rsi + 128]",
    "popfq",
    "mov rax, [rsi]",
    "mov rcx, [rsi + 8]",
    "mov rdx, [rsi + 16]",
    "mov rbx, [rsi + 24]",
    "mov rbp, [rsi + 40]",
    "mov rdi, [rsi + 56]",
    "mov r8, [rsi + 64]",
    "mov r9, [rsi + 72]",
    "mov r10, [rsi + 80]",
    "mov r11, [rsi + 88]",
    "mov r12, [rsi + 96]",
    "mov r13, [rsi + 104]",
    "mov r14, [rsi + 112]",
    "mov r15, [rsi + 120]",
    "mov rsi, [rsi + 48]",
    "jmp [rip + probe_test_code]",
    "probe_test_end:",
    "mov [rip + probe_test_rsi], rsi",
    "mov rsi, [rip + probe_test_exchange]",
    "mov [rsi + 136], rax",
    "mov [rsi + 136 + 8], rcx",
    "mov [rsi + 136 + 16], rdx",
    "mov [rsi + 136 + 24], rbx",
    "mov [rsi + 136 + 32], rsp",
    "mov [rsi + 136 + 40], rbp",
    "mov [rsi + 136 + 56], rdi",
    "mov [rsi + 136 + 64], r8",
    "mov [rsi + 136 + 72], r9",
    "mov [rsi + 136 + 80], r10",
    "mov [rsi + 136 + 88], r11",
    "mov [rsi + 136 + 96], r12",
    "mov [rsi + 136 + 104], r13",
    "mov [rsi + 136 + 112], r14",
    "mov [rsi + 136 + 120], r15",
    "mov rax, [rip + probe_test_rsi]",
    "mov [rsi + 136 + 48], rax",
    "mov rsp, [rip + probe_test_rsp]",
    "pushfq",
    "pop rax",
    "mov [rsi + 136 + 128], rax",
    "push 0x202",
    "popfq",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    fn probe_test_run(code: u64, exchange: *mut Exchange);
    fn probe_test_end();
}

/// One test executes code at a time: where registers are meanwhile is the process's.
static ONE: Mutex<()> = Mutex::new(());

/// Memory for code, near the routine and the other code.
pub struct Machine {
    code: u64,
    stack: Vec<u8>,
    area: Vec<u64>,
}

impl Machine {
    pub fn new() -> Machine {
        // SAFETY: new memory at an address of the kernel's choice.
        let code = unsafe { sys::call::mmap(0, 6 * CODE, PROT_ALL, MAP_PRIVATE_ANONYMOUS, -1, 0) };
        Machine {
            code: code.expect("memory for code"),
            stack: vec![0; BELOW + STACK],
            area: vec![0; AREA / 8],
        }
    }

    pub fn address(&self, symbol: Symbol) -> u64 {
        self.code + CODE * symbol.0
    }

    /// Address of a byte of the memory at `%gs`.
    pub fn area(&self, at: u32) -> u64 {
        self.area.as_ptr() as u64 + u64::from(at)
    }

    pub fn stack_pointer(&self) -> u64 {
        self.stack.as_ptr() as u64 + BELOW as u64
    }

    /// A page of the code's memory.
    fn page(&mut self, number: u64) -> &mut [u8] {
        // SAFETY: it is mapped as long as the process is there, and lent to one at a time.
        unsafe {
            core::slice::from_raw_parts_mut((self.code + CODE * number) as *mut u8, CODE as usize)
        }
    }

    /// Code that ends the execution; all but where it is stays.
    fn end(asm: &mut Asm<'_>) {
        asm.bytes(&[0xff, 0x25, 0, 0, 0, 0]);
        asm.bytes(&(probe_test_end as *const () as u64).to_le_bytes());
    }

    /// Writes code; gives its bytes.
    pub fn write(&mut self, emit: impl FnOnce(&mut Placed<'_, &dyn Fn(Symbol) -> u64>)) -> usize {
        for (symbol, flag) in [(ROUTINE, CALLED), (OTHER, WENT), (TALLY, CALLED)] {
            let at = self.address(symbol);
            let mut asm = Asm::new(self.page(symbol.0), at);
            asm.mov_gs_imm8(flag.cast_signed(), 1);
            match symbol {
                ROUTINE => asm.bytes(&[0x41, 0xff, 0xe3]),
                // mov %rax, -24(%rsp); movslq (%r11), %rax; lea (%r11, %rax), %r11; mov -24(%rsp), %rax; jmp *%r11
                TALLY => asm.bytes(&[
                    0x48, 0x89, 0x44, 0x24, 0xe8, 0x49, 0x63, 0x03, 0x4d, 0x8d, 0x1c, 0x03, 0x48,
                    0x8b, 0x44, 0x24, 0xe8, 0x41, 0xff, 0xe3,
                ]),
                _ => Machine::end(&mut asm),
            }
        }
        let at = self.address(FULL);
        let mut asm = Asm::new(self.page(FULL.0), at);
        for register in Reg::ALL {
            while asm.len() < (Lane::ROUTINE * register as u64) as usize {
                asm.nop(1);
            }
            asm.mov_gs_imm8(CALLED.cast_signed(), 1);
            // jmp *register
            let number = register as u8;
            asm.bytes(&[0x40 | number >> 3, 0xff, 0xe0 | number & 7]);
        }
        let code = self.code;
        let address = move |symbol: Symbol| code + CODE * symbol.0;
        let mut placed = Placed {
            asm: Asm::new(self.page(0), code),
            address: &address as &dyn Fn(Symbol) -> u64,
        };
        emit(&mut placed);
        let size = placed.asm.len();
        Machine::end(&mut placed.asm);
        assert!(!placed.asm.overflowed());
        size
    }

    /// The code.
    pub fn code(&mut self, len: usize) -> Vec<u8> {
        self.page(0)[..len].to_vec()
    }

    /// Executes the code, entered at an offset.
    pub fn run(&mut self, before: &State, entered: u64) -> State {
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        for (word, bytes) in self.area.iter_mut().zip(before.area.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        self.stack[BELOW..].copy_from_slice(&before.stack);
        self.page(WATCHED.0)[..4].copy_from_slice(&before.watched.to_le_bytes());
        let mut exchange = Exchange {
            before: before.registers,
            after: before.registers,
        };
        exchange.before.flags |= FIXED;
        // SAFETY: nothing else uses gs in this process, and the area lives as long as code is executed. The code changes
        // nothing but the area, the stack and registers, and comes back to the end.
        unsafe {
            let args = [ARCH_SET_GS, self.area.as_ptr() as usize, 0, 0, 0, 0];
            assert_eq!(sys::raw::syscall_outside(sys::nr::ARCH_PRCTL, args), 0);
            probe_test_run(self.code + entered, &mut exchange);
        }
        let area = self.area.iter().flat_map(|word| word.to_le_bytes());
        State {
            registers: exchange.after,
            area: area.collect(),
            stack: self.stack[BELOW..].to_vec(),
            watched: before.watched,
        }
    }
}

/// The thread pointer, which the first word at `%gs` has if the memory is the thread's own.
pub fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the first word of the block of a thread is its own address (System V ABI, x86-64 TLS).
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(nostack, readonly)) };
    pointer
}
