//! Descriptors of predictors lose nothing: random programs that run at random, with signals and
//! code that changes, come out as they went in. And any descriptors with any code do no harm.

use analysis::raptor::{
    Config, Decoder, Descriptor, ENTER, Encoder, Exceptions, OUTCOMES, Overflow, TARGETS,
};
use analysis::walk::{Branch, Item, Kind, Pieces, Why};
use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use trace::{Fragment, Piece, Process};

/// Address, length, and what branch it is.
type Insn = (u64, u64, Option<(Kind, u64)>);

/// A straight piece of code.
#[derive(Clone, Debug)]
struct Block {
    fragment: u32,
    insns: Vec<Insn>,
    code: Vec<u8>,
    /// Bias of its conditional branch, in sixteenths.
    bias: u8,
}

const SPACE: u64 = 64;
const BASE: u64 = 0x10000;

impl Block {
    fn start(&self) -> u64 {
        self.insns[0].0
    }

    fn insn(&mut self, bytes: &[u8], kind: Option<(Kind, u64)>) {
        let start = self.insns.first().map_or(0, |first| first.0);
        let pc = start + self.code.len() as u64;
        let pc = if self.insns.is_empty() {
            bytes.len() as u64
        } else {
            pc
        };
        self.insns.push((pc, bytes.len() as u64, kind));
        self.code.extend(bytes);
    }

    /// Some that do nothing, a branch, and a jump in case that control comes behind it.
    fn random(u: &mut Unstructured<'_>, at: u64, number: u64, fragment: u32) -> Result<Block> {
        let mut block = Block {
            fragment,
            insns: Vec::new(),
            code: Vec::new(),
            bias: *u.choose(&[0, 1, 4, 8, 15, 16])?,
        };
        let start = BASE + at * SPACE;
        for _ in 0..u.int_in_range(1..=6)? {
            block.insn(&[0x90], None);
            if block.insns.len() == 1 {
                block.insns[0].0 = start;
            }
        }
        let other = |u: &mut Unstructured<'_>| -> Result<u64> {
            Ok(BASE + u.int_in_range(0..=number - 1)? * SPACE)
        };
        let far = |opcode: &[u8], pc: u64, target: u64| {
            let behind = pc + opcode.len() as u64 + 4;
            let distance = target.wrapping_sub(behind) as u32;
            [opcode, &distance.to_le_bytes()].concat()
        };
        let pc = start + block.code.len() as u64;
        let target = other(u)?;
        match u.int_in_range(0..=7)? {
            0 | 1 => {
                let bytes = far(&[0x0F, 0x84], pc, target);
                block.insn(&bytes, Some((Kind::Conditional, target)));
            }
            2 => {
                let back = (start.wrapping_sub(pc + 2)) as u8;
                block.insn(&[0xE2, back], Some((Kind::Conditional, start)));
            }
            3 => {
                let bytes = far(&[0xE8], pc, target);
                block.insn(&bytes, Some((Kind::Call, target)));
            }
            4 => block.insn(&[0xFF, 0xD0], Some((Kind::IndirectCall, 0))),
            5 => block.insn(&[0xFF, 0xE0], Some((Kind::IndirectJump, 0))),
            6 => block.insn(&[0xC3], Some((Kind::Return, 0))),
            _ => {}
        }
        let pc = start + block.code.len() as u64;
        let target = other(u)?;
        let bytes = far(&[0xE9], pc, target);
        block.insn(&bytes, Some((Kind::Jump, target)));
        Ok(block)
    }

    fn fragment(&self) -> Fragment {
        Fragment {
            id: self.fragment,
            pieces: vec![Piece {
                pc: self.start(),
                len: self.code.len() as u32,
                module: None,
            }],
            code: self.code.clone(),
            ..Fragment::default()
        }
    }
}

