//! What contexts of basic blocks add: those blocks.

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
        code: input.blob()?.to_vec(),
    })
}
