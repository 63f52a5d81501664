//! The container on disk, `.evp`: one self-contained file per recording.
//!
//! Problem: tens of millions of nodes, written once, read anywhere, after
//! crashes and copies that went wrong; the file may come from a stranger.
//!
//! Approach: a header, then chunks in the order of the model, each with its
//! own length, checksum and zstd frame, and a last chunk that counts the
//! others. Nothing points forward or backward between chunks, so a file that
//! was cut is good up to the cut ([`read_prefix`]). The layout, byte by byte,
//! and the rule for versions stand in `docs/formats/evp.md`.
//!
//! Invariants of reading:
//! - nothing is allocated by a declared size before that size was checked
//!   against [`MAX_RAW`], [`MAX_RATIO`] and [`MAX_TOTAL`], or against the bytes
//!   that are really there;
//! - every index that the model says is a smaller or a valid one is checked.
//!
//! Limits: a string or argument list of more than [`MAX_RAW`] bytes cannot be
//! written; depths are not stored but follow from the parents.

mod blocks;
pub(crate) mod chunk;
mod codec;
mod costs;
mod counts;
mod denied;
mod index;
mod items;
pub(crate) mod journal;
mod natives;
mod nodes;
mod read;
mod search;
mod write;

pub use chunk::Kind;
pub use index::{Identity, read_index, write_index};
pub(crate) use items::{MAX_SHARED, Shared};
pub use read::{Loss, Prefix, read, read_prefix};
pub use write::{write, write_small};

/// First bytes of every file. Like PNG's, they tell a text-mode copy (the line
/// ends change) and a 7-bit one (the first byte changes) from the real thing.
pub const MAGIC: [u8; 8] = *b"\x89EVP\r\n\x1a\n";

/// Every format that was ever written and what changed in it, oldest first. All
/// are read. `docs/formats/evp.md` has the same table and the rule for a new row;
/// `tests/recordings` has files of each.
pub const VERSIONS: [(u32, &str); 16] = [
    (1, "first"),
    (
        2,
        "mode 2 (counts), with chunks `FRAG`, `CUTS`, `TEXT`, `SRCS`, `CNTS` and five more totals",
    ),
    (
        3,
        "mode 3 (contexts of basic blocks), with chunk `BLKS` and one more total",
    ),
    (
        4,
        "mode 2: a fragment may go on where a conditional branch is taken; mode 4 (contexts of basic \
         blocks, without a k-slab forest)",
    ),
    (
        5,
        "mode 5 (traces), with chunks `TRGT`, `STRM` and four more totals",
    ),
    (
        6,
        "mode 5 is written while the program runs: chunks `LOGS`, and `STRM` and `DONE` with more \
         in them, in place of all others but `META`; five streams for a thread; mode 2: where \
         indirect branches went, with chunk `JUMP` and one more total",
    ),
    (
        7,
        "mode 5: places that a thread's streams can be read from, beginnings of them that are not \
         kept: items 12 to 14; packed streams, 5 and 6",
    ),
    (8, "mode 5: time stamps in stream 4"),
    (
        9,
        "mode 5: stream 4 has numbers of targets, and all targets are listed",
    ),
    (10, "mode 5: stack pointers among the stamps of stream 4"),
    (
        11,
        "mode 5: what is listed as targets says how long their numbers are; numbers of stamps apart",
    ),
    (
        12,
        "mode 5: packed threads in segments, which item 12 says where they begin",
    ),
    (
        13,
        "mode 5: stack pointers among the stamps of stream 4 also where the frame pointer says them",
    ),
    (
        14,
        "mode 5: stream 16, addresses of memory accesses; items 15 and 16",
    ),
    (
        15,
        "mode 5: stream 17, values that were read and written; items 17 and 18",
    ),
    (
        16,
        "mode 5: with the option `values-of-elements`, stream 17 also has those of elements",
    ),
];

/// Format written by this build, and the newest it reads.
pub const VERSION: u32 = VERSIONS[VERSIONS.len() - 1].0;

/// Most bytes in one chunk before compression.
pub const MAX_RAW: u32 = 16 << 20;

/// Most uncompressed bytes per stored byte of a chunk, beyond [`RATIO_FREE`].
/// The writer pads chunks that compress better.
pub const MAX_RATIO: u64 = 256;
/// A chunk of at most so many uncompressed bytes needs no padding.
pub const RATIO_FREE: u64 = 4096;

/// Most uncompressed bytes in one file: more than a thousand million nodes.
pub const MAX_TOTAL: u64 = 8 << 30;
