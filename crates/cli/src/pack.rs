//! `pack`: a trace as small as its branches can be foreseen.

use std::fs;

use analysis::walk::packed::{self, Refused};
use anyhow::{Result, bail};

use crate::exit_status::Ending;
use crate::flags::Pack;
use crate::output::{Kind, Output};
use crate::progress::Progress;
use crate::traces::read_trace;

pub fn pack(flags: &Pack) -> Result<Ending> {
    let shown = flags.file.display();
    let output = Output::prepare(&flags.output, Kind::Recording)?;
    let (recording, is_sound) = read_trace(&flags.file)?;
    if !is_sound {
        bail!("'{shown}' is not packed, as what is damaged would be gone for good");
    }
    let progress = Progress::new(flags.quiet);
    progress.reads(&recording, "packing");
    let packed = packed::pack(&recording, packed::SEGMENT).and_then(|(packed, digests)| {
        progress.reads(&packed, "reading what was packed");
        packed::check(&packed, &digests).map(|()| packed)
    });
    let packed = match packed {
        Ok(packed) => packed,
        Err(Refused::IsPacked) => bail!("'{shown}' is packed already"),
        Err(Refused::Unsound(tid, error)) => {
            bail!("'{shown}': thread {tid} cannot be read: {error}; see `everypath verify`")
        }
        Err(Refused::Differs(tid)) => bail!(
            "'{shown}' is not packed: thread {tid} would not be read as it is. \
             This is a bug of everypath; the trace is as it was"
        ),
    };
    let mut packed = packed;
    progress.reads(&packed, "compressing memory accesses");
    trace::compress_memory(&mut packed)?;
    progress.says("writing the packed trace");
    output.replace(|out| trace::write_small(&packed, out))?;
    drop(progress);
    if !flags.quiet {
        let size = |path| fs::metadata(path).map_or(0, |file| file.len());
        let (before, after) = (size(&flags.file), size(&flags.output));
        say!(
            "everypath: {before} bytes in '{shown}', {after} in '{}'",
            flags.output.display()
        );
    }
    Ok(Ending::Exit(0))
}
