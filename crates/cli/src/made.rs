//! `report --as`: what another command would have recorded, made of a trace.

use anyhow::{Result, bail};
use trace::{Mode, Recording};

use crate::branches::say;
use crate::ending::Ending;
use crate::flags::{Report, What};
use crate::output::{Kind, Output};

/// A recording, and why parts of it are missing.
pub struct Made {
    pub recording: Recording,
    pub failures: Vec<String>,
}

impl Made {
    /// Of what was read, if it was asked for.
    pub fn of(flags: &Report, recording: Recording) -> Result<Made> {
        let shown = flags.file.display();
        let is_trace = recording.meta.mode == Mode::Trace;
        let Some(what) = flags.made.what else {
            if is_trace {
                bail!(
                    "'{shown}': it is a trace; look at it with `everypath dump`, or make counts \
                     of it with --as counts"
                );
            }
            return Ok(Made {
                recording,
                failures: Vec::new(),
            });
        };
        if !is_trace {
            bail!("'{shown}': --as is about traces, and this is none");
        }
        let (recording, failures) = match what {
            What::Counts => analysis::counts::from_trace::recording(&recording),
        };
        let made = Made {
            recording,
            failures,
        };
        made.keep(flags)?;
        Ok(made)
    }

    fn keep(&self, flags: &Report) -> Result<()> {
        let Some(path) = &flags.made.output else {
            return Ok(());
        };
        let output = Output::prepare(path, Kind::Recording)?;
        output.replace(|out| {
            trace::write(&self.recording, out)
                .map_err(|error| std::io::Error::other(error.to_string()))
        })
    }

    /// How the command ends, once all is shown.
    pub fn end(self, flags: &Report, ending: Ending) -> Ending {
        say(&flags.file, self.failures, ending)
    }
}
