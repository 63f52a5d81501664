//! Traces that end before their program, or begin after it: full disks, limits, rings, and
//! recorders that are killed.

use analysis::walk::{Pieces, Walk, segments};
use testkit::folder::Folder;
use trace::{End, Missing, Recording};

use super::{BINARY, chatter, read, sequences};

/// Runs `script` with the product as `$0`: what was said, and the threads that are in
/// `run.evp`, each of which has a prefix of what it has in `whole`.
fn cut_short(folder: &Folder, script: &str, whole: &Recording) -> (String, Recording) {
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"end\nend\n");
    let left = read(&folder.file("run.evp"));
    let wholes = sequences(whole);
    for sequence in sequences(&left) {
        let prefix = wholes.iter().any(|whole| whole.starts_with(&sequence));
        assert!(prefix, "{} instructions", sequence.len());
    }
    (String::from_utf8(output.stderr).unwrap(), left)
}

fn missing(recording: &Recording) -> Vec<Option<Missing>> {
    let threads = recording
        .processes
        .iter()
        .flat_map(|process| &process.threads);
    threads.map(|thread| thread.missing).collect()
}

/// A limit of file sizes is an error of a write: neither the program nor the recorder dies
/// of it, and the file has what fitted, and how all ended.
#[test]
fn a_file_that_cannot_grow_ends_where_it_must() {
    let folder = Folder::new("trace-limited");
    let whole = chatter(&folder);
    let size = std::fs::metadata(folder.file("run.evp")).unwrap().len();
    assert!(size > 600_000, "{size} bytes");
    let script = "ulimit -S -f 1100; exec setarch -R $0 trace -o run.evp -- ./chatter";
    let (said, left) = cut_short(&folder, script, &whole);
    assert!(said.contains("everypath: cannot write '"), "{said}");
    assert!(
        said.contains("/run.evp': file too large; what was recorded before that is in it\n"),
        "{said}"
    );
    assert_eq!(left.meta.end, End::Exited(0));
    assert!(missing(&left).contains(&Some(Missing::Place)));
    let now = std::fs::metadata(folder.file("run.evp")).unwrap().len();
    assert!(now <= 1100 * 512 && now > 100_000, "{now} bytes");
}

/// The program's own files are limited as natively.
#[test]
fn the_program_gets_the_signal_of_its_own_limit() {
    let folder = Folder::new("trace-xfsz");
    let script = "ulimit -f 8192; exec $0 run -q -- dd if=/dev/zero of=large bs=64k count=128";
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    use std::os::unix::process::ExitStatusExt;
    let code = output.status.signal().or(output.status.code());
    // `timeout`, which runs it here, says the signal as a shell does.
    assert!(matches!(code, Some(25 | 153)), "{output:?}");
    let size = std::fs::metadata(folder.file("large")).unwrap().len();
    assert_eq!(size, 8192 * 512);
}

/// Traces `program` with a limit, as `run.evp`: what was said, and the trace, which has no more
/// bytes and can be read.
fn limited(folder: &Folder, limit: u64, program: &[&str]) -> (String, Recording) {
    let size = limit.to_string();
    let head = [
        "-R", BINARY, "trace", "--limit", &size, "-o", "run.evp", "--",
    ];
    let output = folder.run("setarch", &[&head[..], program].concat());
    assert!(output.status.success(), "{output:?}");
    let len = std::fs::metadata(folder.file("run.evp")).unwrap().len();
    assert!(len <= limit, "{len} bytes of {limit}");
    let kept = read(&folder.file("run.evp"));
    let is_cut = missing(&kept).contains(&Some(Missing::Limit));
    for (command, is_whole) in [("verify", !is_cut), ("dump --range 1..2000", true)] {
        let name = command.split(' ').next().unwrap();
        let script = format!("$0 {command} run.evp >{name}.txt");
        let output = folder.run("/bin/sh", &["-c", &script, BINARY]);
        assert_eq!(output.status.success(), is_whole, "{output:?}");
        assert_eq!(output.stderr.is_empty(), is_whole, "{output:?}");
    }
    let said = String::from_utf8(output.stderr).unwrap();
    let (said, kept) = said.split_at(said.find("everypath: '").unwrap());
    assert!(kept.contains(", the first of "), "{kept}");
    (said.to_owned(), read(&folder.file("run.evp")))
}

