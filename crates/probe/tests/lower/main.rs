//! Code of probes, executed: it does what the ops say, and changes nothing that is live.
//!
//! The oracle is [`expected`], which does what ops say to memory, one after the other. All sets of flags are tried, with each
//! register that the code likes to use live or dead.

mod machine;

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use isa::{Flags, Reg, RegisterSet};
use machine::{
    AREA, CALLED, FLAGS, FULL, Machine, OTHER, ROUTINE, Registers, STACK, State, TALLY, WATCHED,
    WENT,
};
use probe::{
    Byte, Exit, FRONT, Forecast, Item, Lane, NoScratch, Offsets, Op, Site, Spill, Tables, Tallied,
    Test, Value, Word, entry_stub, lower, size, stub_size,
};

/// Words of the area: counters, bytes, cursors of lanes, words for registers.
const COUNTERS: [u32; 3] = [128, 136, 144];
const MARKS: [u32; 2] = [192, 201];
const CURSORS: [u32; 2] = [256, 264];
const SPILLS: [Word; 2] = [Word(320), Word(328)];
/// Ends of the lanes, with room in front and behind.
const LANES: [u32; 2] = [392, 472];
/// Bytes in front.
const FREE: u64 = 40;
/// The first pair of a table of values.
const TABLE: u32 = 512;

/// The top record's place, and two records: the level, a value, and the record below.
const TOP: Word = Word(552);
const RECORDS: [u32; 2] = [560, 592];
const OFFSETS: Offsets = Offsets {
    level: 0,
    value: 8,
    below: 16,
};

/// The number, the site and the top record of contexts (`wire::contexts`), and two records.
const STATE: [u32; 3] = [4096, 4104, 4112];
const CONTEXTS: [u32; 2] = [4096 + 64, 4096 + 128];
const BYTES: u32 = 64;

/// The word of the context of the last call, and its entry: words, and the address of its counter.
const LAST: u32 = 624;
const ENTRY: u32 = 640;
const FUNCTION: u32 = 16;
/// The words of a forecast: the number, the step, and what makes 0 of the address.
const NUMBER: u32 = 680;

/// Bits of [`Flags`] by those of the processor.
const FLAG_BITS: [(u64, u8); 6] = [
    (0x800, 1),
    (0x80, 2),
    (0x40, 4),
    (0x10, 8),
    (1, 16),
    (4, 32),
];

/// Sets of general registers: each that the code likes to use, live or not, with all others live or not.
fn sets_of_registers() -> impl Iterator<Item = u16> {
    let liked = [Reg::Rax, Reg::Rcx, Reg::Rdx, Reg::R11, Reg::R15];
    (0..1u16 << liked.len()).flat_map(move |chosen| {
        let bits = liked.iter().enumerate();
        let bits = bits.filter(move |(at, _)| chosen >> at & 1 != 0);
        let set = bits.fold(0, |set, (_, register)| set | 1u16 << *register as u8);
        let all = liked
            .iter()
            .fold(0, |set, register| set | 1u16 << *register as u8);
        [set | 1 << Reg::Rsp as u8, set | !all]
    })
}

fn site(general: u16, flags: u8, spill: Spill) -> Site {
    Site {
        live: RegisterSet {
            general,
            flags: Flags(flags),
            ..RegisterSet::ALL
        },
        spill,
    }
}

fn word(area: &[u8], at: u32) -> u64 {
    let word = area[at as usize..].first_chunk();
    u64::from_le_bytes(*word.expect("a word"))
}

fn set(area: &mut [u8], at: u32, value: u64) {
    area[at as usize..][..8].copy_from_slice(&value.to_le_bytes());
}

