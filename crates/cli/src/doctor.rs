//! `doctor`: what of this machine matters to a run, and whether one works.
//!
//! Each line is a fact that was looked at here: nothing is assumed from versions.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};
use image::Image;
use rustix::process::{Resource, getrlimit};

use crate::commands::print;
use crate::exit_status::Ending;
use crate::flags::Doctor;

/// A fact, and whether it is as it should be.
struct Fact {
    is_good: bool,
    text: String,
}

fn good(text: String) -> Fact {
    Fact {
        is_good: true,
        text,
    }
}

fn bad(text: String) -> Fact {
    Fact {
        is_good: false,
        text,
    }
}

/// Says all facts; status 1 if a run does not work.
pub fn doctor(_: &Doctor) -> Result<Ending> {
    let run = run();
    let works = run.is_good;
    let facts = [run, memory_files(), limits(), clock(), names(), room()];
    let mut text = String::new();
    for fact in facts {
        let mark = if fact.is_good { "ok  " } else { "look" };
        let _ = writeln!(text, "{mark}  {}", fact.text);
    }
    print(text.as_bytes())?;
    Ok(Ending::Exit(if works { 0 } else { 1 }))
}

/// Runs a small program as a user would.
fn run() -> Fact {
    let Ok(own) = std::env::current_exe() else {
        return bad("/proc is not mounted here, and a run needs it".into());
    };
    let words = ["count", "--format", "json", "--", "true"];
    let output = Command::new(own).args(words).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => good("a program runs and is counted".into()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let first = said.lines().next().unwrap_or("it says nothing");
            bad(format!(
                "a program does not run ({}): {first}",
                output.status
            ))
        }
        Err(error) => bad(format!("a program cannot be started: {error}")),
    }
}

fn memory_files() -> Fact {
    let path = "/proc/sys/vm/memfd_noexec";
    match fs::read_to_string(path).map(|text| text.trim().to_owned()) {
        Ok(value) if value == "2" => bad(format!(
            "{path} is 2: files in memory may not be executed, as the engine is"
        )),
        Ok(value) => good(format!(
            "files in memory may be executed ({path} is {value})"
        )),
        Err(_) => good("files in memory may be executed (this kernel has no switch for it)".into()),
    }
}

/// Address space that the recording and the look-up of names are sure to find room in, in bytes.
const ADDRESS_SPACE: u64 = 1 << 30;

/// Refuses to run a program where the limit of address space would be met by Everypath itself,
/// and what was recorded be lost.
pub fn check_address_space() -> Result<()> {
    match getrlimit(Resource::As).current {
        Some(limit) if limit < ADDRESS_SPACE => bail!("{}", too_little(limit)),
        _ => Ok(()),
    }
}

fn too_little(limit: u64) -> String {
    format!(
        "the address space is limited to {} MB (ulimit -v), and Everypath needs {} MB of it; raise the limit, or \
         set it for the program alone: sh -c 'ulimit -v {}; exec PROGRAM'",
        limit >> 20,
        ADDRESS_SPACE >> 20,
        limit >> 10,
    )
}

fn limits() -> Fact {
    let shown = |resource, name: &str| {
        let limit = getrlimit(resource).current;
        limit.map(|limit| format!("{name} {limit}"))
    };
    if let Some(limit) = getrlimit(Resource::As)
        .current
        .filter(|&limit| limit < ADDRESS_SPACE)
    {
        return bad(too_little(limit));
    }
    let found = [
        shown(Resource::As, "address space (ulimit -v, bytes)"),
        shown(Resource::Fsize, "size of files (ulimit -f, bytes)"),
    ];
    let found: Vec<String> = found.into_iter().flatten().collect();
    let files = getrlimit(Resource::Nofile).current;
    match (found.is_empty(), files) {
        (true, Some(files)) if files < 64 => {
            bad(format!("only {files} files may be open (ulimit -n)"))
        }
        (true, _) => good("no limit of memory or files is in the way".into()),
        (false, _) => bad(format!(
            "limits: {}; the recording is a file in memory and needs room",
            found.join(", ")
        )),
    }
}

fn clock() -> Fact {
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    match has("constant_tsc") && has("nonstop_tsc") {
        true => good(
            "the time-stamp counter is steady: cycles and the order of threads mean what they say"
                .into(),
        ),
        false => bad(
            "the time-stamp counter may change its pace: --cost cycles and --order are estimates"
                .into(),
        ),
    }
}

fn names() -> Fact {
    let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    let debug = Image::open(path)
        .ok()
        .and_then(|image| image.debug_file().map(Path::to_owned));
    match (debug, path.exists()) {
        (Some(_), _) => good("libc has names and lines (its package of debug information is there)".into()),
        (None, true) => bad("libc has no names of inner functions and no lines; install its debug information (libc6-dbg)".into()),
        (None, false) => good("libc is not where Debian has it; names are as its file has them".into()),
    }
}

fn room() -> Fact {
    let folder = std::env::temp_dir();
    let shown = folder.display();
    match rustix::fs::statvfs(&folder) {
        Ok(found) => {
            let free = found.f_bavail.saturating_mul(found.f_frsize);
            let text = format!(
                "{shown} has {} free for results that find no other place",
                report::size(free)
            );
            Fact {
                is_good: free >= 64 << 20,
                text,
            }
        }
        Err(error) => bad(format!(
            "{shown}, for results that find no other place: {error}"
        )),
    }
}