/// Instructions of all threads that can be read.
fn insns(recording: &Recording) -> u64 {
    let tasks = segments::Task::all(recording);
    let counts = segments::each(recording, &tasks, segments::count);
    let sound = counts.into_iter().map(|(insns, error)| {
        assert!(error.is_none(), "{error:?}");
        insns
    });
    sound.sum()
}

const REACHED: &str = "everypath: the trace ends where --limit was reached\n";

#[test]
fn a_trace_keeps_no_more_than_its_limit() {
    let folder = Folder::new("trace-limit");
    let whole = chatter(&folder);
    let wholes = sequences(&whole);
    let mut before = 0;
    for limit in [30_000, 150_000, 400_000] {
        let (said, left) = limited(&folder, limit, &["./chatter"]);
        assert_eq!(said, REACHED);
        assert!(missing(&left).contains(&Some(Missing::Limit)));
        let kept = sequences(&left);
        for sequence in &kept {
            let prefix = wholes.iter().any(|whole| whole.starts_with(sequence));
            assert!(prefix, "{} instructions", sequence.len());
        }
        let longest = kept.iter().map(Vec::len).max().unwrap();
        assert!(longest > before, "{longest} instructions of {limit} bytes");
        before = longest;
        let verified = std::fs::read_to_string(folder.file("verify.txt")).unwrap();
        let reached = "; more is not kept: the limit of the trace was reached\n";
        assert!(verified.contains(reached), "{verified}");
        let dumped = std::fs::read_to_string(folder.file("dump.txt")).unwrap();
        assert!(dumped.contains(" _start+0x0 "));
    }
    for size in ["0", "12Q", "x"] {
        let arguments = ["trace", "--limit", size, "-o", "x.evp", "--", "./chatter"];
        let output = folder.run(BINARY, &arguments);
        assert_eq!(output.status.code(), Some(125));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("give a size as 500K, 20M or 2G"), "{error}");
    }
}

/// Programs that run much code for a short time have most of their trace in code and names.
#[test]
fn limits_are_kept_with_much_code() {
    let folder = Folder::new("trace-limit-code");
    std::fs::write(folder.file("some.c"), "int main(void) { return 0; }\n").unwrap();
    let gcc: &[&str] = &["gcc", "-O2", "-c", "some.c"];
    let python: &[&str] = &["python3", "-c", "import json; json.dumps([1, 2])"];
    for program in [gcc, python] {
        for limit in [20_000, 100_000, 1_000_000] {
            let (said, left) = limited(&folder, limit, program);
            assert!(said.starts_with(REACHED), "{said}");
            let insns = insns(&left);
            assert!(insns > limit / 10, "{program:?}: {insns} of {limit}");
        }
    }
}

/// Three threads and a child that go on while the limit is reached.
const MANY: &str = "\
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static void *work(void *seed)
{
    unsigned x = (unsigned)(long)seed;
    for (int i = 0; i < 400000; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        if (x & 1) __asm__ volatile(\"nop\");
    }
    return 0;
}
int main(void)
{
    pthread_t threads[2];
    pid_t child = fork();
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, (void *)(3 + i));
    work((void *)77);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    if (child) waitpid(child, 0, 0);
    return 0;
}
";

#[test]
fn limits_are_kept_with_threads_and_children() {
    let folder = Folder::new("trace-limit-threads");
    folder.program(&["-O1", "-pthread"], "many", MANY);
    for limit in [100_000, 200_000] {
        let (said, left) = limited(&folder, limit, &["./many"]);
        assert!(said.starts_with(REACHED), "{said}");
        assert!(insns(&left) > 30_000);
    }
}

