//! `--thesis`: files and consoles as those of the tools of the mTrace thesis, and instructions of
//! all threads counted together.

use testkit::folder::Folder;

use crate::BINARY;

/// Two threads that wait for each other some times.
const PROGRAM: &str = "#include <pthread.h>\n\
    static pthread_barrier_t b; static int all[2];\n\
    static int fib(int n){return n<2?n:fib(n-1)+fib(n-2);}\n\
    static void *work(void *p){for(int i=0;i<40;i++){if(i%8==0)pthread_barrier_wait(&b);\n\
    *(int*)p+=fib(7);}return 0;}\n\
    int main(void){pthread_t t;pthread_barrier_init(&b,0,2);\n\
    pthread_create(&t,0,work,all);work(all+1);pthread_join(t,0);\n\
    return all[0]!=40*13||all[1]!=40*13;}\n";

#[track_caller]
fn printed(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.run(BINARY, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn traced(name: &str, options: &[&str]) -> Folder {
    let folder = Folder::new(name);
    folder.program(&["-O1", "-pthread"], "prog", PROGRAM);
    let head = [&["trace", "-q", "-o", "run.evp"], options].concat();
    printed(&folder, &[&head[..], &["--", "./prog"]].concat());
    folder
}

fn read(folder: &Folder, name: &str) -> String {
    std::fs::read_to_string(folder.file(name)).unwrap()
}

/// Names of files that a tool made, and what they are behind the time.
fn made(folder: &Folder, tool: &str) -> Vec<String> {
    let files = std::fs::read_dir(folder.path()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(tool)).collect();
    names.sort();
    names
}

/// `2013_8_31_15.4.1`, and what comes behind it.
fn after_time<'a>(name: &'a str, tool: &str) -> &'a str {
    let rest = name
        .strip_prefix(tool)
        .unwrap()
        .strip_prefix(".out")
        .unwrap();
    let is_end =
        |(at, letter): &(usize, char)| letter.is_ascii_alphabetic() && rest[..*at].ends_with('.');
    let (end, _) = rest.char_indices().find(is_end).unwrap();
    let (date, time) = rest[..end - 1].rsplit_once('_').unwrap();
    let numbers = |text: &str, at| -> Vec<u32> {
        text.split(at)
            .map(|number| number.parse().unwrap())
            .collect()
    };
    let (date, time) = (numbers(date, '_'), numbers(time, '.'));
    assert!(date[0] >= 2025 && (1..=12).contains(&date[1]) && (1..=31).contains(&date[2]));
    assert!(time[0] < 24 && time[1] < 60 && time[2] < 61 && date.len() + time.len() == 6);
    &rest[end..]
}

/// Lines `thread begin` name the threads that the trace has.
fn begins(folder: &Folder, prefix: &str) -> String {
    let verified = printed(folder, &["verify", "run.evp"]);
    let threads = verified.lines().filter_map(|line| {
        let (_, rest) = line.split_once(", thread ")?;
        let digits = rest.find(|letter: char| !letter.is_ascii_digit());
        Some(&rest[..digits.unwrap_or(rest.len())])
    });
    let lines = threads.enumerate();
    lines
        .map(|(number, tid)| format!("{prefix}thread begin {number} {tid}\n"))
        .collect()
}

