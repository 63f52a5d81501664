//! Runs inside the target process: everything about being a guest there that
//! is not translation. Start-up and ELF loading, threads, signal tables,
//! system calls that must be bent, the map of executable memory, the pool.
//!
//! Invariant: no libc, no thread-local storage, no `fs:` access, no heap
//! shared with the program, no descriptor left open, no helper thread, no
//! timer. It never calls up into the translator: what the translator must do
//! about a system call is a return value ([`syscalls::Effect`]).
#![no_std]

extern crate alloc;

pub mod action_snapshot;
pub mod address_space;
pub mod exec;
pub mod filters;
pub mod heap;
pub mod held_signals;
pub mod image_gaps;
pub mod loader;
pub mod lock;
pub mod memory;
pub mod paths;
pub mod polls;
pub mod pool;
pub mod procfs;
pub mod regions;
pub mod sigcalls;
pub mod signals;
pub mod start;
pub mod syscalls;
mod sysv;
pub mod thread;
pub mod tracers;