/// Memory and registers of a run, by chance.
fn state(u: &mut Unstructured<'_>, machine: &Machine) -> Result<State> {
    let mut area = u.bytes(AREA)?.to_vec();
    for at in CURSORS {
        set(&mut area, at, u.int_in_range(0..=FREE)?.wrapping_neg());
    }
    for at in [CALLED, WENT] {
        area[at as usize] = 0;
    }
    for at in MARKS {
        area[at as usize] = u8::from(u.arbitrary::<bool>()?);
    }
    if u.arbitrary()? {
        set(&mut area, 0, machine::thread_pointer());
    }
    let mut general: [u64; 16] = u.arbitrary()?;
    general[Reg::Rsp as usize] = machine.stack_pointer();
    // Addresses of values that are counted.
    general[Reg::Rbx as usize] = machine.area(COUNTERS[0]);
    general[Reg::R9 as usize] = u.int_in_range(0..=1)?;
    let top = u64::from(*u.choose(&RECORDS)?);
    set(&mut area, TOP.0, top);
    set(&mut area, RECORDS[0], u64::MAX);
    let level = machine.stack_pointer() + *u.choose(&[0, 8, 16])? - 8;
    set(&mut area, RECORDS[1], level);
    set(&mut area, RECORDS[1] + 16, RECORDS[0].into());
    let top = *u.choose(&CONTEXTS)?;
    set(&mut area, STATE[2], top.into());
    let level = machine.stack_pointer() + *u.choose(&[0, 8, 16, 64])? - 8;
    set(&mut area, top, level);
    if u.arbitrary()? {
        general[Reg::Rdx as usize] = machine.stack_pointer() + 8;
    }
    let last = [0, machine.area(ENTRY)];
    set(&mut area, LAST, *u.choose(&last)?);
    let words = [
        FUNCTION.into(),
        word(&area, STATE[0]),
        word(&area, top + 24) as u32 as u64,
    ];
    for (at, own) in (0..).zip(words) {
        let other = u.int_in_range(0..=15)? == 0;
        set(&mut area, ENTRY + 8 * at, own ^ u64::from(other));
    }
    set(&mut area, ENTRY + 24, machine.area(COUNTERS[1]));
    let [number, step]: [u64; 2] = u.arbitrary()?;
    let addresses = [
        general[Reg::Rbx as usize] + 8 * general[Reg::R9 as usize] - 8,
        4 * general[Reg::R9 as usize],
        machine::thread_pointer() + 32,
        1,
    ];
    let less = number
        .wrapping_mul(step)
        .wrapping_add(*u.choose(&addresses)?);
    set(&mut area, NUMBER, number);
    set(&mut area, NUMBER + 8, step);
    set(&mut area, NUMBER + 16, less.wrapping_neg());
    let watched = u.int_in_range(0..=1)?;
    let known = [
        general[Reg::Rax as usize],
        word(&area, COUNTERS[0] + 8 * general[Reg::R9 as usize] as u32),
        machine::thread_pointer(),
        watched.into(),
    ];
    set(&mut area, TABLE, *u.choose(&known)?);
    Ok(State {
        registers: Registers {
            general,
            flags: u.arbitrary::<u64>()? & FLAGS,
        },
        area,
        stack: u.bytes(STACK)?.to_vec(),
        watched,
    })
}

/// Whether a test holds.
fn holds(test: Test, state: &State) -> bool {
    match test {
        Test::IsZero(symbol) => {
            assert_eq!(symbol, WATCHED);
            state.watched == 0
        }
        Test::IsSet(byte) => state.area[byte.0 as usize] != 0,
        Test::IsBelow(byte, limit) => state.area[byte.0 as usize] < limit,
        Test::IsOtherThread => word(&state.area, 0) != machine::thread_pointer(),
    }
}

