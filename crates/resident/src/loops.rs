//! Nests of loops that are followed ([`wire::loops`]).
//!
//! | routine | when | what |
//! |---|---|---|
//! | `loop_head` | before the first block of a loop | it is entered, or comes back; whether it is followed further |
//! | `loop_leave` | on a way out of loops | iterations of each are known then |
//! | `loop_refer` | before an instruction with a memory operand | its address is what the model expects, or not |
//!
//! A forked child that has no memory yet follows nothing. They go on behind the facts at `r11`, with all registers and flags as they were.
//!
//! Invariant: a handler of a signal may come at any moment, and follow other nests; what is followed already leads it to the original
//! code.

use core::arch::global_asm;

use wire::loops::{EVENTS, EXACT, FORECAST, Facts, LEAST, Loop, MOST, Model, NONE, Nest, SAMPLES, STRIDES, THREAD};
use wire::loops::strides::Strides;

use crate::calls;

global_asm!(
    ".section .text",
    ".macro loop_routine function",
    // The program may have something below its stack pointer.
    "lea rsp, [rsp - 128]",
    "pushfq",
    // Registers by their numbers.
    ".irp register, r15, r14, r13, r12, r11, r10, r9, r8, rdi, rsi, rbp, rsp, rbx, rdx, rcx, rax",
    "push \\register",
    ".endr",
    // The stack pointer as it was: 11 registers, flags and 128 bytes above the one that was pushed.
    "add qword ptr [rsp + 32], 128 + 12 * 8",
    "mov rdi, r11",
    "mov rsi, rsp",
    "mov rbp, rsp",
    "sub rsp, 256",
    "and rsp, -16",
    // The functions use no floating point, but copy with these; fxsave takes as long as all else.
    ".irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "movaps [rsp + 16 * \\number], xmm\\number",
    ".endr",
    "test byte ptr [rbp + 16 * 8 + 1], 4",
    "jz 3f",
    "cld",
    "3:",
    "call \\function",
    ".irp number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
    "movaps xmm\\number, [rsp + 16 * \\number]",
    ".endr",
    "mov rsp, rbp",
    // popfq takes as long as ten other instructions, and only the direction flag needs it.
    "mov eax, [rsp + 16 * 8]",
    "test ah, 4",
    "jnz 2f",
    "mov ecx, eax",
    "shr ecx, 11",
    "and ecx, 1",
    "mov ah, al",
    "mov al, cl",
    // 128 is an overflow.
    "add al, 127",
    "sahf",
    "loop_registers",
    "lea rsp, [rsp + 8 + 128]",
    "lea r11, [r11 + 16]",
    "jmp r11",
    "2:",
    "loop_registers",
    "popfq",
    "lea rsp, [rsp + 128]",
    "lea r11, [r11 + 16]",
    "jmp r11",
    ".endm",
    ".macro loop_registers",
    "pop rax",
    "pop rcx",
    "pop rdx",
    "pop rbx",
    // Its own value is behind.
    "pop rbp",
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
    ".endm",
    ".balign 16",
    "loop_head:",
    "loop_routine {head}",
    ".balign 16",
    "loop_leave:",
    "loop_routine {leave}",
    ".balign 16",
    "loop_refer:",
    "loop_routine {refer}",
    head = sym head,
    leave = sym leave,
    refer = sym refer,
);

/// Something in the memory of the thread.
///
/// # Safety
/// The editor gave it this place.
unsafe fn at<T>(displacement: u32) -> *mut T {
    (calls::own_memory() + u64::from(displacement)) as *mut T
}

/// A loop is entered, or comes back.
///
/// # Safety
/// Called by the code above only, with what the editor wrote.
unsafe extern "C" fn head(facts: *const Facts, _: *const [u64; 16]) {
    if calls::own_memory() == 0 {
        return;
    }
    // SAFETY: places are the editor's, and the memory is the thread's.
    unsafe {
        let [own, parent, nest, about] = *facts;
        let (depth, most_entries) = (about & 0xff, about >> 16);
        let is_exact = about & EXACT != 0;
        let (own_at, nest_at) = (own, nest);
        let own = &mut *at::<Loop>(own);
        let nest = &mut *at::<Nest>(nest);
        let serial = match parent {
            0 => 0,
            parent => (*at::<Loop>(parent)).serial,
        };
        let is_entered = match parent {
            0 => nest.off == 0,
            _ => own.active == 0 || own.parent_serial != serial,
        };
        own.serial += 1;
        nest.events += 1;
        let is_over = !is_exact && nest.events >= EVENTS;
        if is_entered {
            (own.iteration, own.active, own.parent_serial) = (0, 1, serial);
            (own.parent, own.nest, own.depth) = (parent, nest_at, depth);
            if parent == 0 {
                nest.lost += u64::from(nest.inside);
                (nest.off, nest.ends, nest.quiet, nest.inside) = (1, 0, 0, 1);
                nest.entries += 1;
                nest.since = nest.since.wrapping_add(1);
            }
            if is_exact {
                foresee(own, own_at, nest.entries);
            }
        } else {
            own.iteration += 1;
        }
        let is_enough = own.iteration >= LEAST && (own.unsettled == 0 || own.iteration >= MOST);
        if is_exact || !is_enough && !is_over {
            return;
        }
        if parent == 0 || is_over {
            // Its end will not be seen.
            own.active = 0;
            (nest.ends, nest.inside) = (1, 0);
            nest.off = u8::from(is_over || nest.since >= most_entries);
        } else {
            nest.quiet = depth as u8;
            // Code that only counts adds it.
            own.iteration = own.iteration.wrapping_sub(1);
        }
    }
}

