//! Layout of the memory that the target and the CLI process share.
//!
//! One shared file (a memfd made by the CLI), the *pool*, is mapped by every
//! process of the target tree and by the CLI. Everything in it is found from
//! its first page by following offsets; nothing in it is a pointer, except the
//! node keys of a forest, which are explained in [`node`].
//!
//! ```text
//!  offset 0      PoolHeader   magic, version, configuration, bump allocator
//!  4096          first allocation: a ProcessRecord, one page
//!  ...           ThreadRecords, log chunks, node chunks, function tables,
//!                in the order in which they were allocated; page granular
//!  bump          end of what is allocated; beyond it the file is a hole
//! ```
//!
//! Invariant: a record is published (its offset stored with release order in
//! the list that holds it) only after its contents are complete, and counters
//! are plain aligned 64-bit words with one writer. So a reader sees a prefix
//! that is true at every moment, also when the writer is killed.
//!
//! This crate never knows who reads or writes: no syscalls, no allocation.
#![no_std]

pub mod budget;
mod claim;
pub mod contexts;
pub mod cost;
pub mod counters;
pub mod denied;
pub mod layout;
pub mod log;
pub mod loops;
pub mod natives;
pub mod node;
pub mod pack;
pub mod stream;
pub mod view;
pub mod witness;

pub use layout::*;
