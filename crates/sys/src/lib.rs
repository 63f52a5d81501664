//! Linux on x86-64 as typed calls, for code that has no libc.
//!
//! Invariant: this crate holds the only `syscall` instructions that engine code
//! executes (the program's own run in the code cache). It keeps no state but where
//! its [`gate`] is, no `errno`, and never allocates.
//!
//! Numbers and layouts: kernel `arch/x86/entry/syscalls/syscall_64.tbl` and
//! `include/uapi`; structures that the kernel writes are asserted by size.
#![no_std]

pub mod bytes;
pub mod call;
pub mod gate;
pub mod nr;
pub mod raw;
pub mod signal;
pub mod types;

pub use call::*;
pub use types::*;