/// A loop is entered: forecasts of its references are made anew. A loop may have thousands of them (an interpreter's): those that did
/// not come in the entry before have none until they come.
///
/// # Safety
/// The loop is one of the thread's, at this place.
unsafe fn foresee(own: &mut Loop, own_at: u32, entry: u64) {
    let mut numbers = [0; wire::loops::DEPTH];
    // SAFETY: the caller's duty; models lead to those of the same loop.
    unsafe {
        let depth = indices(own_at, &mut numbers);
        let mut link: *mut u64 = &raw mut own.models;
        while *link != 0 {
            let model = &mut *at::<Model>(*link as u32);
            if model.has_come() {
                model.foresee(entry, numbers.get(..depth).unwrap_or(&[]));
                link = &raw mut model.next;
            } else {
                model.forget();
                model.is_listed = 0;
                *link = model.next;
            }
        }
    }
}

/// Control leaves loops.
///
/// # Safety
/// As above.
unsafe extern "C" fn leave(facts: *const Facts, _: *const [u64; 16]) {
    if calls::own_memory() == 0 {
        return;
    }
    // SAFETY: as above.
    unsafe {
        let [from, to, nest, about] = *facts;
        let nest = &mut *at::<Nest>(nest);
        let mut next = from;
        while next != to && next != 0 {
            let own = at::<Loop>(next);
            let parent = (*own).parent;
            if (*own).active != 0 {
                (*own).active = 0;
                ended(&mut *own, nest.entries);
                // The one that went on quietly is left, or one around it.
                nest.quiet = 0;
            }
            next = parent;
        }
        if to == 0 {
            (nest.inside, nest.quiet) = (0, 0);
            let is_exact = about & EXACT != 0;
            let is_over = nest.events >= EVENTS || nest.since >= about >> 16;
            nest.off = u8::from(!is_exact && is_over);
        }
    }
}

/// An entry of a loop has come to its end.
///
/// # Safety
/// The loop is one of the thread's.
unsafe fn ended(own: &mut Loop, entry: u64) {
    let trips = own.iteration + 1;
    own.least = match own.entries {
        0 => trips,
        _ => own.least.min(trips),
    };
    own.most = own.most.max(trips);
    own.sum += trips;
    own.entries += 1;
    let mut numbers = [0; wire::loops::DEPTH];
    // SAFETY: the caller's duty.
    let depth = unsafe { indices(own.parent, &mut numbers) };
    own.trips.add(entry, numbers.get(..depth).unwrap_or(&[]), trips as i64);
}

/// Numbers of iterations of a loop and of those around it, outermost first; gives how many there are.
///
/// # Safety
/// The loop is one of the thread's, or 0.
unsafe fn indices(own: u32, numbers: &mut [i64; wire::loops::DEPTH]) -> usize {
    let mut next = own;
    let mut depth = 0;
    while next != 0 {
        // SAFETY: the caller's duty; loops lead to their parents.
        let own = unsafe { &*at::<Loop>(next) };
        depth = depth.max(own.depth as usize);
        if let Some(number) = numbers.get_mut((own.depth as usize).wrapping_sub(1)) {
            *number = own.iteration as i64;
        }
        next = own.parent;
    }
    depth.min(numbers.len())
}

/// An instruction accesses memory.
///
/// # Safety
/// As above.
unsafe extern "C" fn refer(facts: *const Facts, registers: *const [u64; 16]) {
    if calls::own_memory() == 0 {
        return;
    }
    // SAFETY: as above.
    unsafe {
        let [model, own, displacement, about] = *facts;
        let register = |number: u32| match number & 0xff {
            NONE => 0,
            number => (*registers)[number as usize & 15],
        };
        let mut address = (displacement as i32 as i64 as u64).wrapping_add(register(about));
        let index = register(about >> 8);
        address = address.wrapping_add(index << (about >> 16 & 3));
        if about >> 24 & THREAD != 0 {
            address = address.wrapping_add(calls::thread());
        }
        let model_at = model;
        let model = &mut *at::<Model>(model);
        let loop_at = at::<Loop>(own);
        let mut numbers = [0; wire::loops::DEPTH];
        let depth = indices(own, &mut numbers);
        let nest = &*at::<Nest>((*loop_at).nest);
        if about >> 24 & STRIDES != 0 {
            let strides = at::<Strides>(model_at + size_of::<Model>() as u32);
            (*strides).add(nest.entries, address);
        }
        let numbers = numbers.get(..depth).unwrap_or(&[]);
        model.add(nest.entries, numbers, address as i64);
        if about >> 24 & FORECAST != 0 {
            model.foresee(nest.entries, numbers);
            if model.is_listed == 0 {
                model.is_listed = 1;
                model.next = (*loop_at).models;
                (*loop_at).models = u64::from(model_at);
            }
        }
        match model.samples {
            1 => (*loop_at).unsettled += 1,
            SAMPLES => (*loop_at).unsettled -= 1,
            _ => {}
        }
    }
}