/// The memory at `%gs` after ops.
fn expected(ops: &[Op], before: &State) -> Vec<u8> {
    let mut state = before.clone();
    let mut general = before.registers.general;
    let mut rest = ops;
    while let [op, behind @ ..] = rest {
        rest = behind;
        match *op {
            Op::Add { word: at, amount } => {
                let sum = word(&state.area, at.0).wrapping_add_signed(amount.into());
                set(&mut state.area, at.0, sum);
            }
            Op::Set { byte } => state.area[byte.0 as usize] = 1,
            Op::Bump { byte } => {
                let byte = &mut state.area[byte.0 as usize];
                *byte = byte.wrapping_add(1);
            }
            Op::Append { lane, item } => {
                let number = CURSORS.iter().position(|at| *at == lane.cursor.0);
                let number = number.expect("a lane");
                let mut cursor = word(&state.area, lane.cursor.0);
                let goes_on =
                    |next: &&Op| matches!(next, Op::Append { lane: own, .. } if *own == lane);
                // More than a byte stands behind one that is free.
                let done = &ops[..ops.len() - rest.len() - 1];
                let is_first = !done.last().is_some_and(|op| goes_on(&op));
                let is_alone = !rest.first().is_some_and(|op| goes_on(&op));
                if is_first && !(is_alone && item.size() == 1) {
                    cursor = cursor.wrapping_add(1);
                }
                let at = u64::from(LANES[number]).wrapping_add(cursor) as usize;
                let bytes = match item {
                    Item::Imm8(value) => u64::from(value),
                    Item::Imm16(value) => value.into(),
                    Item::Imm32(value) => value.into(),
                    item => item
                        .register()
                        .map_or(0, |register| general[register as usize]),
                };
                let size = item.size() as usize;
                state.area[at..at + size].copy_from_slice(&bytes.to_le_bytes()[..size]);
                let cursor = cursor.wrapping_add(size as u64);
                set(&mut state.area, lane.cursor.0, cursor);
                if is_alone && cursor.cast_signed() >= 0 {
                    state.area[CALLED as usize] = 1;
                }
            }
            Op::Here { word: at, value } => {
                let stack = general[Reg::Rsp as usize] & u64::from(u32::MAX);
                set(&mut state.area, at.0, stack | u64::from(value) << 32);
            }
            Op::Tell { .. } | Op::Look { .. } => state.area[CALLED as usize] = 1,
            Op::Again { byte, word: at, .. } => match state.area[byte.0 as usize] {
                0 => state.area[CALLED as usize] = 1,
                _ => {
                    let sum = word(&state.area, at.0).wrapping_add(1);
                    set(&mut state.area, at.0, sum);
                }
            },
            Op::Expect {
                value, forecast, ..
            } => {
                let Value::Memory {
                    is_thread,
                    base,
                    index,
                    displacement,
                } = value
                else {
                    panic!("an address");
                };
                let register = |register: Reg| general[register as usize];
                let of = |at: Word| word(&state.area, at.0);
                let mut sum = of(forecast.number).wrapping_mul(of(forecast.step));
                sum = sum.wrapping_add(of(forecast.less));
                sum = sum.wrapping_add(base.map_or(0, register));
                let index = index.map_or(0, |(index, scale)| {
                    register(index).wrapping_mul(scale.into())
                });
                sum = sum
                    .wrapping_add(index)
                    .wrapping_add_signed(displacement.into());
                if is_thread {
                    sum = sum.wrapping_add(machine::thread_pointer());
                }
                match sum {
                    0 => {
                        let count = of(forecast.counts[0]).wrapping_add(1);
                        set(&mut state.area, forecast.counts[0].0, count);
                    }
                    _ if state.area[forecast.is_made.0 as usize] != 0 => {
                        let count = of(forecast.counts[1]).wrapping_add(1);
                        set(&mut state.area, forecast.counts[1].0, count);
                    }
                    _ => state.area[CALLED as usize] = 1,
                }
            }
            Op::Put {
                facts: [entry, by, kind, _],
                ..
            } => {
                let stack = general[Reg::Rsp as usize];
                let top = word(&state.area, STATE[2]) as u32;
                let is_slow = stack + 8 == before.registers.general[Reg::Rdx as usize]
                    || word(&state.area, top) <= stack;
                if is_slow {
                    state.area[CALLED as usize] = 1;
                    continue;
                }
                let new = top + BYTES;
                let [number, site] = [STATE[0], STATE[1]].map(|at| word(&state.area, at));
                set(&mut state.area, new, stack);
                set(&mut state.area, new + 8, number);
                set(&mut state.area, new + 16, site);
                let both = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
                set(&mut state.area, new + 48, both(entry, by));
                set(&mut state.area, new + 56, both(top, kind));
                set(&mut state.area, STATE[2], new.into());
            }
            Op::Count {
                facts: [function, _, last, _],
                ..
            } => {
                let top = word(&state.area, STATE[2]) as u32;
                let [known, number, node] = [0, 8, 16].map(|at| word(&state.area, ENTRY + at));
                let is_it = word(&state.area, last) != 0
                    && known as u32 == function
                    && number == word(&state.area, STATE[0])
                    && word(&state.area, top) >= general[Reg::Rsp as usize]
                    && node == u64::from(word(&state.area, top + 24) as u32);
                match is_it {
                    true => {
                        let calls = word(&state.area, COUNTERS[1]).wrapping_add(1);
                        set(&mut state.area, COUNTERS[1], calls);
                    }
                    false => state.area[CALLED as usize] = 1,
                }
            }
            Op::Unwind {
                top,
                record,
                word: at,
            } => {
                let mut own = word(&state.area, top.0);
                let of = |own: u64, offset: i32| (own as u32).wrapping_add_signed(offset);
                while word(&state.area, of(own, record.level)) < general[Reg::Rsp as usize] {
                    own = word(&state.area, of(own, record.below)) & u64::from(u32::MAX);
                }
                set(&mut state.area, top.0, own);
                let value = word(&state.area, of(own, record.value));
                set(&mut state.area, at.0, value);
            }
            Op::Let { register, value } => general[register as usize] = value.into(),
            Op::Sum { register, amount } => {
                let sum = &mut general[register as usize];
                *sum = sum.wrapping_add_signed(amount.into());
            }
            Op::Jump { .. } => {
                state.area[WENT as usize] = 1;
                break;
            }
            Op::Call { .. } => state.area[CALLED as usize] = 1,
            Op::Tally { value, .. } => {
                let value = match value {
                    Value::Register(register) => before.registers.general[register as usize],
                    Value::Memory {
                        is_thread: true, ..
                    } => machine::thread_pointer(),
                    // It is at rbx + 8 * r9.
                    Value::Memory { .. } => {
                        let index = before.registers.general[Reg::R9 as usize] as u32;
                        word(&state.area, COUNTERS[0] + 8 * index)
                    }
                    Value::At(_) => before.watched.into(),
                };
                match word(&state.area, TABLE) == value {
                    true => {
                        let count = word(&state.area, TABLE + 8).wrapping_add(1);
                        set(&mut state.area, TABLE + 8, count);
                    }
                    false => state.area[CALLED as usize] = 1,
                }
            }
            Op::Guard { test, exit } => match (holds(test, &state), exit) {
                (false, _) => {}
                (true, Exit::Routine(_)) => state.area[CALLED as usize] = 1,
                (true, Exit::To(_)) => {
                    state.area[WENT as usize] = 1;
                    break;
                }
            },
        }
    }
    state.area
}

