//! The server of a fuzzer: AFL++ asks for runs, and each is a child that is forked where the program has begun.
//!
//! Problem: a fuzzer starts a program some thousand times a second, and reads from memory that it shares with it which ways were
//! executed.
//!
//! Approach: that memory, of System V, takes the place of the counters' file: it is mapped at the same place in each thread's memory.
//! Then the first thread says on a pipe that it is there, and how long the map is; for each word that it reads from the other pipe it
//! forks a child, which goes on as the program, and tells its number and how it ended. If nobody listens, the program runs once, as it
//! would without.
//!
//! A function may be executed again and again in one child: where it is entered first, its return address is replaced by that of code
//! that stops the process, until the fuzzer has it go on with the next input; then registers are what they were at the beginning.
//!
//! Limits: a function that leaves by an exception in the last turn but one ends the program: no unwind table knows the replaced return
//! address. Memory stays as the turn before left it.
//!
//! Source: AFL++ 4, `docs/` and the messages of `afl-fuzz`; the pipes are descriptors 198 and 199.

use core::arch::global_asm;
use core::mem::{MaybeUninit, offset_of};

use wire::counters::{Configuration, FIRST, Process, SlotHead, State, Turns};

use crate::{calls, files, modules};

/// The variable with the number of the memory; a fuzzer looks for its name in the program, with the zero.
const MEMORY: &[u8] = b"__AFL_SHM_ID\0";
/// The pipe with words for us, and that with words for the fuzzer.
const ASKS: i32 = 198;
const TELLS: i32 = 199;
/// The first word: options are told, and the length of the map is one.
const OPTIONS: u32 = 0x8000_0001;
const HAS_LENGTH: u32 = 0x4000_0000;
/// The longest map that can be told.
const MOST_LENGTH: u64 = 1 << 23;
/// Turns of a function in one child.
const TURNS: u64 = 1000;
/// Bytes of a number as text.
const DIGITS: usize = 20;

/// Number of the memory that the fuzzer shares; `None`: there is no fuzzer.
pub fn memory() -> Option<usize> {
    let mut text = MaybeUninit::<[u8; DIGITS]>::uninit();
    let text = text.as_mut_ptr().cast::<u8>();
    // SAFETY: the buffer has so many bytes, of which the first are written.
    unsafe {
        let len = files::variable(MEMORY, text, DIGITS)?;
        let mut number = 0usize;
        for at in 0..len {
            let digit = (*text.add(at))
                .checked_sub(b'0')
                .filter(|digit| *digit < 10)?;
            number = number.checked_mul(10)?.checked_add(digit.into())?;
        }
        (len > 0).then_some(number)
    }
}

/// Maps the map of a fuzzer as a thread's counters.
///
/// # Safety
/// The slot has as much memory behind its first page as the map has bytes.
pub unsafe fn map(slot: *mut SlotHead, memory: usize) -> bool {
    // SAFETY: the caller's duty.
    unsafe { calls::attach(memory, slot as u64 + FIRST) }
}

/// Runs the program as often as the fuzzer asks for; comes back in each child, and if there is no fuzzer.
pub fn serve(length: u64) {
    let length = length.min(MOST_LENGTH) as u32;
    let first = OPTIONS | HAS_LENGTH | (length - 1) << 1;
    if !tell(first) {
        return;
    }
    let mut stopped = None;
    loop {
        let Some(was_killed) = ask() else {
            calls::end(1);
        };
        if let Some(child) = stopped.filter(|_| was_killed != 0) {
            // It took too long.
            calls::wait(child);
            stopped = None;
        }
        let child = match stopped {
            Some(child) => {
                calls::go_on(child);
                child
            }
            None => match calls::fork() {
                Ok(0) => {
                    calls::close(ASKS);
                    calls::close(TELLS);
                    return;
                }
                Ok(child) => child,
                Err(_) => calls::end(1),
            },
        };
        let status = match tell(child as u32) {
            true => calls::wait(child),
            false => None,
        };
        let Some(status) = status else {
            calls::end(1);
        };
        stopped = (status & 0xff == calls::STOPPED).then_some(child);
        if !tell(status) {
            calls::end(1);
        }
    }
}

