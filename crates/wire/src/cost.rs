//! What nodes can carry besides calls: one bit each in [`crate::Config::costs`].

/// Instructions retired.
pub const INSTRUCTIONS: u32 = 1 << 0;

/// All there are.
pub const ALL: u32 = INSTRUCTIONS;