/// Compares what is left of a run with what was live.
fn assert_kept(before: &State, after: &State, site: &Site, what: &dyn Fn() -> String) {
    for register in Reg::ALL {
        let at = register as usize;
        if site.live.general >> at & 1 != 0 || register == Reg::Rsp {
            let (before, after) = (before.registers.general[at], after.registers.general[at]);
            assert_eq!(after, before, "{register:?} of {}", what());
        }
    }
    for (bit, flag) in FLAG_BITS {
        if site.live.flags.0 & flag != 0 {
            let (before, after) = (before.registers.flags & bit, after.registers.flags & bit);
            assert_eq!(after, before, "flag {bit:#x} of {}", what());
        }
    }
    assert_eq!(after.stack, before.stack, "{}", what());
}

/// Lowers ops, executes them, and compares; whether there was a register for them.
fn check(u: &mut Unstructured<'_>, machine: &mut Machine, ops: &[Op], site: &Site) -> Result<bool> {
    let what = || format!("{ops:x?} at {site:x?}");
    let mut lowered = Ok(());
    let written = machine.write(|out| lowered = lower(ops, site, out));
    assert_eq!(size(ops, site), lowered.map(|()| written), "{}", what());
    if lowered == Err(NoScratch) {
        return Ok(false);
    }
    let before = state(u, machine)?;
    let after = machine.run(&before, 0);
    let mut area = expected(ops, &before);
    let mut own = after.area.clone();
    if let Spill::Words(words) = site.spill {
        for spilled in words {
            set(&mut area, spilled.0, 0);
            set(&mut own, spilled.0, 0);
        }
    }
    assert!(own == area, "memory of {}", what());
    assert_kept(&before, &after, site, &what);
    Ok(true)
}