/// A program, and one run of it.
fn run(u: &mut Unstructured<'_>) -> Result<(Process, Vec<Item>, u64)> {
    let number = u.int_in_range(1..=12)?;
    let mut blocks = Vec::new();
    for at in 0..number {
        blocks.push(Block::random(u, at, number, 0)?);
    }
    for fragment in 1..=u.int_in_range(0..=4u32)? {
        let at = u.int_in_range(0..=number - 1)?;
        blocks.push(Block::random(u, at, number, fragment)?);
    }
    let process = Process {
        fragments: blocks.iter().map(|block| block.fragment().into()).collect(),
        ..Process::default()
    };
    let block_of = |pc: u64| ((pc - BASE) / SPACE) as usize;
    let mut items = Vec::new();
    let (mut executed, mut stack) = (0u64, Vec::new());
    let to = blocks[0].start();
    let went = |to, number| Item::Went {
        why: Why::Unknown(0),
        to,
        number,
    };
    items.push(went(to, 0));
    let (mut block, mut at) = (0, 0);
    for _ in 0..u.int_in_range(0..=3000)? {
        let is_over = u.is_empty();
        if is_over {
            break;
        }
        if u.ratio(1, 50)? {
            let to = u.int_in_range(0..=number - 1)? as usize;
            let inside = u.int_in_range(0..=blocks[to].insns.len() - 1)?;
            items.push(went(blocks[to].insns[inside].0, executed));
            (block, at) = (to, inside);
            continue;
        }
        let versions = (number as usize..blocks.len())
            .filter(|&other| at == 0 && blocks[other].start() == blocks[block].start());
        let versions: Vec<usize> = versions.collect();
        if !versions.is_empty() && blocks[block].fragment == 0 && u.ratio(1, 3)? {
            block = *u.choose(&versions)?;
            items.push(Item::Entered {
                fragment: Some(blocks[block].fragment),
                to: 0,
                number: executed,
            });
        }
        let (pc, len, kind) = blocks[block].insns[at];
        executed += 1;
        let next = pc + len;
        let Some((kind, direct)) = kind else {
            at += 1;
            continue;
        };
        let (taken, target) = match kind {
            Kind::Conditional => (u.int_in_range(0..=15)? < blocks[block].bias, direct),
            Kind::Jump => (true, direct),
            Kind::Call => (true, direct),
            Kind::Return if !stack.is_empty() && u.ratio(3, 4)? => (true, stack.pop().unwrap_or(0)),
            _ => (true, BASE + u.int_in_range(0..=number.min(3) - 1)? * SPACE),
        };
        if matches!(kind, Kind::Call | Kind::IndirectCall) {
            stack.push(next);
        }
        items.push(Item::Branch(Branch {
            site: 0,
            fragment: blocks[block].fragment,
            pc,
            next,
            kind,
            taken,
            target,
            number: executed,
        }));
        if !taken {
            at += 1;
        } else if target == next && blocks[block].fragment != 0 && !kind.is_indirect() {
            // It is the next of the fragment, too.
            at += 1;
        } else {
            block = block_of(target);
            let inside = blocks[block].insns.iter().position(|insn| insn.0 == target);
            // Behind a call of a version there may be other code now.
            let Some(inside) = inside else {
                let to = blocks[block].start();
                items.push(went(to, executed));
                at = 0;
                continue;
            };
            at = inside;
        }
    }
    Ok((process, items, executed))
}

fn config(u: &mut Unstructured<'_>) -> Result<Config> {
    let entries = [0, 2, 4, 16, 64, 4096];
    Ok(Config {
        exceptions: Exceptions::All,
        outcomes: u.choose(&OUTCOMES)?,
        outcome_entries: *u.choose(&entries)?,
        targets: TARGETS.iter().find(|row| row.decodable).unwrap(),
        target_entries: *u.choose(&entries)?,
        returns: *u.choose(&[0, 1, 2, 5, 32])?,
        overflow: *u.choose(&[Overflow::Circular, Overflow::DropOldest])?,
    })
}

/// The parts of an item that are in the descriptors.
fn plain(item: Item) -> Item {
    match item {
        Item::Branch(branch) => Item::Branch(Branch { site: 0, ..branch }),
        other => other,
    }
}

#[test]
fn what_is_encoded_is_decoded() {
    let mut predicted = 0;
    arbtest(|u| {
        let (process, items, executed) = run(u)?;
        let config = config(u)?;
        let mut encoder = Encoder::new(&config);
        let farthest = *u.choose(&[1, 20, u64::MAX])?;
        if farthest != u64::MAX {
            encoder = encoder.no_farther_than(farthest);
        }
        let mut descriptors: Vec<_> = items.iter().filter_map(|item| encoder.item(item)).collect();
        descriptors.extend(encoder.end(executed));
        let counts = encoder.counts();
        let branches = counts.outcomes + counts.targets;
        predicted += branches - counts.wrong_outcomes - counts.wrong_targets;
        let mut pieces = Pieces::of(&process);
        let mut decoder = Decoder::new(&mut pieces, &config, descriptors.iter().copied());
        let mut decoded = Vec::new();
        for item in &mut decoder {
            decoded.push(item.unwrap_or_else(|error| panic!("{error} behind {decoded:x?}")));
        }
        assert_eq!(decoder.number(), executed);
        let mut decoded: Vec<Item> = decoded.into_iter().map(plain).collect();
        if farthest != u64::MAX {
            // Those that only keep numbers small.
            let mut kept = items.iter().peekable();
            decoded.retain(|item| kept.next_if(|next| *next == item).is_some());
        }
        let same = decoded
            .iter()
            .zip(&items)
            .take_while(|(one, other)| one == other);
        let same = same.count();
        assert!(
            decoded.len() == items.len() && same == items.len(),
            "{same} of {}: {:x?}, expected {:x?}",
            items.len(),
            decoded.get(same),
            items.get(same)
        );
        Ok(())
    })
    .budget_ms(1000)
    .run();
    assert!(predicted > 1000, "{predicted} branches were predicted");
}

#[test]
fn any_descriptors_with_any_code_do_no_harm() {
    arbtest(|u| {
        let (process, ..) = run(u)?;
        let config = config(u)?;
        let mut descriptors = Vec::new();
        for _ in 0..u.int_in_range(0..=40)? {
            let small = u.int_in_range(0..=9)?;
            let target = match u.int_in_range(0..=3)? {
                0 => u.arbitrary()?,
                1 => ENTER | u64::from(small),
                _ => BASE + u.int_in_range(0..=12 * SPACE)?,
            };
            descriptors.push(match u.int_in_range(0..=2)? {
                0 => Descriptor::Outcome { count: small },
                1 => Descriptor::Target {
                    count: small,
                    target,
                },
                _ => Descriptor::Exception {
                    insns: small,
                    target,
                },
            });
        }
        let mut pieces = Pieces::of(&process);
        let decoder = Decoder::new(&mut pieces, &config, descriptors.into_iter());
        for item in decoder.take(10_000) {
            let _ = item;
        }
        Ok(())
    });
}