/// Lines of source files go first, then names.
#[test]
fn names_have_no_more_room_than_there_is() {
    let folder = Folder::new("trace-limit-names");
    chatter(&folder);
    let functions = (0..2000).map(|i| {
        format!("int a_function_with_a_rather_long_name_{i}(void) {{ return {i} * 7; }}\n")
    });
    let calls = (0..2000).map(|i| format!("s += a_function_with_a_rather_long_name_{i}();\n"));
    let source = format!(
        "{}int main(void) {{ volatile int s = 0;\n{}return 0; }}\n",
        functions.collect::<String>(),
        calls.collect::<String>()
    );
    folder.program(&["-O0", "-g"], "names", &source);
    let mut said = Vec::new();
    for limit in [25_000, 1_000_000] {
        let (text, left) = limited(&folder, limit, &["./names"]);
        let dumped = std::fs::read_to_string(folder.file("dump.txt")).unwrap();
        let has_names = left
            .processes
            .iter()
            .any(|process| !process.texts.is_empty());
        let end = dumped.lines().next_back().unwrap();
        let told = "; no names of functions are kept: the limit of the trace was reached";
        assert_eq!(end.ends_with(told), !has_names, "{end}");
        assert_eq!(text.contains("no room for names of functions"), !has_names);
        said.push(text);
    }
    assert!(said[0].contains("--limit left no room for "), "{said:?}");
    assert_eq!(said[1], "");
}

/// Results of a trace that ends early say so, and so does the status; what shows a part that is
/// there does not.
#[test]
fn what_is_made_of_a_cut_trace_says_so() {
    let folder = Folder::new("trace-limit-made");
    let program = ["perl", "-e", "$s += $_ % 7 for 1..3000; print $s"];
    let limited = [
        "trace",
        "-q",
        "--memory",
        "addresses",
        "--limit",
        "60K",
        "-o",
        "cut.evp",
        "--",
    ];
    let output = folder.run(BINARY, &[&limited[..], &program].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let sentence = "everypath: 'cut.evp' is not all of the run: 1 of 1 thread ends early, as --limit was reached\n";
    let cases: [(&[&str], i32); 12] = [
        (&["report", "cut.evp", "--as", "counts"], 125),
        (&["report", "cut.evp", "--as", "contexts"], 125),
        (&["stats", "cut.evp"], 125),
        (&["raptor", "cut.evp"], 125),
        (&["caches", "cut.evp"], 125),
        (&["caches", "cut.evp", "--sharing"], 125),
        (&["dump", "cut.evp", "--din", "cut.din"], 125),
        (&["dump", "cut.evp", "--champsim", "cut.champsim"], 125),
        (&["pack", "cut.evp", "-o", "packed.evp"], 125),
        (&["verify", "cut.evp"], 1),
        (&["index", "cut.evp"], 125),
        (&["dump", "cut.evp", "--range", "1..9"], 0),
    ];
    for (arguments, status) in cases {
        let output = folder.run(BINARY, arguments);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{arguments:?}: {output:?}"
        );
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(
            said.contains(sentence),
            status != 0,
            "{arguments:?}: {said}"
        );
    }
}