fn lanes() -> [Lane; 2] {
    [0, 1].map(|number| Lane {
        cursor: Word(CURSORS[number]),
        end: LANES[number].cast_signed(),
        routine: FULL,
    })
}

const TESTS: [Test; 4] = [
    Test::IsZero(WATCHED),
    Test::IsSet(Byte(MARKS[1])),
    Test::IsOtherThread,
    Test::IsBelow(Byte(MARKS[1]), 1),
];

/// Counts of values: in a register, in memory by registers, in memory of the thread, at an address.
fn tallies(machine: &Machine) -> [Op; 4] {
    let memory = |is_thread, base, index, displacement| Value::Memory {
        is_thread,
        base,
        index,
        displacement,
    };
    let values = [
        Value::Register(Reg::Rax),
        memory(false, Some(Reg::Rbx), Some((Reg::R9, 8)), 0),
        memory(true, None, None, 0),
        Value::At(machine.address(WATCHED)),
    ];
    values.map(|value| Op::Tally {
        value,
        tables: Tables {
            own: Word(TABLE),
            number: 5,
            shared: Word(0x0001_2340),
            bits: 7,
        },
        routine: TALLY,
    })
}

fn op(u: &mut Unstructured<'_>, machine: &Machine) -> Result<Op> {
    // They go on at a distance that their first fact says.
    Ok(match u.int_in_range(0..=18)? {
        18 => *u.choose(&forecasts())?,
        17 => AGAIN,
        16 => LOOK,
        15 => Op::Count {
            routine: TALLY,
            facts: [FUNCTION, 1, LAST, 0],
        },
        14 => Op::Put {
            routine: TALLY,
            facts: [16, 7, 3, 0],
        },
        13 => Op::Tell {
            routine: TALLY,
            facts: [16, 1, 2, 3],
        },
        12 => HERE,
        11 => UNWIND,
        10 => Op::Call { routine: ROUTINE },
        9 => Op::Bump {
            byte: Byte(*u.choose(&MARKS)?),
        },
        8 => *u.choose(&tallies(machine))?,
        0 => Op::Jump { to: OTHER },
        1 | 2 => Op::Add {
            word: Word(*u.choose(&COUNTERS)?),
            amount: *u.choose(&[1, 1, -1, 7, -300, i32::MAX])?,
        },
        3 => Op::Set {
            byte: Byte(*u.choose(&MARKS)?),
        },
        4 | 5 => Op::Append {
            lane: *u.choose(&lanes())?,
            item: match u.int_in_range(0..=6)? {
                6 => Item::Low16(*u.choose(&Reg::ALL)?),
                5 => Item::Low32(*u.choose(&Reg::ALL)?),
                4 => Item::Imm16(u.arbitrary()?),
                0 => Item::Imm8(u.arbitrary()?),
                1 => Item::Low(*u.choose(&Reg::ALL)?),
                2 => Item::Imm32(u.arbitrary()?),
                _ => Item::Register(*u.choose(&Reg::ALL)?),
            },
        },
        _ => Op::Guard {
            test: *u.choose(&TESTS)?,
            exit: *u.choose(&[Exit::Routine(ROUTINE), Exit::To(OTHER)])?,
        },
    })
}

