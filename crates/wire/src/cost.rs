//! Costs that nodes can carry besides calls: one bit each in [`crate::Config::costs`].

/// Instructions retired.
pub const INSTRUCTIONS: u32 = 1 << 0;
/// Near branches among them: jumps, conditional or not, calls and returns.
pub const BRANCHES: u32 = 1 << 1;
/// Instructions that read memory.
pub const LOADS: u32 = 1 << 2;
/// Instructions that write memory.
pub const STORES: u32 = 1 << 3;
/// Cycles of the time-stamp counter: an estimate.
pub const CYCLES: u32 = 1 << 4;
/// Misses of simulated caches: nobody counts them in a run, only files have them.
pub const FETCH_MISSES: u32 = 1 << 5;
pub const DATA_MISSES: u32 = 1 << 6;
pub const LAST_MISSES: u32 = 1 << 7;
/// Nanoseconds that threads executed, and waited: they are sampled from outside.
pub const TIME: u32 = 1 << 8;
pub const WAITING: u32 = 1 << 9;

/// Costs that an instruction adds each time it retires.
pub const OF_INSTRUCTIONS: u32 = INSTRUCTIONS | BRANCHES | LOADS | STORES;
/// The cost that the word with this number counts ([`crate::COST_WORDS`]), as a bit. Words
/// of what is not counted are instructions', where an addition would wait for the one
/// before.
pub const fn of_word(costs: u32, word: u32) -> u32 {
    match costs & 1 << word {
        0 => INSTRUCTIONS,
        bit => bit,
    }
}

/// All that a run counts.
pub const ALL: u32 = OF_INSTRUCTIONS | CYCLES;
