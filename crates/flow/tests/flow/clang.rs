//! Graphs of what clang makes of the switches, loops and calls of `shapes`.

use crate::shapes::switches_loops_and_calls;

#[test]
fn switches_loops_and_calls_of_clang() {
    // It loads the strings of some switches from a list, without a jump.
    switches_loops_and_calls("clang-14", false);
}