const HERE: Op = Op::Here {
    word: Word(COUNTERS[2]),
    value: 0x8765_4321,
};
const AGAIN: Op = Op::Again {
    byte: Byte(MARKS[0]),
    word: Word(COUNTERS[2]),
    routine: TALLY,
    facts: [16, 1, 2, 3],
};

/// Addresses that are forecast: of two registers, of an index alone, and of the thread.
fn forecasts() -> [Op; 3] {
    let memory = |is_thread, base, index, displacement| Op::Expect {
        value: Value::Memory {
            is_thread,
            base,
            index,
            displacement,
        },
        forecast: Forecast {
            number: Word(NUMBER),
            step: Word(NUMBER + 8),
            less: Word(NUMBER + 16),
            is_made: Byte(MARKS[0]),
            counts: [Word(COUNTERS[2]), Word(COUNTERS[1])],
        },
        routine: TALLY,
        facts: [16, 1, 2, 3],
    };
    [
        memory(false, Some(Reg::Rbx), Some((Reg::R9, 8)), -8),
        memory(false, None, Some((Reg::R9, 4)), 0),
        memory(true, None, None, 32),
    ]
}

const LOOK: Op = Op::Look {
    routine: TALLY,
    facts: [16, 1, 2, 3],
};
const UNWIND: Op = Op::Unwind {
    top: TOP,
    record: OFFSETS,
    word: Word(COUNTERS[2]),
};

const SPILLS_TRIED: [Spill; 3] = [Spill::Never, Spill::Words(SPILLS), Spill::RedZone];

/// Each op by itself, for all sets of flags, with each set of registers.
#[test]
fn single_ops_keep_what_is_live() {
    let lanes = lanes();
    let add = |amount| Op::Add {
        word: Word(COUNTERS[0]),
        amount,
    };
    let append = |lane, item| Op::Append { lane, item };
    let guard = |test, exit| Op::Guard { test, exit };
    let ops = [
        add(1),
        add(-1),
        add(1000),
        Op::Set {
            byte: Byte(MARKS[0]),
        },
        Op::Bump {
            byte: Byte(MARKS[1]),
        },
        append(lanes[0], Item::Imm8(3)),
        append(lanes[0], Item::Register(Reg::Rcx)),
        append(lanes[1], Item::Imm32(5)),
        append(lanes[1], Item::Register(Reg::R12)),
        guard(TESTS[0], Exit::Routine(ROUTINE)),
        guard(TESTS[1], Exit::To(OTHER)),
        guard(TESTS[2], Exit::Routine(ROUTINE)),
        guard(TESTS[2], Exit::To(OTHER)),
        guard(TESTS[3], Exit::To(OTHER)),
        LOOK,
        AGAIN,
        Op::Jump { to: OTHER },
        Op::Call { routine: ROUTINE },
        HERE,
        UNWIND,
    ];
    let mut machine = Machine::new();
    // Deterministic numbers: the same in each run.
    let bytes: Vec<u8> = (0..1u32 << 16)
        .map(|at| (at.wrapping_mul(0x9e37_79b9) >> 21) as u8)
        .collect();
    let mut executed = [0; 3];
    for (turn, general) in sets_of_registers().enumerate() {
        for flags in 0..64 {
            for op in ops {
                for (at, spill) in SPILLS_TRIED.into_iter().enumerate() {
                    let mut u =
                        Unstructured::new(&bytes[(turn * 64 + flags as usize) * 13 % 4096..]);
                    let site = site(general, flags, spill);
                    let done = check(&mut u, &mut machine, &[op], &site).expect("enough numbers");
                    executed[at] += usize::from(done);
                }
            }
        }
    }
    // With places for registers there is always code.
    assert_eq!(executed[1], 64 * 64 * ops.len());
    assert_eq!(executed[2], 64 * 64 * ops.len());
    assert!(executed[0] > executed[1] / 2 && executed[0] < executed[1]);
}

