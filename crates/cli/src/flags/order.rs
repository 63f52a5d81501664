//! Events of a trace that have time stamps.

use clap::ValueEnum;
use wire::stream::order;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Nothing
    Chunk,
    /// Atomic instructions, fences, system calls, begins and ends
    Sync,
    /// Time stamps as with sync, and atomic instructions one after the other
    Fine,
}

impl Order {
    /// As the program's side knows it.
    pub fn number(self) -> u32 {
        match self {
            Order::Chunk => order::CHUNK,
            Order::Sync => order::SYNC,
            Order::Fine => order::FINE,
        }
    }

    /// As users write it.
    pub fn name(self) -> &'static str {
        match self {
            Order::Chunk => "chunk",
            Order::Sync => "sync",
            Order::Fine => "fine",
        }
    }
}
