//! Jump tables of a function that are written anew, and the instructions that lead to them.
//!
//! Problem: a table of a switch holds places in old code. With a jump at each of these a switch costs one jump more; a table of
//! new places costs nothing, if every instruction that takes the table's address is known.
//!
//! Approach: from each jump its target is followed back through the graph to where it was made. These forms are taken, which are
//! those of GCC and LLVM:
//!
//! | elements | code |
//! |---|---|
//! | 4 bytes, relative to the table | `lea T(%rip), B`; `movslq (B,I,4), E`; `add B, E` or `add E, B`; `jmp *E` |
//! | 8 bytes, in a program that is linked for fixed addresses | `jmp *T(,I,8)`, or `mov T(,I,8), E`; `jmp *E` |
//!
//! Invariant: what takes the address of a new table is used by such loads, sums and jumps only, and each of them uses nothing else.
//! A call ends the life of a register that it need not preserve, and a byte written to it ends that of an address: what is left is
//! no address, and compilers read the byte only. Any other use leaves the table as it is.
//!
//! Limits: addresses that are copied or spilled; tables of eight bytes that the dynamic linker relocates.

use std::collections::{BTreeMap, BTreeSet};

use flow::{EdgeKind, Function, JumpTable, To};
use image::LinkAddr;
use isa::dataflow::{Op, Place};
use isa::memory::Address;
use isa::{Effects, EffectsOf, Flow, Insn, Reg};

/// `rbx`, `rbp`, `rsp`, `r12` to `r15`: a callee preserves them.
const PRESERVED: u16 = 0xf038;

/// A table that is written anew.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// Address of the old one.
    pub old: LinkAddr,
    /// Bytes of an element: 4 are relative to the table, 8 are addresses.
    pub width: u8,
    /// Old addresses that the elements lead to, those behind the last case too if no comparison bounds the index.
    pub targets: Vec<LinkAddr>,
    /// Number of elements up to the last case.
    pub cases: usize,
    pub jumps: Vec<LinkAddr>,
}

/// Tables of a function that are written anew.
#[derive(Clone, Debug, Default)]
pub struct NewTables {
    pub tables: Vec<NewTable>,
    /// Instructions with the address of a table, and which table.
    pub sites: BTreeMap<LinkAddr, usize>,
}

impl NewTables {
    /// Finds them in a function whose graph is complete.
    pub fn of<'d>(
        function: &Function,
        is_fixed: bool,
        bytes: &dyn Fn(LinkAddr) -> &'d [u8],
    ) -> NewTables {
        let mut found = NewTables::default();
        let mut by_address: BTreeMap<LinkAddr, Vec<&JumpTable>> = BTreeMap::new();
        for table in &function.tables {
            by_address.entry(table.table).or_default().push(table);
        }
        if by_address.is_empty() {
            return found;
        }
        let code = Code::of(function, bytes);
        for (old, tables) in by_address {
            let width = tables[0].width;
            let base = match width {
                4 => old,
                8 if is_fixed => LinkAddr(0),
                _ => continue,
            };
            let is_one = |table: &&JumpTable| table.width == width && table.base == base;
            if !tables.iter().all(is_one) {
                continue;
            }
            let jumps: Vec<LinkAddr> = tables.iter().map(|table| table.jump).collect();
            let sites = match width {
                4 => code.relative_sites(old, &jumps),
                _ => code.absolute_sites(old, &jumps),
            };
            let (Some(sites), Some(elements)) = (sites, elements(&tables)) else {
                continue;
            };
            let number = found.tables.len();
            found
                .sites
                .extend(sites.into_iter().map(|site| (site, number)));
            found.tables.push(NewTable {
                old,
                width,
                targets: elements.0,
                cases: elements.1,
                jumps,
            });
        }
        found
    }
}

/// Old addresses that the elements of a table lead to, which some jumps share, and the number of those up to the last
/// case; `None`: the table may have more elements than are seen.
fn elements(tables: &[&JumpTable]) -> Option<(Vec<LinkAddr>, usize)> {
    let mut longest = Vec::new();
    for table in tables {
        let known = table.elements.iter().map(|element| element.target());
        // Jumps with a bound have nothing beyond it; one without may have fewer elements, and goes on to the next thing.
        let all = known.chain(table.beyond.as_deref()?.iter().copied());
        let all: Vec<LinkAddr> = all.collect();
        if all.len() > longest.len() {
            longest = all;
        }
    }
    let cases = tables.iter().map(|table| table.elements.len()).max()?;
    Some((longest, cases))
}

