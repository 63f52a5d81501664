//! Ways out of a block.

/// Ways out of a block that have slots of their own.
pub(super) enum Ways {
    Somewhere,
    Taken,
    /// Numbers of edges, and where they lead.
    To(Vec<(usize, u64)>),
    /// Targets in the block's table.
    Tallied(Vec<u64>),
}

impl Ways {
    /// Known targets of the block's last instruction, which have slots behind the block's own.
    pub fn targets(&self) -> Vec<u64> {
        match self {
            Ways::Somewhere | Ways::Taken => Vec::new(),
            Ways::To(edges) => edges.iter().map(|&(_, target)| target).collect(),
            Ways::Tallied(targets) => targets.clone(),
        }
    }
}

/// Executions of a block whose way is not known, and those that led to each target.
pub(super) fn with_rest(executed: u64, led: Vec<u64>) -> Vec<u64> {
    let all: u64 = led.iter().sum();
    let rest = executed.saturating_sub(all);
    [rest].into_iter().chain(led).collect()
}
