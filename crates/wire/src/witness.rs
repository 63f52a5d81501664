//! Witnesses: what an edited program appends to its stream so that all that it executed follows ([`crate::counters::Lane`]).
//!
//! The stream of a thread is a row of tokens. Which one comes next follows from the plan of the edited file, but for those that may come
//! at any moment: a handler of a signal begins with an [`ENTER`].
//!
//! | bytes | meaning |
//! |---|---|
//! | 0 | nobody wrote it: one stands before each token of several bytes, and behind what a handler of a signal wrote |
//! | 1 to 200 | number of a path, from one; or of the block to which a jump by a table went |
//! | 208 to 239 | control came back to moved code from a call of other code; five bits of the address say where |
//! | 240, u16 | code that is not moved entered a function by the entry with this number |
//! | 246, u32 | the same, in files with more entries |
//! | 241 | the function returns |
//! | 242, u32 | an exception is caught, or frames are cleaned up, at this address |
//! | 243, u32, u64, u64 | control came to this address from a call that may come back twice; its stack pointer and result |
//! | 244 | the code behind does not come back |
//! | 245, u32 | a jump by a table went to the block at this address |
//! | 247, u8 *n*, *n* bytes | values of registers, of which the block's plan says which they are; before the token that says that the block was executed |
//!
//! Addresses are the lowest 32 bits of those of the file that was edited, or, of files that were edited together, sums with a number that
//! makes them differ; entries of all of these but the first have such an address for a number. All numbers are little-endian.

/// Most paths of a token.
pub const PATHS: u32 = 200;
/// The first of [`SITES`] tokens for calls that came back.
pub const BACK: u8 = 208;
pub const SITES: u8 = 32;
pub const ENTER: u8 = 240;
pub const LEAVE: u8 = 241;
pub const PAD: u8 = 242;
pub const POINT: u8 = 243;
pub const OUT: u8 = 244;
pub const WENT: u8 = 245;
pub const ENTER_FAR: u8 = 246;
pub const VALUES: u8 = 247;
/// Most bytes of a piece of a stream.
pub const LONGEST: usize = crate::pack::MOST;
/// Most bytes of [`VALUES`].
pub const MOST_BYTES: usize = 64;

/// The token of a call that came back to an address.
pub const fn back(to: u32) -> u8 {
    BACK + ((to ^ to >> 5 ^ to >> 10) % SITES as u32) as u8
}
