//! Nodes as columns: of a run of nodes first all parents, then all labels, all
//! tops, all counts. Alike values stand together, which is what zstd wants.
//!
//! | column | value |
//! |---|---|
//! | parent | 0: root; else how far back the parent is |
//! | label | the label |
//! | top | 0: none; else 1 + zigzag(top - top of the last node before that has one) |
//! | count | the count |
//!
//! Indices count from the thread's first node; "last node before" does not
//! reach over the start of the chunk and is 0 there.

use super::codec::{Decoder, Encoder, unzigzag, zigzag};
use crate::error::{ReadError, WriteError};
use crate::model::{Label, Node};

/// Nodes per chunk; a damaged chunk loses at most these and what follows.
pub(super) const PER_CHUNK: usize = 1 << 15;
/// A node is one varint in each of four columns.
const LEAST_BYTES: usize = 4;

/// Encodes `nodes`, the first of which is node `first` of its thread.
pub(super) fn encode(nodes: &[Node], first: usize) -> Result<Encoder, WriteError> {
    let mut out = Encoder::default();
    out.uint(nodes.len() as u64);
    for (index, node) in (first..).zip(nodes) {
        let back = match node.parent {
            None => 0,
            Some(parent) => index
                .checked_sub(parent as usize)
                .filter(|&back| back > 0)
                .ok_or(WriteError::Inconsistent {
                    what: "node",
                    index,
                })?,
        };
        out.uint(back as u64);
    }
    for node in nodes {
        out.uint(node.label.0.into());
    }
    let mut last = 0;
    for node in nodes {
        match node.top {
            None => out.uint(0),
            Some(top) => {
                out.uint(1 + zigzag(i64::from(top) - last));
                last = top.into();
            }
        }
    }
    for node in nodes {
        out.uint(node.count);
    }
    Ok(out)
}

/// Appends the nodes of one chunk. Tops are checked only when the thread is
/// complete, because they may point forward.
pub(super) fn decode(input: &mut Decoder<'_>, nodes: &mut Vec<Node>) -> Result<(), ReadError> {
    let count = input.count(LEAST_BYTES)?;
    let first = nodes.len();
    if first + count > u32::MAX as usize {
        return Err(input.malformed("a thread has more than 2^32 nodes"));
    }
    nodes.reserve(count);
    for index in first..first + count {
        let back = input.u32()? as usize;
        let node = match index.checked_sub(back) {
            _ if back == 0 => Node::default(),
            None => return Err(input.malformed("a node's parent is before the first node")),
            Some(parent) => Node {
                depth: nodes[parent].depth.saturating_add(1),
                parent: Some(parent as u32),
                ..Node::default()
            },
        };
        nodes.push(node);
    }
    let added = &mut nodes[first..];
    for node in &mut *added {
        node.label = Label(input.u32()?);
    }
    let mut last = 0i64;
    for node in &mut *added {
        let code = input.uint()?;
        if let Some(delta) = code.checked_sub(1) {
            let top = last
                .checked_add(unzigzag(delta))
                .and_then(|top| u32::try_from(top).ok());
            node.top = Some(top.ok_or_else(|| input.malformed("a top node has no such index"))?);
            last = top.unwrap_or(0).into();
        }
    }
    for node in &mut *added {
        node.count = input.uint()?;
    }
    Ok(())
}