/// Instructions of a function with the registers that they read and write.
struct Code<'f> {
    function: &'f Function,
    /// By block.
    insns: Vec<Vec<(Insn, Effects)>>,
    predecessors: Vec<Vec<(usize, EdgeKind)>>,
}

/// An instruction by block and number in it.
type At = (usize, usize);

impl<'f> Code<'f> {
    fn of<'d>(function: &'f Function, bytes: &dyn Fn(LinkAddr) -> &'d [u8]) -> Code<'f> {
        let mut effects = EffectsOf::new();
        let blocks = &function.graph.blocks;
        let mut insns = Vec::new();
        for block in blocks {
            let code = bytes(block.start);
            let (mut own, mut at) = (Vec::new(), block.start.0);
            while at < block.end.0 {
                let rest = code.get((at - block.start.0) as usize..);
                let rest = rest.unwrap_or_default();
                let Ok(insn) = Insn::decode(&rest[..rest.len().min(15)], at) else {
                    break;
                };
                at = insn.next_pc();
                own.push((insn, effects.of(&insn)));
            }
            insns.push(own);
        }
        let mut predecessors = vec![Vec::new(); blocks.len()];
        for edge in &function.graph.edges {
            if let To::Block(to) = edge.to {
                predecessors[to as usize].push((edge.from as usize, edge.kind));
            }
        }
        Code {
            function,
            insns,
            predecessors,
        }
    }

    fn pc(&self, at: At) -> LinkAddr {
        LinkAddr(self.insn(at).pc())
    }

    fn insn(&self, (block, number): At) -> &Insn {
        &self.insns[block][number].0
    }

    /// The instruction at an address.
    fn at(&self, addr: LinkAddr) -> Option<At> {
        let block = self.function.graph.block_at(addr)?;
        let number = self.insns[block].binary_search_by_key(&addr.0, |(insn, _)| insn.pc());
        number.ok().map(|number| (block, number))
    }

    /// Instructions that give a register the values which an instruction finds in it; `None`: not all are known.
    fn sources(&self, (block, number): At, register: Reg) -> Option<BTreeSet<At>> {
        let bit = 1 << register as u16;
        let is_kept = PRESERVED & bit != 0;
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut waiting = vec![(block, number)];
        while let Some((block, end)) = waiting.pop() {
            let insns = self.insns[block][..end].iter().enumerate();
            let mut source = None;
            for (number, (insn, effects)) in insns.rev() {
                if effects.written.general & bit != 0 {
                    source = Some((block, number));
                    break;
                }
                if is_call(insn) && !is_kept {
                    return None;
                }
            }
            if let Some(source) = source {
                found.insert(source);
                continue;
            }
            let start = self.function.graph.blocks[block].start;
            let is_entry = start == self.function.entry || self.function.others.contains(&start);
            if is_entry || self.predecessors[block].is_empty() {
                return None;
            }
            for &(before, kind) in &self.predecessors[block] {
                if kind == EdgeKind::LandingPad && !is_kept {
                    return None;
                }
                if seen.insert(before) {
                    waiting.push((before, self.insns[before].len()));
                }
            }
        }
        Some(found)
    }

    /// Instructions that may find in a register what an instruction has put there.
    fn uses(&self, (block, number): At, register: Reg) -> BTreeSet<At> {
        let bit = 1 << register as u16;
        let is_kept = PRESERVED & bit != 0;
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut waiting = vec![(block, number + 1)];
        while let Some((block, first)) = waiting.pop() {
            let mut is_over = false;
            for number in first..self.insns[block].len() {
                let (insn, effects) = &self.insns[block][number];
                if effects.read.general & bit != 0 {
                    found.insert((block, number));
                }
                let is_written = effects.written.general & bit != 0;
                is_over = is_written || is_call(insn) && !is_kept;
                if is_over {
                    break;
                }
            }
            if is_over {
                continue;
            }
            for edge in self.function.graph.edges_of(block) {
                if let To::Block(to) = edge.to
                    && seen.insert(to)
                {
                    waiting.push((to as usize, 0));
                }
            }
        }
        found
    }

