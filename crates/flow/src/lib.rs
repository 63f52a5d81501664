//! Control flow of a binary file: functions, basic blocks, edges, jump tables, loops.
//!
//! Problem: whoever edits a program, encodes its calling contexts or looks at its loops needs the graph
//! of each function, and has to know which graphs may lack something.
//!
//! Approach: functions and their parts are what `image` says of unwind tables, symbols and entry points,
//! and what is called directly besides ([`program`]). Inside a function instructions are found by
//! following control from its entries ([`descent`]). Indirect jumps are followed through their jump
//! tables, whose place and bound a propagation of values finds ([`shapes`], [`tables`]); where the canonical frame
//! address is that of the function's entry, a jump without a table is a tail call. Calls that do not return are found
//! by names and by a fixed point ([`returns`]).
//!
//! A function is *complete* if its graph has every instruction and edge that can be executed; else it says
//! which [`Gate`] it fails, and where.
//!
//! Invariants: no input makes a function of this crate panic. Blocks of a function are sorted and disjoint, but where code jumps
//! over the prefix `lock` of an instruction: that is a block, and so is the instruction without it; edges
//! go from the end of a block to the beginning of one of the same function, or leave it.
//!
//! | module | what |
//! |---|---|
//! | `program` | all functions of a file |
//! | `function` | one of them |
//! | `code` | bytes by address |
//! | `descent` | instructions by following control |
//! | `graph` | blocks and edges |
//! | `values` | constants, entries of tables, bounds of numbers |
//! | `state` | values in registers and on the stack, and what instructions make of them |
//! | `shapes` | which table an indirect jump goes by |
//! | `tables` | jump tables |
//! | `returns` | functions that do not return |
//! | `loops` | dominators and natural loops |
//! | `nests` | nests of loops with their references, their source lines, and marks in source files that mean them |
//! | `live` | registers and flags that are live |
//! | `processors` | all processors for a piece of work |
//!
//! Limits: docs/limits.md, `flow`.
#![forbid(unsafe_code)]

mod code;
mod descent;
mod function;
mod graph;
mod live;
mod loops;
pub mod nests;
mod processors;
mod program;
mod returns;
mod shapes;
mod state;
mod tables;
mod values;

pub use function::{Evidence, Function};
pub use graph::{Block, Edge, EdgeKind, Graph, To};
pub use live::{Live, Liveness};
pub use loops::{Dominators, Loop, Loops};
pub use processors::with_processors;
pub use program::Program;
pub use tables::{Element, JumpTable};

use image::LinkAddr;

/// Reason for a graph not to be complete; the numbers are those of the exec editor's design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Gate {
    /// Bytes that are no instruction, or a branch into the middle of one.
    Undecodable,
    /// An indirect jump whose targets are not known.
    UnresolvedJump,
    /// An unwind table that cannot be read, or the frame of a signal.
    Unwind,
    /// A table of landing pads that cannot be read.
    LandingPads,
    /// Far branches, returns from interrupts, transactions, calls of the next instruction.
    OddInstruction,
    /// An address is taken of bytes that no block explains.
    TakenInside,
    /// Without an unwind table, or the program's first instructions.
    NoUnwind,
    /// Control runs over its end.
    RunsOver,
}

impl Gate {
    pub const ALL: [Gate; 8] = [
        Gate::Undecodable,
        Gate::UnresolvedJump,
        Gate::Unwind,
        Gate::LandingPads,
        Gate::OddInstruction,
        Gate::TakenInside,
        Gate::NoUnwind,
        Gate::RunsOver,
    ];

    /// Its number: `G1` and so on.
    pub fn name(self) -> &'static str {
        match self {
            Gate::Undecodable => "G1",
            Gate::UnresolvedJump => "G2",
            Gate::Unwind => "G3",
            Gate::LandingPads => "G4",
            Gate::OddInstruction => "G6",
            Gate::TakenInside => "G7",
            Gate::NoUnwind => "G9",
            Gate::RunsOver => "G12",
        }
    }

    /// Its meaning, as the end of a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Gate::Undecodable => "bytes that are no instruction, or a branch into one",
            Gate::UnresolvedJump => "an indirect jump whose targets are not known",
            Gate::Unwind => "an unwind table that cannot be read, or a signal's frame",
            Gate::LandingPads => "a table of landing pads that cannot be read",
            Gate::OddInstruction => {
                "a far branch, a transaction, or a call of the next instruction"
            }
            Gate::TakenInside => "an address is taken of bytes that are in no block",
            Gate::NoUnwind => "no unwind table",
            Gate::RunsOver => "control runs over the end of the function",
        }
    }
}

/// A gate that a function fails, and the address where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failed {
    pub gate: Gate,
    pub at: LinkAddr,
}
