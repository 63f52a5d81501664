//! The kernel as the oracle: random filters are installed in children, which make calls that
//! only the filter answers.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use super::bpf::{ARCH_X86_64, Data, Insn, equal, immediate, load, ret};
use super::{Filter, action, for_kernel, prologue, strict};

/// A call that no kernel has.
const NUMBER: u32 = 0x1234;
const CALLS: usize = 6;
/// The child writes this before a call; no call returns it.
const MADE: i64 = 1 << 40;
const PROGRAMS: u64 = 1500;

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.roll() >> 33) % end
    }

    /// Small numbers and such with few bits come often.
    fn number(&mut self) -> u32 {
        match self.below(4) {
            0 => self.below(5) as u32,
            1 => 1 << self.below(32),
            2 => u32::MAX - self.below(3) as u32,
            _ => self.roll() as u32,
        }
    }
}

fn insn(code: u16, yes: u8, no: u8, k: u32) -> Insn {
    Insn { code, yes, no, k }
}

/// One instruction with at least `left` behind it.
fn random_insn(dice: &mut Dice, left: u64) -> Insn {
    // As the kernel's headers have the opcodes.
    const ALU: [u16; 9] = [0x04, 0x14, 0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0xa4];
    const JUMPS: [u16; 4] = [0x15, 0x25, 0x35, 0x45];
    let by_x = (dice.below(2) as u16) << 3;
    let mut skip = || dice.below(left.min(256)) as u8;
    let (yes, no) = (skip(), skip());
    match dice.below(13) {
        0..=2 => load(4 * dice.below(16) as u32),
        3 => insn([0x00, 0x01][dice.below(2) as usize], 0, 0, dice.number()),
        4 => insn([0x80, 0x81][dice.below(2) as usize], 0, 0, 0),
        5 => insn(
            [0x60, 0x61, 0x02, 0x03][dice.below(4) as usize],
            0,
            0,
            dice.below(16) as u32,
        ),
        6 => insn([0x07, 0x87][dice.below(2) as usize], 0, 0, 0),
        7 => insn(0x84, 0, 0, 0),
        8 | 9 => insn(JUMPS[dice.below(4) as usize] | by_x, yes, no, dice.number()),
        10 => insn(0x05, 0, 0, u32::from(yes)),
        _ => {
            let code = ALU[dice.below(9) as usize];
            let k = match code {
                0x34 => dice.number().max(1),
                0x64 | 0x74 => dice.below(32) as u32,
                _ => dice.number(),
            };
            insn(code | by_x, 0, 0, k)
        }
    }
}

/// A program that the kernel accepts. It answers [`NUMBER`] with 12 bits of what it computes.
fn random_program(dice: &mut Dice) -> Vec<Insn> {
    let mut program = alloc::vec![
        load(0),
        equal(NUMBER, 1, 0),
        ret(action::ALLOW),
        immediate(dice.number()),
    ];
    program.extend((0..16).map(|word| insn(0x02, 0, 0, word)));
    let len = 1 + dice.below(40);
    for left in (1..=len).rev() {
        program.push(match dice.below(12) {
            0 => ret(action::ERRNO | dice.below(4096) as u32),
            _ => random_insn(dice, left),
        });
    }
    program.extend([
        insn(0x74, 0, 0, 4 * dice.below(6) as u32),
        insn(0x54, 0, 0, 0xfff),
        insn(0x44, 0, 0, action::ERRNO),
        insn(0x16, 0, 0, 0),
    ]);
    program
}

/// The kernel's answers to the calls under the filters, newest last; `None`: the calling process
/// was killed. `results` is shared with the child.
fn ask_kernel(filters: &[Vec<Insn>], calls: &[[u64; 6]], results: *mut i64) -> Vec<Option<i64>> {
    // SAFETY: the child makes system calls only, and writes to memory that is shared.
    unsafe {
        let child = sys::raw::syscall(sys::nr::FORK, [0; 6]);
        if child == 0 {
            let option = sys::PR_SET_NO_NEW_PRIVS as usize;
            sys::raw::syscall(sys::nr::PRCTL, [option, 1, 0, 0, 0, 0]);
            for filter in filters {
                let given = (filter.len() as u64, filter.as_ptr() as u64);
                let at = &raw const given as usize;
                if sys::raw::syscall(sys::nr::SECCOMP, [1, 0, at, 0, 0, 0]) != 0 {
                    sys::exit_group(9);
                }
            }
            for (index, args) in calls.iter().enumerate() {
                results.add(index).write_volatile(MADE);
                let args = args.map(|arg| arg as usize);
                let result = sys::raw::syscall(NUMBER as usize, args);
                results.add(index).write_volatile(result as i64);
            }
            sys::exit_group(0);
        }
        assert!(child > 0, "fork: {child}");
        let mut status = 0i32;
        let wait = [child as usize, &raw mut status as usize, 0, 0, 0, 0];
        assert_eq!(sys::raw::syscall(sys::nr::WAIT4, wait), child);
        assert_ne!(status, 9 << 8, "the kernel takes the filter");
        (0..calls.len())
            .map(|index| Some(results.add(index).read_volatile()))
            .map(|result| result.filter(|&result| result != MADE))
            .collect()
    }
}