#[test]
fn mcftrace_names_its_files_by_the_time() {
    let folder = traced("thesis-mcftrace", &[]);
    let plain = printed(&folder, &["dump", "run.evp", "--mcf", "ascii"]);
    let said = printed(&folder, &["dump", "run.evp", "--mcf", "ascii", "--thesis"]);
    let names = made(&folder, "mcfTrace");
    let ends: Vec<&str> = names
        .iter()
        .map(|name| after_time(name, "mcfTrace"))
        .collect();
    assert_eq!(ends, ["Statistics", "txt"]);
    let expected = format!(
        "mcfTrace: Writing to ASCII file: {}\nmcfTrace: mcfTrace descriptors -\n\
         \tThread ID, Instruction Address, Target Address, Type & Outcome\n{}",
        names[1],
        begins(&folder, "mcfTrace: "),
    );
    assert_eq!(said, expected);
    assert!(said.contains("thread begin 1 "), "{said}");
    assert_eq!(read(&folder, &names[1]), plain);
    let statistics = read(&folder, &names[0]);
    assert_eq!(
        statistics,
        printed(&folder, &["stats", "run.evp", "--format", "mcf"])
    );
    let last = statistics.lines().last().unwrap();
    let time = last
        .strip_prefix("mcfTrace: Instrumentation Time ")
        .unwrap();
    assert!(time.strip_suffix(" ms").unwrap().parse::<f64>().unwrap() > 0.0);
    // Names that the user gives are kept, and what says the form is no part of the name beside.
    let named = [
        "dump",
        "run.evp",
        "--mcf",
        "binary",
        "--thesis",
        "-o",
        "fft.bin.gz",
    ];
    printed(&folder, &named);
    assert_eq!(read(&folder, "fft.Statistics"), statistics);
    assert_eq!(
        std::fs::read(folder.file("fft.bin.gz")).unwrap()[..2],
        [0x1f, 0x8b]
    );
}

/// Whoever is as quick as the clock has a name of its own.
#[test]
fn names_are_taken_once() {
    let folder = traced("thesis-names", &[]);
    let script = "for i in 1 2 3 4; do $0 raptor run.evp --thesis -c xz > said.$i & done; wait";
    assert!(
        folder
            .run("/bin/sh", &["-c", script, BINARY])
            .status
            .success()
    );
    let names = made(&folder, "mcfTRaptor");
    assert_eq!(names.len(), 8, "{names:?}");
    let is_full = |name: &String| std::fs::metadata(folder.file(name)).unwrap().len() > 0;
    assert!(names.iter().all(is_full));
    assert_eq!(
        names
            .iter()
            .filter(|name| name.ends_with(".bin.xz"))
            .count(),
        4
    );
    // A command that fails leaves none.
    let output = folder.run(BINARY, &["raptor", "no.evp", "--thesis"]);
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(made(&folder, "mcfTRaptor").len(), 8);
}

#[test]
fn mcftraptor_has_statistics_beside() {
    let folder = traced("thesis-mcftraptor", &[]);
    let said = printed(
        &folder,
        &[
            "raptor", "run.evp", "--thesis", "-o", "out.txt", "--form", "ascii",
        ],
    );
    let head = format!(
        "mcfTRaptor: Writing to ASCII file: out.txt\nmcfTRaptor: mcfTRaptor descriptors -\n\
         \tMispredicted outcomes for direct conditional branches: Thread ID, bCnt\n\
         \tMispredicted targets for indirect unconditional branches: Thread ID, bCnt, T, Target \
         Address\n\
         \tExceptions: Thread ID, bCnt, iCnt, Target Address\n{}",
        begins(&folder, "mcfTRaptor: Private TRaptor "),
    );
    assert!(said.starts_with(&head), "{said}");
    let statistics = read(&folder, "out.Statistics");
    let lines: Vec<&str> = statistics.lines().collect();
    assert!(
        lines[0].starts_with("mcfTRaptor: Instrumentation Time "),
        "{statistics}"
    );
    assert_eq!(lines[1], "mcfTRaptor: Skipped 0 instructions");
    assert!(lines[2].starts_with("mcfTRaptor: Recorded "));
    assert_eq!((lines.len(), lines[9]), (10, "0 exceptions"));
    assert!(said.ends_with(&statistics), "{said}");
}

/// While the program runs: standard output is the program's.
#[test]
fn mcftraptor_follows_a_program() {
    let folder = traced("thesis-live", &[]);
    let live = [
        "trace", "--raptor", "--thesis", "--skip", "1000", "--", "./prog",
    ];
    let output = folder.run(BINARY, &live);
    assert!(
        output.status.success() && output.stdout.is_empty(),
        "{output:?}"
    );
    let said = String::from_utf8(output.stderr).unwrap();
    let names = made(&folder, "mcfTRaptor");
    let ends: Vec<&str> = names
        .iter()
        .map(|name| after_time(name, "mcfTRaptor"))
        .collect();
    assert_eq!(ends, ["Statistics", "bin"]);
    let first = format!("mcfTRaptor: Writing to binary file: {}\n", names[1]);
    assert!(said.starts_with(&first), "{said}");
    assert!(
        said.contains("\nmcfTRaptor: Private TRaptor thread begin 1 "),
        "{said}"
    );
    let statistics = read(&folder, &names[0]);
    assert!(
        statistics.contains("\nmcfTRaptor: Skipped 2000 instructions\n"),
        "{statistics}"
    );
    assert!(said.ends_with(&statistics));
    assert!(std::fs::metadata(folder.file(&names[1])).unwrap().len() > 0);
}

