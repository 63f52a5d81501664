//! The dynamic binary translator: program code in, equivalent code in the
//! cache out, so that every instruction of the program runs from the cache.
//!
//! A block is translated when control first needs it (`dispatch`), from the
//! program's current bytes (`superblock`, `translate`), and joined to others by
//! direct links (`link`) and the indirect tables (`indirect`). What a signal
//! or a fault needs to know about a cache address is stored with the block
//! (`pcmap`). Code that changes is found by page protection (`change`).
//!
//! Invariant: all state is in one [`engine::Engine`] behind one lock; threads
//! in the cache hold nothing and read nothing of it but the indirect tables.
#![no_std]

extern crate alloc;

mod accesses;
mod block;
pub mod cache;
pub mod code_change;
pub mod contexts;
pub mod counting;
pub mod deliver;
pub mod detach;
pub mod dispatch;
pub mod edge_counters;
mod engine;
pub mod entry;
pub mod evict;
mod exits;
mod far;
mod filters;
pub mod indirect;
pub mod link;
pub mod locate;
pub mod lockstep;
mod pcmap;
mod prediction;
pub mod process;
mod procfs;
mod served_code;
pub mod signal_waits;
pub mod signals;
pub mod sigreturn;
mod single_step;
pub mod slab;
pub mod start;
pub mod streams;
pub mod superblock;
pub mod synthetic_faults;
pub mod thread_exit;
pub mod translate;
mod unaligned;
mod vsyscall;
