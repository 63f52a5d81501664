//! x86-64 facts: decoding, a small assembler, and moving one instruction.
//!
//! Invariant: this is the only crate that knows the decoder library. Others
//! see [`Insn`] and its questions; a change of decoder changes this crate only.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod asm;
pub mod class;
pub mod compute;
pub mod dataflow;
pub mod far;
pub mod flags;
pub mod insn;
pub mod memory;
pub mod reg;
pub mod relocate;
pub mod segments;
pub mod sets;
pub mod stack;
mod sync;
#[cfg(feature = "text")]
pub mod text;
pub mod used;
mod vendor;

pub use asm::{Asm, Cc};
pub use class::Class;
pub use far::{Far, FarKind};
pub use flags::Flags;
pub use insn::{DecodeError, Flow, Insn, StackMove};
pub use reg::Reg;
pub use segments::GsUse;
pub use sets::{Effects, EffectsOf, RegisterSet};
pub use stack::{StackEffect, StackFrom};