/// A ring keeps the end of what each thread executes, from a keyframe on; chaos has many.
#[test]
fn a_ring_keeps_the_newest() {
    let folder = Folder::new("trace-ring");
    let whole = sequences(&chatter(&folder));
    // Somebody with the same number was killed, and left what is in the way.
    let script = ": > run.evp.$$; \
                  exec setarch -R $0 trace --chaos 3 --ring 150K -o run.evp -- ./chatter";
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains(", the newest of "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let left = read(&folder.file("run.evp"));
    let threads = || left.processes.iter().flat_map(|process| &process.threads);
    assert!(threads().any(|thread| thread.gap.is_some()));
    let mut longest = 0;
    for (sequence, thread) in sequences(&left).iter().zip(threads()) {
        let is_end = |whole: &&Vec<u64>| whole.ends_with(sequence);
        assert!(
            whole.iter().any(|whole| is_end(&whole)),
            "{}",
            sequence.len()
        );
        if thread.gap.is_some() {
            longest = longest.max(sequence.len());
        }
    }
    assert!(longest > 10_000, "{longest}");
    let size = std::fs::metadata(folder.file("run.evp")).unwrap().len();
    assert!((50_000..160_000).contains(&size), "{size} bytes");
    let files = std::fs::read_dir(folder.file(".")).unwrap().count();
    assert_eq!(
        files, 4,
        "the program, its source, the trace, what was left"
    );
    let output = folder.run(BINARY, &["verify", "run.evp"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("\n# its beginning, "), "{text}");
    let arguments = [
        "trace",
        "--ring",
        "1M",
        "-o",
        "/dev/null",
        "--",
        "./chatter",
    ];
    let output = folder.run(BINARY, &arguments);
    assert_eq!(output.status.code(), Some(125));
    let said = String::from_utf8(output.stderr).unwrap();
    let refused = "--ring needs a file, and '/dev/null' is none; nothing was run";
    assert!(said.contains(refused), "{said}");
}

/// Fills chunks of two or three lanes all the time, those of the others never.
const LOOP: &str = "\
#include <unistd.h>
int main(void)
{
    alarm(4);
    for (unsigned x = 1;; x ^= x << 13, x ^= x >> 17, x ^= x << 5)
        if (x & 0x10000)
            __asm__ volatile(\"nop\");
}
";

/// Whoever is killed, what came before is in the file, also of lanes that are hardly written.
#[test]
fn a_killed_recorder_has_written_all_lanes() {
    let folder = Folder::new("trace-lanes");
    folder.program(&["-O1"], "loop", LOOP);
    let script = "$0 trace -o run.evp -- ./loop & sleep 2; kill -9 $!; wait";
    let output = folder.run("/bin/sh", &["-c", script, BINARY]);
    assert!(output.status.success(), "{output:?}");
    let left = std::fs::File::open(folder.file("run.evp")).unwrap();
    let left = trace::read_prefix(left).unwrap().recording;
    let process = &left.processes[0];
    let mut pieces = Pieces::of(process);
    let walk = Walk::new(&mut pieces, &process.threads[0]);
    let (insns, _) = segments::count(walk);
    assert!(insns > 1_000_000, "{insns} instructions");
}

/// A device that takes nothing is refused before the run.
#[test]
fn a_place_that_is_full_is_refused() {
    let folder = Folder::new("trace-full");
    let output = folder.run(
        BINARY,
        &["trace", "-o", "/dev/full", "--", "/bin/echo", "x"],
    );
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    assert!(
        error.ends_with(": no space left on device; nothing was run\n"),
        "{error}"
    );
}

/// Standard error that takes nothing is no reason to end otherwise than the program does, or with
/// another status than where it is read.
#[test]
fn who_cannot_be_told_anything_ends_as_ever() {
    let folder = Folder::new("trace-untold");
    folder.program(&["-O1"], "seven", "int main(void) { return 7; }");
    let shell = |script: &str| {
        let output = folder.run("/bin/sh", &["-c", script, BINARY]);
        output.status.code()
    };
    let limited = "$0 trace --limit 1K -o run.evp -- ./seven 2>/dev/full";
    assert_eq!(shell(limited), Some(7));
    assert_eq!(shell("$0 verify run.evp >/dev/full 2>/dev/full"), Some(125));
    assert_eq!(shell("$0 verify nothing.evp 2>/dev/full"), Some(125));
    assert_eq!(shell("$0 --nonsense 2>/dev/full"), Some(125));
}
