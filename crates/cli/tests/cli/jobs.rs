//! Job control: whoever starts a program under Everypath can stop it, continue it and end it,
//! and sees that, as without. Each test does the same natively and under Everypath, and
//! compares what the shell says, what the program says, and in which states processes are.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use testkit::folder::Folder;
use testkit::process::{self, is_running, is_stopped, wait_until};
use testkit::terminal::{self, Terminal};

use crate::BINARY;

/// Words before a program's, none natively.
const WAYS: [&[&str]; 3] = [
    &[],
    &["run", "-q", "--"],
    &["trace", "-q", "-o", "run.evp", "--"],
];

/// A program that says which signals it gets: those it is given, each as `got N`, and what
/// value a queued one has. Its handlers do not interrupt each other.
const HEARS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void hear(int signal, siginfo_t *info, void *context)
{
    char line[40];
    int length = info->si_code == SI_QUEUE
        ? sprintf(line, "got %d with %d\n", signal, info->si_value.sival_int)
        : sprintf(line, "got %d\n", signal);
    (void)context, (void)!write(1, line, length);
}
int main(int argc, char **argv)
{
    struct sigaction action = {.sa_sigaction = hear, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigfillset(&action.sa_mask);
    for (int i = 1; i < argc; i++)
        sigaction(atoi(argv[i]), &action, 0);
    (void)!write(1, "ready\n", 6);
    for (;;)
        pause();
}
"#;
/// A signal that the program above is given, and which comes after all others that are pending.
const LAST: i32 = 64;

/// A shell, and how it starts programs.
struct Shell {
    terminal: Terminal,
    is_native: bool,
    _folder: Folder,
}

/// The processes of a job: the one that the shell started, and the program's.
#[derive(Clone, Copy)]
struct Job {
    started: Pid,
    program: Pid,
}

impl Shell {
    fn new(name: &str, way: &[&str]) -> Shell {
        let folder = Folder::new(&format!("jobs-{name}-{}", way.len()));
        folder.program(&["-O1"], "hears", HEARS);
        let words = match way {
            [] => String::new(),
            _ => format!("{BINARY} {}", way.join(" ")),
        };
        Shell {
            terminal: Terminal::new(folder.path(), &[("ep", &words)]),
            is_native: way.is_empty(),
            _folder: folder,
        }
    }

    /// The program of that process, when it has that name.
    #[track_caller]
    fn job_of(&self, started: Pid, name: &str) -> Job {
        let program = || match self.is_native {
            true => Some(started),
            false => process::program(started),
        };
        let named = || program().filter(|program| process::name(*program).as_deref() == Some(name));
        wait_until(name, || named().is_some());
        let program = named().unwrap();
        Job { started, program }
    }

    /// The job in the foreground, when it runs that program.
    #[track_caller]
    fn foreground(&self, name: &str) -> Job {
        let shell = self.terminal.leader();
        wait_until("a job", || self.terminal.foreground() != shell);
        self.job_of(self.terminal.foreground(), name)
    }

    /// The newest one in the background.
    #[track_caller]
    fn background(&mut self, name: &str) -> Job {
        let said = self.terminal.run("echo $!");
        let pid = said.split('\n').next().unwrap().parse().unwrap();
        self.job_of(Pid::from_raw(pid), name)
    }

    /// The program that says which of these signals it gets, in the background. It is ready.
    #[track_caller]
    fn hears(&mut self, signals: &str) -> Job {
        self.terminal.enter(&format!("$ep ./hears {signals} &"));
        // The prompt may come before that, or after it.
        self.terminal.until_both("ready\n", "<0>");
        self.background("hears")
    }
}

impl Job {
    #[track_caller]
    fn stops(self) {
        self.comes_to("stopped", is_stopped);
    }

    #[track_caller]
    fn runs(self) {
        self.comes_to("running", is_running);
    }

    #[track_caller]
    fn comes_to(self, what: &str, is_so: fn(Pid) -> bool) {
        let has_come = process::until(|| is_so(self.started) && is_so(self.program));
        assert!(has_come, "they are not {what}:\n{}", self.look());
    }

    /// States and signals of all its processes.
    fn look(self) -> String {
        let others = process::children(self.started).into_iter();
        let all = [self.started, self.program].into_iter().chain(others);
        all.map(process::look).collect()
    }
}

impl Job {
    /// Sends it the last signal of all by way of the process that was started, and gives what it
    /// said until it has got that.
    #[track_caller]
    fn hears_last(self, shell: &mut Shell) -> String {
        let last = format!("-{LAST}");
        let sent = Command::new("kill")
            .args([&last, &self.started.to_string()])
            .status();
        assert!(sent.unwrap().success());
        shell.terminal.until(&format!("got {LAST}\n"))
    }
}

/// Numbers of processes, and the room in front of them, differ.
fn without_numbers(text: &str) -> String {
    let is_number = |word: &&str| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    let lines = text.split('\n').map(|line| {
        let mut words: Vec<&str> = Vec::new();
        for word in line.split(' ') {
            match is_number(&word) {
                true => {
                    while words.pop_if(|word| word.is_empty()).is_some() {}
                    words.push("PID");
                }
                false => words.push(word),
            }
        }
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Does it all in all ways; what is said has to be the same.
#[track_caller]
fn alike(name: &str, act: impl Fn(&mut Shell) -> Vec<String>) -> Vec<String> {
    let said = WAYS.map(|way| {
        let mut shell = Shell::new(name, way);
        let said = act(&mut shell);
        said.iter()
            .map(|text| without_numbers(text))
            .collect::<Vec<_>>()
    });
    let [native, run, trace] = said;
    assert_eq!(run, native, "run");
    assert_eq!(trace, native, "trace");
    native
}

#[test]
fn the_keyboard_stops_it_and_fg_continues_it() {
    let said = alike("fg", |shell| {
        let mut said = Vec::new();
        shell.terminal.enter("$ep sleep 1000");
        let job = shell.foreground("sleep");
        for _ in 0..3 {
            shell.terminal.control('Z');
            said.push(shell.terminal.prompt());
            job.stops();
            said.push(shell.terminal.run("jobs -l"));
            shell.terminal.enter("fg");
            shell.terminal.until("$ep sleep 1000\n");
            job.runs();
        }
        shell.terminal.control('C');
        said.push(shell.terminal.prompt());
        said
    });
    assert!(
        said[0].ends_with("Stopped                 $ep sleep PID\n<148>"),
        "{said:?}"
    );
    assert_eq!(said[6], "\n<130>");
}

#[test]
fn bg_continues_it() {
    let said = alike("bg", |shell| {
        let mut said = Vec::new();
        shell.terminal.enter("$ep sleep 1000");
        let job = shell.foreground("sleep");
        shell.terminal.control('Z');
        said.push(shell.terminal.prompt());
        job.stops();
        said.push(shell.terminal.run("bg"));
        job.runs();
        said.push(shell.terminal.run("jobs"));
        said.push(shell.terminal.run("kill %1; wait %1"));
        said
    });
    assert!(said[2].contains("Running"), "{said:?}");
    assert!(said[3].ends_with("<143>"), "{said:?}");
}

/// The shell is told of the end, and of no second stop.
#[test]
#[ignore = "wide: a handler that decides about the keyboard is in the gate"]
fn in_the_background_it_ends_by_itself() {
    let said = alike("ends", |shell| {
        let mut said = Vec::new();
        shell.terminal.enter("$ep sleep 3");
        let job = shell.foreground("sleep");
        for again in [true, false] {
            shell.terminal.control('Z');
            said.push(shell.terminal.prompt());
            job.stops();
            said.push(
                shell
                    .terminal
                    .run(if again { "bg; sleep 0.2" } else { "bg" }),
            );
            job.runs();
            if again {
                shell.terminal.enter("fg");
                shell.terminal.until("$ep sleep 3\n");
                wait_until("fg", || shell.terminal.foreground() == job.started);
            }
        }
        said.push(shell.terminal.run("wait %1"));
        said.push(shell.terminal.run("jobs"));
        said
    });
    assert!(
        said[4].contains("Done") && said[4].ends_with("<0>"),
        "{said:?}"
    );
    assert_eq!(said[5], "<0>");
}

/// The shell waits for a job that nobody but another process continues: it ends as natively.
#[test]
fn continued_by_another_process_it_ends_by_itself() {
    let said = alike("continued-ends", |shell| {
        shell.terminal.run("$ep sh -c 'kill -STOP $$; exit 7' &");
        let job = shell.background("sh");
        job.stops();
        kill(job.program, Signal::SIGCONT).unwrap();
        wait_until("it goes on", || !is_stopped(job.started));
        // The shell may say that it was stopped, or not any more; of one that it takes to be stopped
        // `wait` would say so at once.
        let mut tries = 0..200;
        while shell.terminal.run("jobs").contains("Stopped") && tries.next().is_some() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let said = shell.terminal.run("wait $!");
        vec![said[said.len() - 3..].to_owned()]
    });
    assert_eq!(said, ["<7>"]);
}

#[test]
fn another_process_stops_and_continues_the_program() {
    alike("another", |shell| {
        let mut said = Vec::new();
        shell.terminal.enter("$ep sleep 1000");
        let job = shell.foreground("sleep");
        kill(job.program, Signal::SIGSTOP).unwrap();
        said.push(shell.terminal.prompt());
        job.stops();
        said.push(shell.terminal.run("jobs -l"));
        for _ in 0..20 {
            kill(job.program, Signal::SIGCONT).unwrap();
            job.runs();
            kill(job.program, Signal::SIGSTOP).unwrap();
            job.stops();
        }
        kill(job.program, Signal::SIGCONT).unwrap();
        job.runs();
        shell.terminal.enter("fg");
        shell.terminal.until("$ep sleep 1000\n");
        // It says that before it gives the terminal away.
        wait_until("fg", || shell.terminal.foreground() == job.started);
        shell.terminal.control('C');
        said.push(shell.terminal.prompt());
        said
    });
}

/// Stops and continuations in a row, faster than anyone sees them: the last one counts.
#[test]
fn the_last_of_many_counts() {
    alike("many", |shell| {
        let job = shell.hears("64");
        let to_program = |signal| kill(job.program, signal).unwrap();
        let to_group = |signal| killpg(job.started, signal).unwrap();
        let to_started = |signal| kill(job.started, signal).unwrap();
        for _ in 0..50 {
            for to in [&to_program as &dyn Fn(_), &to_group] {
                for signal in [Signal::SIGSTOP, Signal::SIGCONT, Signal::SIGTSTP] {
                    to(signal);
                }
                job.stops();
                for signal in [Signal::SIGCONT, Signal::SIGSTOP, Signal::SIGCONT] {
                    to(signal);
                }
                job.runs();
                job.hears_last(shell);
            }
            to_started(Signal::SIGTSTP);
            job.stops();
            to_started(Signal::SIGCONT);
            to_started(Signal::SIGCONT);
            job.runs();
            job.hears_last(shell);
        }
        shell.terminal.run("kill -KILL %1; wait %1");
        Vec::new()
    });
}

#[test]
fn it_stops_itself_and_another_process_continues_it() {
    alike("itself", |shell| {
        let mut said = Vec::new();
        shell
            .terminal
            .run("$ep sh -c 'kill -STOP $$; echo it goes on' &");
        let job = shell.background("sh");
        job.stops();
        said.push(shell.terminal.run("jobs -l"));
        kill(job.program, Signal::SIGCONT).unwrap();
        said.push(shell.terminal.until("it goes on\n"));
        // Before the shell hears of it, it does not wait for it.
        wait_until("the end", || process::has_ended(job.started));
        shell.terminal.enter("wait %1; echo ended with $?");
        shell.terminal.until("ended with 0\n");
        said
    });
}

/// Each signal once, whoever it was sent to: the program, the process that was started, or
/// the group.
#[test]
fn handlers_run_as_often_as_natively() {
    alike("handlers", |shell| {
        let mut said = Vec::new();
        let job = shell.hears("1 10 15 18 40 64");
        for signal in [
            Signal::SIGHUP,
            Signal::SIGUSR1,
            Signal::SIGTERM,
            Signal::SIGCONT,
        ] {
            for _ in 0..20 {
                kill(job.program, signal).unwrap();
                said.push(job.hears_last(shell));
                kill(job.started, signal).unwrap();
                said.push(job.hears_last(shell));
                killpg(job.started, signal).unwrap();
                said.push(job.hears_last(shell));
            }
        }
        for value in 0..10 {
            let (value, pid) = (value.to_string(), job.started.to_string());
            let queued = ["-q", &value, "-s", "40", "--", &pid];
            assert!(
                Command::new("/bin/kill")
                    .args(queued)
                    .status()
                    .unwrap()
                    .success()
            );
            said.push(job.hears_last(shell));
        }
        shell.terminal.run("kill -KILL %1; wait %1");
        said
    });
}

/// As pkill(1) does: all processes that have the name are signalled, and the program has another.
#[test]
fn all_of_everypath_are_signalled_by_name() {
    for way in &WAYS[1..] {
        let mut shell = Shell::new("name", way);
        let job = shell.hears("15 64");
        let observer = process::observer(job.started).unwrap();
        for pid in process::children(job.started)
            .into_iter()
            .chain([job.started])
        {
            assert_eq!(process::name(pid).as_deref(), Some("everypath"));
            kill(pid, Signal::SIGTERM).unwrap();
        }
        shell.terminal.until("got 15\n");
        kill(observer, Signal::SIGTERM).unwrap();
        shell.terminal.until("got 15\n");
        shell.terminal.run("kill -KILL %1; wait %1");
    }
}

#[test]
fn whoever_is_stopped_both_are_and_handlers_run_once() {
    let said = alike("whoever", |shell| {
        let mut said = Vec::new();
        let job = shell.hears("18 64");
        let ways: [fn(Job, Signal); 3] = [
            |job, signal| kill(job.program, signal).unwrap(),
            |job, signal| kill(job.started, signal).unwrap(),
            |job, signal| killpg(job.started, signal).unwrap(),
        ];
        for stop in [
            Signal::SIGSTOP,
            Signal::SIGTSTP,
            Signal::SIGTTIN,
            Signal::SIGTTOU,
        ] {
            for stops in ways {
                for continues in ways {
                    stops(job, stop);
                    job.stops();
                    continues(job, Signal::SIGCONT);
                    job.runs();
                    said.push(job.hears_last(shell));
                }
            }
        }
        shell.terminal.run("kill -KILL %1; wait %1");
        said
    });
    let heard: Vec<_> = said
        .iter()
        .map(|said| said.matches("got 18\n").count())
        .collect();
    assert_eq!(heard, [1; 36]);
}

#[test]
fn a_handler_decides_about_the_keyboard() {
    alike("decides", |shell| {
        let mut said = Vec::new();
        shell.terminal.enter("$ep ./hears 2 20 64");
        shell.terminal.until("ready\n");
        let job = shell.foreground("hears");
        for letter in ['Z', 'C', 'Z'] {
            shell.terminal.control(letter);
            said.push(shell.terminal.until("\n"));
            assert!(is_running(job.started) && is_running(job.program));
        }
        shell.terminal.control('\\');
        said.push(shell.terminal.prompt());
        // As editors do: tidy up, then stop.
        // It waits by turns: a signal right before `signal.pause()` would leave it waiting.
        let editor = "import os, signal, time\n\
            def stop(*_):\n    print('tidy', flush=True)\n    os.kill(os.getpid(), signal.SIGSTOP)\n    \
            print('again', flush=True)\n\
            signal.signal(signal.SIGTSTP, stop)\n\
            print('ready', flush=True)\n\
            while True: time.sleep(0.05)\n";
        shell
            .terminal
            .enter(&format!("$ep python3 -c \"{editor}\""));
        shell.terminal.until("ready\n");
        let job = shell.foreground("python3");
        shell.terminal.control('Z');
        let text = shell.terminal.prompt();
        said.push(text.split("Stopped").next().unwrap().to_owned());
        job.stops();
        shell.terminal.enter("fg");
        shell.terminal.until("again\n");
        job.runs();
        shell.terminal.control('\\');
        said.push(shell.terminal.prompt());
        said
    });
}

#[test]
fn the_terminal_stops_who_is_in_the_background() {
    let said = alike("background", |shell| {
        let mut said = Vec::new();
        shell.terminal.run("$ep cat &");
        let job = shell.background("cat");
        job.stops();
        said.push(shell.terminal.run("jobs -l"));
        shell.terminal.enter("fg");
        shell.terminal.until("$ep cat\n");
        job.runs();
        shell.terminal.enter("a line");
        said.push(shell.terminal.until("a line\n"));
        shell.terminal.control('D');
        said.push(shell.terminal.prompt());
        shell.terminal.run("stty tostop");
        shell.terminal.run("$ep sh -c 'echo $0 said' who &");
        let job = shell.background("sh");
        job.stops();
        said.push(shell.terminal.run("jobs -l"));
        shell.terminal.enter("fg");
        said.push(shell.terminal.until("who said\n"));
        said.push(shell.terminal.prompt());
        said
    });
    assert!(said[0].contains("(tty input)"), "{said:?}");
    assert!(said[3].contains("(tty output)"), "{said:?}");
}

#[test]
fn all_of_a_pipeline_do_the_same() {
    alike("pipeline", |shell| {
        let mut said = Vec::new();
        shell
            .terminal
            .enter("$ep cat | ${ep/run.evp/second.evp} cat");
        let first = shell.foreground("cat");
        let shells = || process::children(shell.terminal.leader());
        wait_until("both", || shells().len() == 2);
        let second = shell.job_of(
            shells()
                .into_iter()
                .find(|pid| *pid != first.started)
                .unwrap(),
            "cat",
        );
        shell.terminal.enter("one");
        said.push(shell.terminal.until("one\n"));
        for _ in 0..2 {
            shell.terminal.control('Z');
            said.push(shell.terminal.prompt());
            first.stops();
            second.stops();
            shell.terminal.enter("fg");
            shell.terminal.until("cat\n");
            first.runs();
            second.runs();
            shell.terminal.enter("two");
            said.push(shell.terminal.until("two\n"));
        }
        shell.terminal.control('D');
        said.push(shell.terminal.prompt());
        said
    });
}

#[test]
fn timeout_stops_waiting() {
    alike("timeout", |shell| {
        let mut said = Vec::new();
        // It has a group of its own, which is not in the foreground. Natively, too, sh does not
        // always say that it was terminated (3 of 200 times), so that is not looked at.
        let line = "sh -c \"timeout 1000 $ep cat; exit \\$?\" 2> /dev/null";
        shell.terminal.enter(line);
        let child = |pid| process::children(pid).first().copied();
        let timeout = || child(child(shell.terminal.leader())?);
        let started = || timeout().and_then(child);
        wait_until("its child", || started().is_some());
        let timeout = timeout().unwrap();
        let job = shell.job_of(started().unwrap(), "cat");
        job.stops();
        // As it does itself when the time is over.
        kill(timeout, Signal::SIGTERM).unwrap();
        said.push(shell.terminal.prompt());
        wait_until("the end", || process::has_ended(job.program));
        said.push(shell.terminal.run("timeout -s KILL 0.1 $ep sleep 1000"));
        said.push(shell.terminal.run("timeout -k 1000 0.1 $ep sleep 1000"));
        said.push(
            shell
                .terminal
                .run("timeout --foreground 0.1 $ep sleep 1000"),
        );
        said
    });
}

#[test]
fn a_shell_within_suspends_itself() {
    alike("within", |shell| {
        let mut said = Vec::new();
        shell
            .terminal
            .enter("$ep bash --norc --noprofile --noediting -i");
        shell.terminal.until("<0>");
        said.push(shell.terminal.run("suspend -f"));
        shell.terminal.enter("fg");
        said.push(shell.terminal.until(" -i\n"));
        said.push(shell.terminal.prompt());
        shell.terminal.enter("sleep 1000");
        let is_named = |pid| process::name(pid).as_deref() == Some("sleep");
        wait_until("a job within", || is_named(shell.terminal.foreground()));
        let within = shell.terminal.foreground();
        shell.terminal.control('Z');
        said.push(shell.terminal.prompt());
        shell.terminal.enter("fg");
        shell.terminal.until("sleep 1000\n");
        wait_until("it goes on", || {
            shell.terminal.foreground() == within && is_running(within)
        });
        shell.terminal.control('C');
        said.push(shell.terminal.prompt());
        shell.terminal.enter("exit 3");
        shell.terminal.until("<3>");
        said
    });
}

#[test]
fn who_is_killed_while_stopped_is_gone() {
    let said = alike("killed", |shell| {
        let mut said = Vec::new();
        let victims: [fn(Job) -> Pid; 2] = [|job| job.program, |job| job.started];
        for victim in victims {
            shell.terminal.enter("$ep sleep 1000");
            let job = shell.foreground("sleep");
            let observer = process::observer(job.started);
            shell.terminal.control('Z');
            shell.terminal.prompt();
            job.stops();
            kill(victim(job), Signal::SIGKILL).unwrap();
            wait_until("the end", || process::state(job.started).is_none());
            shell.terminal.enter("wait %1; echo ended with $?");
            said.push(shell.terminal.until("ended with 137\n"));
            shell.terminal.prompt();
            wait_until("the end", || process::has_ended(job.program));
            if let Some(observer) = observer {
                wait_until("the end", || process::has_ended(observer));
            }
            // All is recorded, whoever was killed.
            if !shell.is_native && shell._folder.file("run.evp").exists() {
                let output = shell._folder.run(BINARY, &["verify", "run.evp"]);
                assert!(output.status.success(), "{output:?}");
            }
        }
        said
    });
    assert!(said[0].contains("Killed"), "{said:?}");
}

/// Without a shell the group is orphaned, and the kernel stops nobody in it but by SIGSTOP.
#[test]
fn an_orphaned_group_is_stopped_by_sigstop_only() {
    let folder = Folder::new("jobs-orphaned");
    folder.program(&["-O1"], "hears", HEARS);
    for way in WAYS {
        let mut command = terminal::session();
        match way {
            [] => &mut command,
            _ => command.arg(BINARY).args(way),
        };
        command.args(["./hears", "64"]).current_dir(folder.path());
        let mut terminal = Terminal::of(command);
        terminal.until("ready\n");
        let started = terminal.leader();
        let program = match way {
            [] => started,
            _ => process::program(started).unwrap(),
        };
        let job = Job { started, program };
        for to in [started, program] {
            kill(to, Signal::SIGTSTP).unwrap();
            let sent = Command::new("kill")
                .args(["-64", &started.to_string()])
                .status();
            assert!(sent.unwrap().success());
            terminal.until("got 64\n");
            job.runs();
            kill(to, Signal::SIGSTOP).unwrap();
            job.stops();
            kill(to, Signal::SIGCONT).unwrap();
            job.runs();
        }
        kill(started, Signal::SIGTERM).unwrap();
        assert_eq!(terminal.wait().signal(), Some(15), "{way:?}");
    }
}

/// The kernel tells the session's leader alone, by two signals.
#[test]
fn a_terminal_hangs_up() {
    let folder = Folder::new("jobs-hangs-up");
    folder.program(&["-O1"], "hears", HEARS);
    for way in WAYS {
        let mut command = terminal::session();
        command.args(["--ctty", "sh", "-c", "exec >heard; exec \"$@\"", "sh"]);
        match way {
            [] => &mut command,
            _ => command.arg(BINARY).args(way),
        };
        command
            .args(["./hears", "1", "18"])
            .current_dir(folder.path());
        let mut terminal = Terminal::of(command);
        let heard = || std::fs::read_to_string(folder.file("heard")).unwrap_or_default();
        wait_until("it runs", || heard() == "ready\n");
        terminal.hang_up();
        wait_until("it hears", || heard().lines().count() == 3);
        assert_eq!(heard(), "ready\ngot 1\ngot 18\n", "{way:?}");
        kill(terminal.leader(), Signal::SIGTERM).unwrap();
        assert_eq!(terminal.wait().signal(), Some(15), "{way:?}");
        std::fs::remove_file(folder.file("heard")).unwrap();
    }
}

/// Signals that come before there is a program, and an alarm set before the exec.
#[test]
fn who_is_signalled_at_once_ends_by_it() {
    let folder = Folder::new("jobs-at-once");
    for way in WAYS {
        let command = || {
            let mut command = match way {
                [] => Command::new("sleep"),
                _ => {
                    let mut command = Command::new(BINARY);
                    command.args(way).arg("sleep");
                    command
                }
            };
            command.arg("1000").current_dir(folder.path());
            command.stderr(Stdio::null()).process_group(0);
            command
        };
        for round in 0..40 {
            let mut child = command().spawn().unwrap();
            let pid = Pid::from_raw(child.id().cast_signed());
            std::thread::sleep(std::time::Duration::from_micros(300 * round));
            match round % 2 {
                0 => kill(pid, Signal::SIGTERM).unwrap(),
                _ => killpg(pid, Signal::SIGTERM).unwrap(),
            }
            assert_eq!(child.wait().unwrap().signal(), Some(15), "{way:?}");
        }
        let alarm = "import os, signal, sys\n\
            signal.setitimer(signal.ITIMER_REAL, 0.2)\nos.execvp(sys.argv[1], sys.argv[1:])";
        let command = command();
        let mut python = Command::new("python3");
        python
            .args(["-c", alarm])
            .arg(command.get_program())
            .args(command.get_args());
        let status = python.current_dir(folder.path()).status().unwrap();
        assert_eq!(status.signal(), Some(14), "{way:?}");
    }
}