/// `--order --range` counts instructions of all threads: parts of that order put together are the
/// whole, as text and as descriptors.
#[test]
fn ranges_of_all_threads_together() {
    let folder = traced("thesis-range", &["--order", "fine"]);
    let dump = |options: &[&str]| {
        printed(
            &folder,
            &[&["dump", "run.evp", "--order"], options].concat(),
        )
    };
    let insns = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    let (all, mcf) = (insns(&dump(&[])), dump(&["--mcf", "ascii"]));
    let total = all.len();
    assert!(total > 50_000, "{total}");
    let (mut parts, mut descriptors) = (Vec::new(), String::new());
    for (from, to) in [(1, 9_999), (10_000, 10_000), (10_001, total - 12_345)] {
        let range = format!("{from}..{to}");
        let part = insns(&dump(&["--range", &range]));
        assert_eq!(part.len(), to - from + 1);
        parts.extend(part);
        let options = ["--mcf", "ascii", "--range", &range];
        descriptors += &dump(&options);
        dump(&[&options[..], &["--thesis", "-o", "part"]].concat());
        let statistics = read(&folder, "part.Statistics");
        let head = format!(
            "mcfTrace: Traced {} instructions\nmcfTrace: Skipped {} instructions\n",
            to - from + 1,
            from - 1
        );
        assert!(statistics.starts_with(&head), "{statistics}");
        let recorded = read(&folder, "part").lines().count();
        assert!(statistics.contains(&format!("Recorded {recorded} control transfer")));
    }
    let range = format!("{}..", total - 12_344);
    parts.extend(insns(&dump(&["--range", &range])));
    descriptors += &dump(&["--mcf", "ascii", "--range", &range]);
    assert!(parts == all && descriptors == mcf);
    // Threads take turns within the parts.
    let whose: Vec<&str> = mcf
        .lines()
        .map(|line| line.split(',').next().unwrap())
        .collect();
    assert!(whose.windows(2).filter(|two| two[0] != two[1]).count() > 2);
    // Each thread by itself, and numbers that no thread has.
    dump_each(&folder, total);
}

fn dump_each(folder: &Folder, total: usize) {
    let each = [
        "dump",
        "run.evp",
        "--mcf",
        "ascii",
        "--range",
        "101..5100",
        "--thesis",
        "-o",
        "each",
    ];
    printed(folder, &each);
    let statistics = read(folder, "each.Statistics");
    let head = "mcfTrace: Traced 10000 instructions\nmcfTrace: Skipped 200 instructions\n";
    assert!(statistics.starts_with(head), "{statistics}");
    let range = format!("{}..", total + 1);
    let none = [
        "dump", "run.evp", "--mcf", "ascii", "--order", "--range", &range,
    ];
    assert_eq!(printed(folder, &none), "");
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = traced("thesis-refused", &[]);
    let refused = |arguments: &[&str], sentence: &str| {
        let output = folder.run(BINARY, arguments);
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, format!("everypath: {sentence}\n"));
    };
    refused(
        &["raptor", "run.evp", "--thesis", "-o", "no/out"],
        "cannot write 'no/out.Statistics': no such file or directory",
    );
    refused(
        &[
            "trace",
            "--raptor",
            "--thesis",
            "--descriptors",
            "no/out",
            "--",
            "./prog",
        ],
        "cannot write 'no/out.Statistics': no such file or directory; nothing was run",
    );
    refused(
        &[
            "dump", "run.evp", "--order", "--time", "1..2", "--range", "1..2",
        ],
        "the argument '--time <FROM..TO>' cannot be used with '--range <FROM..TO>'; see `everypath dump --help`",
    );
}
