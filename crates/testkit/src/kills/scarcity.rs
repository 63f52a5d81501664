//! A cgroup with little memory, in which the kernel kills whom it is told to.
//!
//! Approach: `tail /dev/zero` keeps all that it reads. When the cgroup has no more, the kernel
//! kills the process of it with the highest score, which is the victim's (`oom_score_adj`, see
//! proc(5)), and then, if that gave it too little, `tail`. Cgroups of version 1 and 2.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::Pid;

/// Enough for the program and its trace.
const MEMORY: &str = "192M";
/// Places of cgroups that limit memory, and the file of one that holds the limit.
const KINDS: [(&str, &str); 2] = [
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup", "memory.max"),
];
/// The kernel has so long to kill.
const PATIENCE: Duration = Duration::from_secs(60);

/// The cgroup; removed with what is in it.
pub struct Scarcity {
    folder: PathBuf,
}

impl Scarcity {
    pub fn new() -> Result<Scarcity, String> {
        let name = format!("everypath-kills-{}", std::process::id());
        for (parent, limit) in KINDS {
            let folder = Path::new(parent).join(&name);
            if fs::create_dir(&folder).is_err() {
                continue;
            }
            let made = Scarcity { folder };
            if fs::write(made.folder.join(limit), MEMORY).is_ok() {
                return Ok(made);
            }
        }
        Err(
            "no cgroup with a limit of memory can be made here (root can, where it is mounted)"
                .into(),
        )
    }

    /// To start `program` in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let enter = format!(
            "echo $$ > {}/cgroup.procs && exec \"$@\"",
            self.folder.display()
        );
        command.args(["-c", &enter, "sh", program]);
        command
    }

    /// Lets the kernel kill `victim`, and waits until it has killed.
    pub fn strike(&self, victim: Pid) -> Result<(), String> {
        // A process that has ended has no such file.
        let _ = fs::write(format!("/proc/{victim}/oom_score_adj"), "1000");
        let mut tail = self.command("tail");
        tail.arg("/dev/zero")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut tail = tail.spawn().map_err(|error| error.to_string())?;
        let started = Instant::now();
        // A process that nobody has waited for has no memory.
        let lives = || {
            let statm = fs::read_to_string(format!("/proc/{victim}/statm"));
            statm.is_ok_and(|pages| !pages.starts_with("0 "))
        };
        while lives() {
            if started.elapsed() > PATIENCE {
                let _ = tail.kill();
                return Err(format!("the kernel kills nobody for {PATIENCE:?}"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = tail.kill();
        tail.wait().map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Scarcity {
    fn drop(&mut self) {
        // Processes may take a moment to leave it.
        let started = Instant::now();
        while fs::remove_dir(&self.folder).is_err() && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
