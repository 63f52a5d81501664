//! Any form through gzip: many readers take it so, and it is a tenth of the size.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Writes to `out` what `write` writes, gzipped.
pub fn write(
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut packed = GzEncoder::new(out, Compression::default());
    write(&mut packed)?;
    packed.finish()?;
    Ok(())
}
