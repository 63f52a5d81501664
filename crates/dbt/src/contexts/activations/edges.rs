//! Edges: the states that paths of basic blocks lead to (`contexts::blocks`).

use core::sync::atomic::Ordering::Relaxed;

use agent::thread::ThreadContext;
use forest::State;

use super::{Budget, Tool, share_index, tool_of};
use crate::engine::{self, Engine};

/// Puts a path on record that was entered up to where a thread leaves its code
/// (`blocks`).
pub fn record_path(context: &mut ThreadContext, path: u32) {
    let Some(tool) = tool_of(context) else { return };
    let from = tool.state(context);
    let (edge, next) = engine::with(|engine| engine.edge(tool, from, path, false));
    // SAFETY: a node in the pool; only this thread writes it.
    let node = unsafe { &*(edge.0 as *const wire::node::Node) };
    node.count.store(node.count.load(Relaxed) + 1, Relaxed);
    context.block_state = tool.records.offset(next);
    share_index(context, tool);
}

impl Engine {
    /// The edge that a path is from `from` on, and where it leads. `searched`: the index
    /// was, and does not hold it.
    pub(super) fn edge(
        &mut self,
        tool: &mut Tool,
        from: State,
        path: u32,
        searched: bool,
    ) -> (State, State) {
        let pool = self.process.log.pool;
        let nothing = (from, from);
        let Some(contexts) = &mut self.contexts else {
            return nothing;
        };
        let Some(blocks) = &mut contexts.blocks else {
            return nothing;
        };
        let mut budget = Budget {
            pool,
            left: &mut contexts.nodes_left,
        };
        let steps = blocks.blocks_of(path);
        let states_from = tool.records.0;
        let found = tool
            .forest
            .edge(from, (path, steps), searched, states_from, &mut budget);
        self.publish_chunk(tool);
        found.unwrap_or(nothing)
    }
}