/// Several ops, by chance.
#[test]
fn neighbours_share_what_they_keep() {
    let mut machine = Machine::new();
    arbtest(|u| {
        let count = u.int_in_range(1..=5)?;
        let ops = (0..count)
            .map(|_| op(u, &machine))
            .collect::<Result<Vec<Op>>>()?;
        let site = site(
            u.arbitrary::<u16>()? | u.arbitrary::<u16>()?,
            u.int_in_range(0..=63)?,
            *u.choose(&SPILLS_TRIED)?,
        );
        check(u, &mut machine, &ops, &site).map(|_| ())
    })
    .size_min(1 << 14)
    .size_max(1 << 14)
    .budget_ms(2000);
}

/// A sum of constants in a register is appended; flags and all other registers may be live.
#[test]
fn sums_are_appended() {
    let mut machine = Machine::new();
    arbtest(|u| {
        let register = *u.choose(&Reg::ALL)?;
        let amounts: [i32; 2] = u.arbitrary()?;
        let append = |item| Op::Append {
            lane: lanes()[0],
            item,
        };
        let ops = [
            Op::Let {
                register,
                value: u.arbitrary()?,
            },
            Op::Sum {
                register,
                amount: amounts[0],
            },
            append(Item::Low(register)),
            Op::Sum {
                register,
                amount: amounts[1],
            },
            append(Item::Register(register)),
        ];
        if register == Reg::Rsp {
            return Ok(());
        }
        let live = u.arbitrary::<u16>()? & !(1 << register as u8);
        let flags = *u.choose(&[0, 0, 63])?;
        let done = check(u, &mut machine, &ops, &site(live, flags, Spill::Never))?;
        // The register, one for the cursor, and two if flags are kept.
        let free = (!live & !(1 << Reg::Rsp as u8)).count_ones();
        assert!(done || free < if flags == 0 { 2 } else { 4 });
        Ok(())
    })
    .size_min(1 << 14)
    .size_max(1 << 14)
    .budget_ms(1000);
}

/// Values are counted where r11 and flags are free, and only there.
#[test]
fn values_are_counted() {
    let mut machine = Machine::new();
    let tallies = tallies(&machine);
    let r11 = 1u16 << Reg::R11 as u8;
    arbtest(|u| {
        let op = *u.choose(&tallies)?;
        let flags = *u.choose(&[0, 0, 63])?;
        let general = u.arbitrary::<u16>()? & if u.arbitrary()? { !0 } else { !r11 };
        let spill = *u.choose(&SPILLS_TRIED)?;
        let done = check(u, &mut machine, &[op], &site(general, flags, spill))?;
        assert_eq!(done, flags == 0 && general & r11 == 0);
        Ok(())
    })
    .size_min(1 << 14)
    .size_max(1 << 14)
    .budget_ms(1000);
    // The routine finds how the value is addressed.
    let mut facts = Vec::new();
    machine.write(|out| {
        let free = site(0, 0, Spill::Never);
        lower(&tallies[1..2], &free, out).expect("registers are dead");
        facts.push(out.asm.len());
    });
    let code = machine.code(facts[0]);
    let facts = &code[code.len() - Tallied::BYTES as usize - 9..][..Tallied::BYTES as usize];
    let words = [33u32, TABLE, 0].map(u32::to_le_bytes).concat();
    assert_eq!(facts[..12], words);
    assert_eq!(facts[12..16], [Reg::Rbx as u8, Reg::R9 as u8, 3, 7]);
    assert_eq!(
        facts[16..],
        [0x0001_2340u32, 5].map(u32::to_le_bytes).concat()
    );
}

