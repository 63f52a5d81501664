//! `report --as`: what another command would have recorded, made of a trace.

use std::path::Path;

use analysis::K;
use analysis::activations::Rules;
use analysis::activations::contexts::{self, Wanted};
use analysis::cct::Recursion;
use anyhow::{Result, bail};
use image::Images;
use trace::{Cost, Mode, Recording};

use crate::branches::say;
use crate::controls;
use crate::exit_status::Ending;
use crate::flags::{Report, What};
use crate::functions::Files;
use crate::incomplete;
use crate::output::{Kind, Output};
use crate::progress::Progress;
use crate::symbolize;

/// A recording, and why parts of it are missing.
pub struct Derived {
    pub recording: Recording,
    pub failures: Vec<String>,
}

/// Says that what is made of an incomplete trace is.
fn say_what_is_missing(recording: &Recording, path: &Path) {
    let threads = recording.processes.iter().flat_map(|p| &p.threads);
    let begins = threads.filter(|thread| thread.gap.is_some()).count();
    if begins > 0 {
        let shown = path.display();
        let threads = if begins == 1 { "thread" } else { "threads" };
        say!("everypath: '{shown}': the beginning of {begins} {threads} was not kept");
    }
    incomplete::note(recording, path, true);
}

impl Report {
    fn asks_for_contexts(&self) -> bool {
        let made = &self.made;
        let is_about_calls = made.unroll_recursion || made.count_self_jumps;
        self.k.is_some() || made.k_inf || is_about_calls || !made.cost.is_empty()
    }

    /// To how many callers whole contexts are folded.
    pub fn fold(&self) -> Option<u32> {
        // Contexts that were recorded with finite k have it already.
        let is_made = self.made.what == Some(What::Contexts) && !self.made.k_inf;
        self.k.filter(|_| !is_made)
    }
}

fn contexts(flags: &Report, traced: &Recording) -> Result<(Recording, Vec<String>)> {
    let made = &flags.made;
    let costs: Vec<Cost> = match made.cost.is_empty() {
        true => vec![Cost::Instructions],
        false => crate::commands::costs_of(&made.cost),
    };
    if costs.contains(&Cost::Cycles) {
        bail!("a trace has no cycles; leave them out of --cost");
    }
    let wanted = Wanted {
        k: match flags.k.filter(|_| !made.k_inf) {
            None => K::Infinite,
            Some(callers) => K::Finite(callers),
        },
        recursion: Recursion::from(made.unroll_recursion),
        rules: Rules {
            self_jumps: made.count_self_jumps,
        },
        costs,
    };
    controls::refuse_gaps(traced, &flags.file, "--as contexts")?;
    let images = Images::new();
    let mut files = Files::new(&images);
    let progress = Progress::reading(traced, "following calls");
    let (mut recording, failures) = contexts::recording(traced, &wanted, &mut |process, at| {
        files.extents(process, at)
    });
    drop(progress);
    files.identify(&mut recording);
    symbolize::symbolize(&mut recording, &images);
    files.say_what_changed();
    Ok((recording, failures))
}

impl Derived {
    /// Derives the recording that was asked for, if any.
    pub fn of(flags: &Report, recording: Recording) -> Result<Derived> {
        let shown = flags.file.display();
        let is_trace = recording.meta.mode == Mode::Trace;
        let Some(what) = flags.made.what else {
            if is_trace {
                bail!(
                    "'{shown}': it is a trace; look at it with `everypath dump`, or make counts \
                     or contexts of it with --as"
                );
            }
            return Ok(Derived {
                recording,
                failures: Vec::new(),
            });
        };
        // Runs that were added up become one recording.
        let is_kept = what == What::Counts && flags.made.output.is_some();
        if is_kept && recording.meta.mode == Mode::Counts {
            let made = Derived {
                recording,
                failures: Vec::new(),
            };
            made.keep(flags)?;
            return Ok(made);
        }
        if !is_trace {
            bail!(
                "'{shown}': --as is about traces, and this is none; --as counts -o FILE.evp keeps the sum of \
                 several runs that were counted"
            );
        }
        if what == What::Counts && flags.asks_for_contexts() {
            bail!(
                "-k, --k-inf, --unroll-recursion, --count-self-jumps and --cost are about --as \
                 contexts"
            );
        }
        say_what_is_missing(&recording, &flags.file);
        let (recording, failures) = match what {
            What::Counts => {
                let _progress = Progress::reading(&recording, "counting");
                let (mut recording, failures) = analysis::counts::from_trace::recording(&recording);
                symbolize::name_generated(&mut recording);
                (recording, failures)
            }
            What::Contexts => contexts(flags, &recording)?,
        };
        let made = Derived {
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