    /// Instructions with the address of a table of distances, `None`: they may be used otherwise.
    fn relative_sites(&self, table: LinkAddr, jumps: &[LinkAddr]) -> Option<Vec<LinkAddr>> {
        let is_site = |at: At| {
            let is_table = |address: Address| address.displacement == table.0;
            let op = self.insn(at).op();
            self.insn(at).rip_relative().is_some()
                && matches!(op, Op::Address { address, width: 8, .. } if is_table(address))
        };
        let all = |set: &BTreeSet<At>, is: &dyn Fn(At) -> bool| set.iter().all(|&at| is(at));
        let (mut sites, mut loads, mut sums) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut ends = BTreeSet::new();
        for &jump in jumps {
            let jump = self.at(jump)?;
            ends.insert(jump);
            sums.append(&mut self.sources(jump, self.insn(jump).jump_register()?)?);
        }
        for &sum in &sums {
            let Op::Add {
                to,
                from: Place::Register(from),
                width: 8,
            } = self.insn(sum).op()
            else {
                return None;
            };
            let (mut one, mut other) = (self.sources(sum, to)?, self.sources(sum, from)?);
            if !all(&one, &is_site) {
                (one, other) = (other, one);
            }
            if !all(&one, &is_site) {
                return None;
            }
            sites.append(&mut one);
            loads.append(&mut other);
        }
        for &load in &loads {
            let mut bases = self.sources(load, element(self.insn(load))?.base?)?;
            if !all(&bases, &is_site) {
                return None;
            }
            sites.append(&mut bases);
        }
        let made = |at: At| match self.insn(at).op() {
            Op::Address { to, .. } | Op::Load { to, .. } | Op::Add { to, .. } => Some(to),
            _ => None,
        };
        let are_used = |set: &BTreeSet<At>, by: &dyn Fn(&At) -> bool| {
            set.iter().all(|&at| {
                let uses = made(at).map(|register| self.uses(at, register));
                uses.is_some_and(|uses| uses.iter().all(by))
            })
        };
        let is_well_used = are_used(&sites, &|at| loads.contains(at) || sums.contains(at))
            && are_used(&loads, &|at| sums.contains(at))
            && are_used(&sums, &|at| ends.contains(at));
        is_well_used.then(|| sites.into_iter().map(|at| self.pc(at)).collect())
    }

    /// Instructions with the address of a table of addresses, `None`: they may be used otherwise.
    fn absolute_sites(&self, table: LinkAddr, jumps: &[LinkAddr]) -> Option<Vec<LinkAddr>> {
        let mut sites = BTreeSet::new();
        let mut loads = BTreeSet::new();
        let mut ends = BTreeSet::new();
        for &jump in jumps {
            let jump = self.at(jump)?;
            ends.insert(jump);
            let insn = self.insn(jump);
            match insn.operand_address() {
                Some(address) => {
                    address.base.is_none().then_some(())?;
                    sites.insert(jump);
                }
                None => loads.append(&mut self.sources(jump, insn.jump_register()?)?),
            }
        }
        for &load in &loads {
            let Op::Load {
                to,
                from: Place::Memory(from),
                width: 8,
                to_width: 8,
                ..
            } = self.insn(load).op()
            else {
                return None;
            };
            let is_table = from.base.is_none() && from.displacement == table.0;
            let uses = self.uses(load, to);
            if !is_table || !uses.iter().all(|at| ends.contains(at)) {
                return None;
            }
        }
        sites.append(&mut loads);
        let all = sites.iter().map(|&at| {
            let insn = self.insn(at);
            let has_address = insn.rip_relative().is_some() || insn.absolute().is_some();
            has_address.then(|| self.pc(at))
        });
        all.collect()
    }
}

/// The address of an element that is a distance, in the instruction that loads it.
fn element(insn: &Insn) -> Option<Address> {
    match insn.op() {
        Op::Load {
            from: Place::Memory(from),
            width: 4,
            is_signed: true,
            to_width: 8,
            ..
        } if from.displacement == 0
            && from
                .index
                .is_some_and(|index| Some(index.register) != from.base) =>
        {
            Some(from)
        }
        _ => None,
    }
}

fn is_call(insn: &Insn) -> bool {
    matches!(insn.flow(), Flow::Call(_) | Flow::IndirectCall)
}
