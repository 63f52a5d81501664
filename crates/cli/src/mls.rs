//! `dump --mls`: a trace as the values that it loaded and stored.

use std::cell::RefCell;

use anyhow::{Result, anyhow, bail};
use report::{mcf, mls};

use crate::branches::say;
use crate::descriptors::Sink;
use crate::exit_status::Ending;
use crate::flags::{DescriptorForm, Dump};
use crate::progress::Progress;
use crate::traces::{check_thread, read_trace};

pub fn dump(flags: &Dump, form: DescriptorForm) -> Result<Ending> {
    let form = match form {
        DescriptorForm::Binary => mcf::Form::Binary,
        DescriptorForm::Ascii => mcf::Form::Ascii,
    };
    if form == mcf::Form::Binary && flags.mcf.disasm {
        bail!("binary descriptors have no place for instructions; use --mls ascii");
    }
    let view = mls::View {
        form,
        disassemble: flags.mcf.disasm,
        range: flags.range.clone().unwrap_or(1..u64::MAX),
        stores: flags.mcf.stores,
    };
    let sink = Sink::wanted(&flags.mcf.packing, flags.mcf.output.as_deref())?;
    sink.check_terminal(form)?;
    let (recording, _) = read_trace(&flags.file)?;
    check_thread(&recording, &flags.file, flags.thread)?;
    let shown = flags.file.display();
    let selection = analysis::walk::selection(&recording);
    let Some(selection) = selection.filter(|selection| selection.values) else {
        bail!("'{shown}' has no values; record it with --memory values");
    };
    if !selection.loads || view.stores && !selection.stores {
        let missing = if selection.loads { "stores" } else { "loads" };
        bail!("'{shown}' has no {missing}; record it without --loads and --stores");
    }
    let progress = sink.output.is_some();
    let progress = progress.then(|| Progress::reading(&recording, "writing descriptors"));
    let threads = mcf::threads(&recording, flags.thread);
    let threads = threads.map_err(|error| anyhow!("'{shown}': {error}"))?;
    let written = RefCell::new(mls::Written::default());
    let ending = sink.send(form, |out| {
        *written.borrow_mut() = mls::write(&threads, selection, &view, out)?;
        Ok(())
    })?;
    drop(progress);
    let written = written.take();
    if written.unknown > 0 {
        let all = written.loads + written.stores;
        let unknown = written.unknown;
        say!("everypath: {unknown} of {all} values are not known, and 0 (docs/limits.md)");
    }
    Ok(say(&flags.file, written.failures, ending))
}