fn shared_page() -> *mut i64 {
    let flags = sys::MAP_SHARED | sys::MAP_ANONYMOUS;
    // SAFETY: a new mapping.
    let page = unsafe { sys::mmap(0, 4096, sys::PROT_READ | sys::PROT_WRITE, flags, -1, 0) };
    page.expect("a page is free") as *mut i64
}

/// The result of a call for a verdict; `None`: the process is killed.
fn returned(verdict: u32) -> Option<i64> {
    match verdict & action::FULL {
        action::ERRNO => Some(-i64::from((verdict & 0xffff).min(4095))),
        action::ALLOW => Some(-38),
        action::KILL_THREAD => None,
        other => panic!("no verdict of these programs: {other:#x}"),
    }
}

fn data(args: [u64; 6]) -> Data {
    Data {
        number: NUMBER,
        arch: ARCH_X86_64,
        address: sys::gate::CALL.load(Ordering::Relaxed) as u64 + 2,
        args,
    }
}

#[test]
fn programs_say_what_the_kernel_says() {
    let page = shared_page();
    for seed in 1..=PROGRAMS {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // The kernel's filter is the program as it is, once, and then with one before it.
        let count = 1 + dice.below(2);
        let filters: Vec<Vec<Insn>> = (0..count).map(|_| random_program(&mut dice)).collect();
        let calls: Vec<[u64; 6]> = (0..CALLS)
            .map(|_| [(); 6].map(|()| u64::from(dice.number()) << 32 | u64::from(dice.number())))
            .collect();
        let found = ask_kernel(&filters, &calls, page);
        let mut known = None;
        for program in &filters {
            known = Some(Filter::add(known, program.clone()));
        }
        let known = known.expect("one at least");
        for (&args, found) in calls.iter().zip(found) {
            let expected = returned(known.verdict(&data(args)));
            assert_eq!(
                found, expected,
                "seed {seed}, arguments {args:x?}, {filters:x?}"
            );
            if expected.is_none() {
                break;
            }
        }
    }
}

/// With the prologue a filter says what it says without, but for what comes through the gate.
#[test]
fn the_prologue_changes_nothing_else() {
    for seed in 1..=PROGRAMS {
        let mut dice = Dice(seed);
        let program = random_program(&mut dice);
        let plain = Filter::add(None, program.clone());
        let whole = Filter::add(None, [&prologue()[..], &program].concat());
        let call = Data {
            address: dice.roll() >> 16,
            ..data([(); 6].map(|()| dice.roll()))
        };
        assert_eq!(whole.verdict(&call), plain.verdict(&call), "seed {seed}");
        let inside = Data {
            address: sys::gate::page() + 2,
            ..call
        };
        assert_eq!(whole.verdict(&inside), action::ALLOW);
    }
}

#[test]
fn the_gate_can_be_made_under_any_filter() {
    let kills = Filter::add(None, for_kernel(&[ret(action::KILL_THREAD)]));
    let mut call = data([sys::gate::PAGE, 4096, 7, 0, 0, 0]);
    assert_eq!(kills.verdict(&call), action::ALLOW, "from the gate");
    call.address = 0x1234_5678;
    assert_eq!(kills.verdict(&call), action::KILL_THREAD);
    call.number = sys::nr::MMAP as u32;
    assert_eq!(kills.verdict(&call), action::ALLOW, "the gate itself");
    for other in [
        Data {
            arch: 0x4000_0003,
            ..call
        },
        Data { number: 10, ..call },
        data([sys::gate::PAGE + 4096, 4096, 7, 0, 0, 0]),
        data([sys::gate::PAGE | 1 << 32, 4096, 7, 0, 0, 0]),
    ] {
        let other = Data {
            address: 0x1234_5678,
            ..other
        };
        assert_eq!(kills.verdict(&other), action::KILL_THREAD, "{other:x?}");
    }
}

#[test]
fn strict_allows_four_calls() {
    let filter = Filter::add(None, strict());
    for number in 0..600 {
        let call = Data {
            number,
            ..data([0; 6])
        };
        let allowed = [0, 1, 15, 60].contains(&number);
        let expected = if allowed { action::ALLOW } else { action::TRAP };
        assert_eq!(filter.verdict(&call), expected, "{number}");
        let foreign = Data {
            arch: 0x4000_0003,
            ..call
        };
        assert_eq!(filter.verdict(&foreign), action::TRAP);
    }
}

#[test]
fn filters_that_look_at_addresses_are_known() {
    let plain = Filter::add(None, alloc::vec![load(0), ret(action::ALLOW)]);
    assert!(!plain.by_address && !plain.wants_all());
    let looks = Filter::add(Some(plain), alloc::vec![load(12), ret(action::ALLOW)]);
    assert!(looks.by_address && looks.wants_all());
    assert!(Filter::add(Some(looks), alloc::vec![ret(action::ALLOW)]).by_address);
    let kills = Filter::add(None, alloc::vec![load(0), ret(action::KILL_THREAD)]);
    assert!(!kills.by_address && kills.wants_all());
}