#[test]
fn entry_stubs_call_their_routine_where_a_test_holds() {
    let mut machine = Machine::new();
    arbtest(|u| {
        let count = u.int_in_range(0..=3)?;
        let tests = &TESTS[..count];
        let r11 = 1u16 << Reg::R11 as u8;
        let live = if u.arbitrary()? { !0 } else { !r11 };
        let site = site(live, 0, Spill::RedZone);
        let function = *u.choose(&[true, false])?;
        let append = |item| Op::Append {
            lane: lanes()[0],
            item,
        };
        let ops = [append(Item::Imm8(7)), append(Item::Imm32(u.arbitrary()?))];
        let ops = &ops[..*u.choose(&[0, 2])?];
        // The function is behind it, or elsewhere.
        let size = stub_size(tests, ops).expect("a register");
        machine.write(|out| {
            let behind = probe::Symbol(9);
            let here = out.asm.here();
            let address = out.address;
            let known = move |symbol| {
                if symbol == behind {
                    here + size
                } else {
                    address(symbol)
                }
            };
            let mut own = probe::Placed {
                asm: std::mem::replace(&mut out.asm, isa::Asm::new(&mut [], 0)),
                address: known,
            };
            let function = if function { behind } else { OTHER };
            let stub = entry_stub((tests, ops), ROUTINE, function, &site, &mut own);
            stub.expect("it has all registers");
            assert_eq!(own.asm.len() as u64, size);
            out.asm = own.asm;
        });
        let before = state(u, &machine)?;
        for entered in [FRONT, 0] {
            let after = machine.run(&before, entered);
            let mut area = expected(ops, &before);
            // From its first byte on it goes to the routine; where r11 is kept, that is so behind the first bytes only.
            if entered == 0 && live & r11 != 0 {
                continue;
            }
            let called = entered == 0 || tests.iter().any(|test| holds(*test, &before));
            area[CALLED as usize] |= u8::from(called);
            area[WENT as usize] = u8::from(!function);
            assert!(after.area == area, "{tests:?}");
            assert_kept(&before, &after, &site, &|| format!("{tests:?}"));
        }
        Ok(())
    })
    .size_min(1 << 14)
    .size_max(1 << 14)
    .budget_ms(1000);
}

#[test]
fn the_usual_probe_is_one_instruction() {
    let add = |word| Op::Add {
        word: Word(word),
        amount: 1,
    };
    let free = site(0, 16, Spill::Never);
    let mut machine = Machine::new();
    let mut code = Vec::new();
    machine.write(|out| {
        lower(&[add(0x1008)], &free, out).expect("registers are dead");
        code = vec![out.asm.len()];
    });
    // incq %gs:0x1008, as the carry stays.
    assert_eq!(code, [9]);
    // Flags are kept once for both.
    let kept = site(!1, 63, Spill::Never);
    assert_eq!(size(&[add(8), add(16)], &kept), Ok(4 + 2 * 9 + 3));
    // Sums are one.
    assert_eq!(size(&[add(8), add(8)], &site(0, 0, Spill::Never)), Ok(10));
    assert_eq!(size(&[add(8)], &site(!0, 63, Spill::Never)), Err(NoScratch));
    // The value of rax is kept, though it is dead: it is appended.
    let append = Op::Append {
        lane: lanes()[0],
        item: Item::Register(Reg::Rax),
    };
    assert!(size(&[add(8), append], &site(0, 63, Spill::Never)).is_ok());
    // A byte, its place, and the look at the room.
    let append = Op::Append {
        lane: lanes()[0],
        item: Item::Imm8(5),
    };
    let code = [9, 8, 9, 2, 7, 5];
    assert_eq!(
        size(&[append], &site(0, 0, Spill::Never)),
        Ok(code.iter().sum())
    );
}
