//! Sums of increments where control comes: constants, or values of a register.
//!
//! Where one path leads to a node, or all that do have the same sum, the sum is a constant, and no code keeps it. Where paths with
//! several sums come together in the middle of others, a register has the sum from there on, of which nobody reads anything until
//! the path stops. Where there is no such register, paths stop before these nodes, and their tokens are on the ways into them.

use image::Image;
use isa::insn::Reader;
use isa::{EffectsOf, Reg};
use placement::paths::Paths;
use rewrite::{Unit, Why};
use wire::witness;

use super::shape::Shape;

/// One more than the sum of increments before a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// Control never comes there.
    None,
    Constant(u32),
    In(Reg),
    /// A constant for each way into it, whose tokens are on those ways.
    Several,
}

/// Paths, and what is known of their sums.
#[derive(Debug)]
pub struct Planned {
    pub paths: Paths,
    /// By node.
    pub values: Vec<Value>,
    /// By node: the register that gets its sum, a constant, before its first instruction, as one behind it has the sum in it. So
    /// nothing has to be done on ways without an increment.
    pub early: Vec<Option<Reg>>,
}

impl Planned {
    /// The value that comes by a way into a node, before its increment, and that.
    pub fn coming(&self, from: Option<(usize, usize)>) -> (Value, u32) {
        match from {
            None => (Value::Constant(1), 0),
            Some((node, way)) => {
                let increment = self.paths.increments[node][way];
                match self.paths.stops[node] {
                    true => (Value::Constant(1), increment),
                    false => (self.values[node], increment),
                }
            }
        }
    }
}

/// Numbers the paths of a function, and finds registers for their sums.
///
/// # Errors
/// It has too many ways.
pub fn assign(unit: &Unit<'_>, image: &Image, shape: &mut Shape) -> Result<Planned, Why> {
    let touched = touched(unit, image);
    let live: Vec<u16> = (0..shape.nodes.len())
        .map(|node| match node < shape.blocks {
            true => unit.live_before(node as u32).general,
            false => 0,
        })
        .collect();
    loop {
        let paths = Paths::of(&shape.nodes, witness::PATHS).ok_or(Why::NoPlace)?;
        let mut planned = Planned {
            values: vec![Value::None; shape.nodes.len()],
            early: vec![None; shape.nodes.len()],
            paths,
        };
        let joined = merge(shape, &mut planned);
        let groups = groups(shape, &planned, &joined);
        let mut is_whole = true;
        for group in groups {
            let taken = group.iter().fold(1 << Reg::Rsp as u8, |taken: u16, &node| {
                let inside = match planned.paths.stops[node] {
                    true => 0,
                    false => touched[node],
                };
                taken | live[node] | inside
            });
            match Reg::ALL
                .iter()
                .find(|register| taken >> **register as u8 & 1 == 0)
            {
                Some(register) => {
                    for node in group {
                        planned.values[node] = Value::In(*register);
                    }
                }
                None => {
                    let inside = group.iter().filter(|node| !planned.paths.stops[**node]);
                    for &node in inside {
                        shape.nodes[node].stops = true;
                    }
                    is_whole = false;
                }
            }
        }
        if is_whole {
            for node in 0..shape.blocks {
                let early = early(shape, &planned, node);
                let taken = touched[node] | live[node];
                planned.early[node] = early.filter(|register| taken >> *register as u8 & 1 == 0);
            }
            return Ok(planned);
        }
    }
}

/// The register in which all nodes behind one have the sum that have it in one, if that node's own is a constant.
fn early(shape: &Shape, planned: &Planned, node: usize) -> Option<Reg> {
    let is_constant =
        planned.paths.stops[node] || matches!(planned.values[node], Value::Constant(_));
    let ways = shape.nodes[node].ways.iter();
    let mut registers = ways.filter_map(|way| match planned.values[way.to as usize] {
        Value::In(register) => Some(register),
        _ => None,
    });
    let first = registers.next().filter(|_| is_constant)?;
    registers.all(|other| other == first).then_some(first)
}

/// Finds constants; gives the nodes whose sum is none.
fn merge(shape: &Shape, planned: &mut Planned) -> Vec<bool> {
    let mut joined = vec![false; shape.nodes.len()];
    let mut is_changed = true;
    while std::mem::take(&mut is_changed) {
        for node in 0..shape.nodes.len() {
            let mut value = Value::None;
            let mut is_joined = false;
            for way in &shape.ins[node] {
                let own = match planned.coming(way.from) {
                    (Value::Constant(sum), increment) => Value::Constant(sum + increment),
                    (other, _) => other,
                };
                is_joined |= way
                    .from
                    .is_some_and(|(from, _)| joined[from] && !planned.paths.stops[from]);
                value = match (value, own) {
                    (known, Value::None) => known,
                    (Value::None, own) => own,
                    (known, own) if known == own => known,
                    _ => Value::Several,
                };
            }
            // In the middle of paths, constants that differ are one register's value.
            is_joined |= value == Value::Several && !planned.paths.stops[node];
            if is_joined {
                value = Value::None;
            }
            if (value, is_joined) != (planned.values[node], joined[node]) {
                (planned.values[node], joined[node]) = (value, is_joined);
                is_changed = true;
            }
        }
    }
    joined
}

/// Nodes that share a register: those whose sum is no constant, by the ways between them.
fn groups(shape: &Shape, planned: &Planned, joined: &[bool]) -> Vec<Vec<usize>> {
    let mut group_of: Vec<usize> = (0..shape.nodes.len()).collect();
    fn root(group_of: &mut [usize], mut node: usize) -> usize {
        while group_of[node] != node {
            group_of[node] = group_of[group_of[node]];
            node = group_of[node];
        }
        node
    }
    for (node, ways) in shape.ins.iter().enumerate() {
        for (from, _) in ways.iter().filter_map(|way| way.from) {
            if joined[node] && joined[from] && !planned.paths.stops[from] {
                let (one, other) = (root(&mut group_of, node), root(&mut group_of, from));
                group_of[one] = other;
            }
        }
    }
    let mut groups = vec![Vec::new(); shape.nodes.len()];
    for node in (0..shape.nodes.len()).filter(|node| joined[*node]) {
        groups[root(&mut group_of, node)].push(node);
    }
    groups.retain(|group| !group.is_empty());
    groups
}

/// Registers that instructions of each block read or write.
fn touched(unit: &Unit<'_>, image: &Image) -> Vec<u16> {
    let mut effects = EffectsOf::new();
    let blocks = unit.function.graph.blocks.iter();
    blocks
        .map(|block| {
            let code = image.bytes_from(block.start);
            let mut reader = Reader::new(code, block.start.0);
            let (mut touched, mut at) = (0, block.start.0);
            while at < block.end.0 {
                let Ok(insn) = reader.decode(at) else {
                    return u16::MAX;
                };
                let own = effects.of(&insn);
                touched |= own.read.general | own.written.general;
                at = insn.next_pc();
            }
            touched
        })
        .collect()
}
