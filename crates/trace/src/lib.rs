//! Recordings on the host: the data model, the reader of the
//! shared pool, and the container on disk.
//!
//! ```text
//!   pool (shared memory) --from_pool-->  Recording  --write-->  FILE.evp
//!                                            ^                     |
//!                                            +---read, read_prefix-+
//! ```
//!
//! Invariant: nothing that comes from the pool or from a file is trusted. Both
//! readers are total: any bytes give a value or a typed error, in memory
//! proportional to the input, never a panic and never an endless loop.
//!
//! This crate never names anything: functions carry names only after someone
//! who can read binaries (the `image` crate's users) filled them in. It knows
//! no analysis and no output format but its own.
#![forbid(unsafe_code)]

pub mod container;
mod delta;
mod error;
mod keyframe;
pub mod model;
mod part;
mod planes;
mod pool;
mod smaller;

pub use container::{
    Identity, Loss, Prefix, read, read_index, read_prefix, write, write_index, write_small,
};
pub use error::{ReadError, WriteError};
pub use keyframe::{Gap, Keyframe};
pub use model::{
    Block, BlockContexts, Cost, Costs, Cut, End, Event, EventKind, Fragment, Function, Jump, Label,
    Meta, Missing, Mode, Module, Native, Node, Piece, Process, Recording, SlotCount, Source,
    Thread, base_name,
};
pub use part::{Part, unpacked};
pub use pool::{Follow, Keep, KeepSource, Live, Most, Names, Times, from_pool, from_pool_timed};
pub use smaller::compress_memory;
/// How the bytes of a stream are to be read.
pub use wire::denied::{self, Denial};
pub use wire::natives;
pub use wire::{contexts, stream, witness};
