//! `edges`: counters of edges, as few as say everything (QP, 3.3 and figure 5).

use placement::plan::Tool;

use crate::counting::Rule;

#[derive(Debug)]
pub struct Edges;

impl Rule for Edges {
    const TOOL: Tool = Tool::Edges;
}
