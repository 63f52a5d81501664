//! Readers of a trace that belong to the run that makes it: predictors of branches, which may
//! follow it, and the descriptors of mlsTrace and mlvCFiat, for which it is read when the program has
//! ended.
//!
//! Invariants: what cannot be written is refused before the run; after it, nothing that goes wrong
//! here changes how it ends.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use trace::Recording;

use crate::flags::Trace;
use crate::progress::Progress;
use crate::raptor::live::Predictors;
use crate::{cfiat, mls};

pub enum Reader {
    Predictors(Box<Predictors>),
    Values(Box<mls::Descriptors>),
    FirstAccess(Box<cfiat::Descriptors>),
}

impl Reader {
    /// The reader that was asked for, if it can be had.
    pub fn wanted(flags: &Trace) -> Result<Option<Reader>> {
        let predictors = Predictors::wanted(flags)?.map(Box::new);
        let values = mls::Descriptors::wanted(flags)?.map(Box::new);
        let first = cfiat::Descriptors::wanted(flags)?.map(Box::new);
        let values = values.map(Reader::Values);
        let first = first.map(Reader::FirstAccess);
        Ok(predictors.map(Reader::Predictors).or(values).or(first))
    }

    /// Reader of the trace while it is made; `None`: it is read later.
    pub fn follow(&self) -> Option<Arc<dyn trace::Follow>> {
        match self {
            Reader::Predictors(predictors) => predictors.follow(),
            Reader::Values(_) | Reader::FirstAccess(_) => None,
        }
    }

    /// A path for files that are to be where the descriptors go.
    pub fn beside(&self) -> PathBuf {
        match self {
            Reader::Predictors(predictors) => predictors.beside(),
            Reader::Values(descriptors) => descriptors.beside(),
            Reader::FirstAccess(descriptors) => descriptors.beside(),
        }
    }

    /// The option that asked for it.
    pub fn option(&self) -> &'static str {
        match self {
            Reader::Predictors(_) => "--shared",
            Reader::Values(_) => "--mls",
            Reader::FirstAccess(_) => "--cfiat",
        }
    }

    /// When the program has ended: has everything written, and says what there is to say; how many
    /// instructions were traced. If it does not follow, `recording` is the whole trace.
    pub fn finish(self, recording: &Recording, progress: Progress) -> u64 {
        progress.says(match self {
            Reader::Predictors(_) => "predicting branches",
            Reader::Values(_) | Reader::FirstAccess(_) => "writing descriptors",
        });
        match self {
            Reader::Predictors(predictors) => predictors.finish(recording, progress),
            Reader::Values(descriptors) => descriptors.finish(recording, progress),
            Reader::FirstAccess(descriptors) => descriptors.finish(recording, progress),
        }
    }
}
