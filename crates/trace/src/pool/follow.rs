//! The interface of a reader that follows a trace while it is drained from the pool.

use std::sync::Arc;

use crate::model::Fragment;
use crate::part::Part;

/// Reads what comes, as it would stand in the file: processes by index, threads by index in
/// their process. Code and targets come before the parts that need them.
pub trait Follow: Send + Sync {
    /// Whether it takes more. If not, chunks stay in the pool, and the program waits when too
    /// many do.
    fn has_room(&self) -> bool;

    /// Whether it has much and can do nothing with it: what it needs is in an open chunk.
    fn starves(&self) -> bool;

    /// A process begins; forked, it has so many fragments and targets of that one, the first
    /// ones.
    fn process(&self, process: usize, has: Option<(usize, usize, usize)>);

    fn fragment(&self, process: usize, fragment: &Arc<Fragment>);

    fn target(&self, process: usize, target: u64);

    fn thread(&self, process: usize);

    fn part(&self, process: usize, thread: usize, part: Part);

    /// Nothing more comes of this stream.
    fn over(&self, process: usize, thread: usize, stream: u16);
}
