//! Precise calling-context encoding: a number, mostly one, for each path of calls by which a function is reached.
//!
//! Problem: a program that is to say in which context something happened would have to walk its stack, and to write a list of addresses.
//!
//! Approach: paths of calls that end at one function have numbers; those of different functions may be equal. A function's numbers are
//! cut into ranges, one for each call of it, as long as the caller has numbers; so a caller adds where that range begins before the
//! call, and takes it off behind ([`Numbering`]). The heaviest call of each function has the first range, and adds nothing. A path
//! that comes to a function again, or by a pointer to nobody knows which function, or to one that would have too many numbers, goes on as
//! a new *piece*: the sum so far is pushed ([`Context`]). Calls add nothing either if depths of the stack say which of several paths
//! was taken ([`hybrid`]).
//!
//! | of the paper | here |
//! |---|---|
//! | algorithms 1 and 3: numbers, recursion | [`Numbering`] |
//! | algorithm 2, `DecodeStack` | [`Numbering::decode`] |
//! | algorithm 4: stack offsets | [`hybrid`] |
//! | algorithms 5 and 6: unrolling | [`Options::unrolled`] |
//! | 7.1: fewer numbers | [`Options::most`] |
//! | 7.2: function pointers | [`Kind::Open`] |
//!
//! This crate knows graphs only, no machine code.
//!
//! Invariants: contexts that differ have other numbers, or other stacks ([`State`] says which), and each is decoded to itself. Any
//! context is decoded, or refused as one that no path has.
//!
//! Source: W. Sumner, Y. Zheng, D. Weeratunge, X. Zhang, "Precise Calling Context Encoding" (IEEE TSE 2012); for calls that share what
//! they add, Q. Zeng et al., "DeltaPath" (CGO 2014).
#![forbid(unsafe_code)]

mod graph;
pub mod hybrid;
mod numbering;
mod ranges;
mod state;

pub use graph::{CallGraph, Edge, Kind, Site};
pub use numbering::{Heads, Numbering, Options, Rung, Step};
pub use state::{Context, Entry, NoContext, Piece, State, Undo, calls};