global_asm!(
    ".section .text",
    // The address to go on at, behind the beginning of the function, is in r11; all other registers are the program's.
    "turns:",
    "push r15",
    "push r14",
    "push r13",
    "push r12",
    "push r11",
    "push r10",
    "push r9",
    "push r8",
    "push rdi",
    "push rsi",
    "push rbp",
    "push rsp",
    "push rbx",
    "push rdx",
    "push rcx",
    "push rax",
    "add qword ptr [rsp + 32], 11 * 8",
    "mov rdi, rsp",
    "lea rsi, [rip + again]",
    "lea rdx, [rip + told]",
    "mov rbp, rsp",
    "sub rsp, 512",
    "and rsp, -64",
    "fxsave64 [rsp]",
    "cld",
    "call {begin}",
    "fxrstor64 [rsp]",
    "mov rsp, rbp",
    "pop rax",
    "pop rcx",
    "pop rdx",
    "pop rbx",
    "lea rsp, [rsp + 8]",
    "pop rbp",
    "pop rsi",
    "pop rdi",
    "pop r8",
    "pop r9",
    "pop r10",
    "pop r11",
    "pop r12",
    "pop r13",
    "pop r14",
    "pop r15",
    "jmp r11",
    // The function returns.
    "again:",
    "push rax",
    "push rdx",
    "lea rdi, [rip + told]",
    "mov rbp, rsp",
    "sub rsp, 512",
    "and rsp, -64",
    "fxsave64 [rsp]",
    "cld",
    "call {end}",
    "fxrstor64 [rsp]",
    "mov rsp, rbp",
    // rbp, which the function gave back, is among the registers of its beginning.
    "mov rbp, [rax + {registers} + 40]",
    "cmp qword ptr [rax + {begun}], 0",
    "je 2f",
    "mov r11, [rax + {goes_on}]",
    "mov rcx, [rax + {registers} + 8]",
    "mov rdx, [rax + {registers} + 16]",
    "mov rbx, [rax + {registers} + 24]",
    "mov rsp, [rax + {registers} + 32]",
    "mov rsi, [rax + {registers} + 48]",
    "mov rdi, [rax + {registers} + 56]",
    "mov r8, [rax + {registers} + 64]",
    "mov r9, [rax + {registers} + 72]",
    "mov r10, [rax + {registers} + 80]",
    "mov r12, [rax + {registers} + 96]",
    "mov r13, [rax + {registers} + 104]",
    "mov r14, [rax + {registers} + 112]",
    "mov r15, [rax + {registers} + 120]",
    "mov rax, [rax + {registers}]",
    "jmp r11",
    // For good.
    "2:",
    "mov r11, [rax + {back}]",
    "pop rdx",
    "pop rax",
    "jmp r11",
    begin = sym begin,
    end = sym end,
    registers = const offset_of!(Turns, registers),
    begun = const offset_of!(Turns, begun),
    goes_on = const offset_of!(Turns, goes_on),
    back = const offset_of!(Turns, back),
);

/// The function is entered, with these registers: in the first turn, or by itself.
///
/// # Safety
/// Called by the code above only.
unsafe extern "C" fn begin(registers: *const [u64; 16], again: u64, told: *const Configuration) {
    // SAFETY: registers are on the stack, with the return address above them, and the process is there as long as it runs.
    unsafe {
        let Some(process) = process(told) else {
            return;
        };
        if (*process).fuzzer == 0 || (*process).turns.begun != 0 {
            return;
        }
        let turns = &raw mut (*process).turns;
        (*turns).begun = 1;
        let registers = registers.cast::<u64>();
        for number in 0..16 {
            // No compiler makes a call of `memcpy` of it.
            let register = registers.add(number).read_volatile();
            (&raw mut (*turns).registers)
                .cast::<u64>()
                .add(number)
                .write(register);
        }
        (*turns).goes_on = registers.add(11).read();
        (*turns).again = again;
        (*turns).pid = calls::pid();
        let top = registers.add(4).read() as *mut u64;
        (*turns).back = *top;
        *top = again;
    }
}

/// The function returns: the process stops until there is another input. Gives what is known of the turns, none of which has begun
/// if it was the last.
///
/// # Safety
/// Called by the code above only.
unsafe extern "C" fn end(told: *const Configuration) -> *mut Turns {
    // SAFETY: a turn has begun, so the process is there.
    unsafe {
        let Some(process) = process(told) else {
            calls::end(1);
        };
        let turns = &raw mut (*process).turns;
        if (*turns).begun >= TURNS || (*turns).pid != calls::pid() {
            (*turns).begun = 0;
            // It is not entered again as if it were the first.
            (*process).fuzzer = 0;
            return turns;
        }
        calls::stop();
        (*turns).begun += 1;
        let top = (*turns).registers[4] as *mut u64;
        *top = (*turns).again;
        turns
    }
}

/// The process, if it has begun.
///
/// # Safety
/// The configuration is the file's.
unsafe fn process(told: *const Configuration) -> Option<*mut Process> {
    // SAFETY: the editor keeps room for this file's own data at this distance, and the state is there once it was entered.
    unsafe {
        let own = told.cast::<u8>().offset((*told).state as isize);
        let state: *mut State = modules::state(&*told, own.cast_mut().cast());
        let process = (*state).process as *mut Process;
        (!process.is_null()).then_some(process)
    }
}

fn tell(word: u32) -> bool {
    calls::write_word(TELLS, word)
}

fn ask() -> Option<u32> {
    calls::read_word(ASKS)
}
