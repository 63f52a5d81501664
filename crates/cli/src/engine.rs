//! The engine, as this crate sees it. Stands in for crate `launch` until that
//! exists: same names, and a `run` that says so.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What to run, and how.
#[derive(Debug)]
pub struct Request {
    pub program: PathBuf,
    pub argv: Vec<OsString>,
    pub mode: wire::Mode,
    pub k: Option<u32>,
    pub flags: u32,
    pub chaos: Option<u64>,
    pub max_nodes: u64,
}

/// Whoever knows which functions a file holds.
pub trait Tables {
    fn table(&mut self, path: &Path) -> Vec<wire::FuncEntry>;
}

#[derive(Clone, Copy, Debug)]
pub enum Ended {
    Exited(i32),
    Signaled { signal: i32, core: bool },
}

#[derive(Debug)]
pub struct OwnedPool(std::convert::Infallible);

impl OwnedPool {
    pub fn view(&self) -> wire::view::Pool {
        match self.0 {}
    }
}

#[derive(Debug)]
pub struct Run {
    pub ended: Ended,
    pub pool: OwnedPool,
    pub duration: Duration,
    pub started: SystemTime,
    pub warnings: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("this build has no engine")]
pub struct LaunchError;

impl LaunchError {
    pub fn exit_code(&self) -> u8 {
        125
    }
}

pub fn run(_request: &Request, _tables: &mut dyn Tables) -> Result<Run, LaunchError> {
    Err(LaunchError)
}
