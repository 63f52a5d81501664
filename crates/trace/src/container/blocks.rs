//! Chunks of contexts of basic blocks: the blocks, and their columns, which came later, in chunks
//! of their own that older readers pass over.

use super::codec::{Decoder, Encoder};
use crate::error::ReadError;
use crate::model::Block;

pub(super) fn put(out: &mut Encoder, block: &Block) {
    out.uint(block.id.into());
    out.option(block.function.as_deref(), Encoder::text);
    out.uint(block.offset);
    out.blob(&block.code);
}

pub(super) fn get(input: &mut Decoder<'_>) -> Result<Block, ReadError> {
    Ok(Block {
        id: input.u32()?,
        function: input.option(Decoder::text)?,
        offset: input.uint()?,
        column: None,
        code: input.blob()?.to_vec(),
    })
}

/// 0: not known.
pub(super) fn put_column(out: &mut Encoder, block: &Block) {
    out.uint(block.column.unwrap_or(0).into());
}

/// Columns of some blocks in a row, the first of which the chunk names. False, and nothing is
/// changed, if there are not so many.
pub(super) fn get_columns(
    input: &mut Decoder<'_>,
    blocks: &mut [Block],
) -> Result<bool, ReadError> {
    let first = input.uint()?;
    let mut columns = Vec::new();
    while !input.is_empty() {
        columns.push(input.u32()?);
    }
    let at = usize::try_from(first).unwrap_or(usize::MAX);
    let left = blocks.get_mut(at..).unwrap_or_default();
    if columns.len() > left.len() {
        return Ok(false);
    }
    for (block, column) in left.iter_mut().zip(columns) {
        block.column = (column != 0).then_some(column);
    }
    Ok(true)
}
