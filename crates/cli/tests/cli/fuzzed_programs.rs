//! Programs that are edited for AFL++: the words that they exchange with a fuzzer, and the map that it reads.

use std::fs;
use std::process::Command;

use testkit::folder::Folder;

use crate::BINARY;

/// Plays the fuzzer: `FUZZER served|once PROGRAM INPUT...` says of each run how it ended, how many bytes of the map are not zero, and
/// a hash of it.
const FUZZER: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
enum { SIZE = 1 << 23 };
static unsigned char *map;
static void say(const char *input, int status) {
    unsigned long used = 0, hash = 14695981039346656037ul;
    for (int i = 0; i < SIZE; i++) { used += map[i] != 0; hash = (hash ^ map[i]) * 1099511628211ul; }
    printf("%s %x %lu %lx\n", input, status, used, hash);
}
static uint32_t word(int from) { uint32_t word = 0; if (read(from, &word, 4) != 4) { puts("silent"); exit(1); } return word; }
int main(int count, char **words) {
    int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
    map = shmat(id, 0, 0);
    shmctl(id, IPC_RMID, 0);
    char text[20];
    sprintf(text, "%d", id);
    setenv("__AFL_SHM_ID", text, 1);
    int asks[2], tells[2], status;
    int serves = !strcmp(words[1], "served");
    // Each input has one path, so that the arguments are always the same.
    for (int i = 3; !serves && i < count; i++) {
        memset(map, 0, SIZE);
        rename(words[i], "input");
        pid_t child = fork();
        if (!child) { execl(words[2], words[2], "input", NULL); _exit(99); }
        waitpid(child, &status, 0);
        say(words[i], status);
        rename("input", words[i]);
    }
    if (!serves) return 0;
    if (pipe(asks) || pipe(tells)) return 1;
    fflush(stdout);
    pid_t server = fork();
    if (!server) {
        dup2(asks[0], 198); dup2(tells[1], 199);
        close(asks[0]); close(asks[1]); close(tells[0]); close(tells[1]);
        execl(words[2], words[2], "input", NULL);
        _exit(99);
    }
    close(asks[0]); close(tells[1]);
    uint32_t hello = word(tells[0]);
    printf("%x %u\n", hello & 0xc0000001, ((hello & 0x00fffffe) >> 1) + 1);
    pid_t before = 0;
    for (int i = 3; i < count; i++) {
        memset(map, 0, SIZE);
        rename(words[i], "input");
        uint32_t none = 0;
        if (write(asks[1], &none, 4) != 4) return 1;
        pid_t child = word(tells[0]);
        status = word(tells[0]);
        if (child == before) printf("again ");
        before = WIFSTOPPED(status) ? child : 0;
        say(words[i], status);
        rename("input", words[i]);
    }
    close(asks[1]);
    if (before) kill(before, SIGKILL);
    waitpid(server, &status, 0);
    printf("end %x\n", status);
    return 0;
}
"#;

const TARGET: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static char b[100];
static volatile int turns;
static void *thread(void *x) { if (b[1] % 2 == 0) { turns++; return (void *)7L; } return (void *)5L; }
__attribute__((noinline)) int one(const char *name, long a, long c, long d, long e, long f, long g, double x) {
    FILE *h = fopen(name, "r");
    if (!h) return 1;
    memset(b, 0, 100);
    fread(b, 1, 99, h);
    fclose(h);
    turns++;
    if (b[0] == 'k') abort();
    if (b[0] == 'e') exit(7);
    if (b[0] == 't') { pthread_t p; void *r; pthread_create(&p, 0, thread, 0); pthread_join(p, &r); return (long)r; }
    if (b[0] == 'f') { pid_t p = fork(); if (!p) _exit(3); waitpid(p, 0, 0); }
    for (int i = 0; b[i] == 'l'; i++) turns += b[i + 1] == 'l';
    return (a + c + d + e + f + g != 21) + (x != 1.5);
}
int main(int count, char **words) {
    volatile double x = 1.5;
    int r = one(words[1], 1, 2, 3, 4, 5, 6, x);
    return r + (x != 1.5);
}
"#;

const INPUTS: [(&str, &str); 8] = [
    ("plain", "a"),
    ("loop", "lllll"),
    ("threads", "t1"),
    ("more", "t2"),
    ("forks", "f"),
    ("again", "a"),
    ("exits", "e"),
    ("kills", "k"),
];

/// Lines of the fuzzer: the beginning of each, and the rest.
fn fuzz(folder: &Folder, how: &str, program: &str) -> Vec<String> {
    let inputs = INPUTS.iter().map(|(name, _)| *name);
    let words: Vec<&str> = [how, program].into_iter().chain(inputs).collect();
    let output = Command::new(folder.file("fuzzer"))
        .args(words)
        .current_dir(folder.file(""))
        .output();
    let output = output.expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{said}");
    said.lines().map(str::to_owned).collect()
}

fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

#[test]
fn runs_are_served() {
    let folder = Folder::new("fuzzed");
    folder.program(&["-O1"], "fuzzer", FUZZER);
    fs::write(folder.file("target.c"), TARGET).expect("a file");
    for (name, text) in INPUTS {
        fs::write(folder.file(name), text).expect("a file");
    }
    for (name, kind) in [
        ("dynamic", "-s"),
        ("static", "-static"),
        ("libraries", "-s"),
    ] {
        let built = folder.run("gcc", &["-O1", "-pthread", kind, "-o", name, "target.c"]);
        assert!(built.status.success());
        let edited = format!("{name}.afl");
        let mut rewrite = vec!["rewrite", name, "-o", &edited, "--tool", "afl"];
        if name == "libraries" {
            rewrite.push("--libs");
        }
        let output = folder.run(BINARY, &rewrite);
        assert!(output.status.success(), "{output:?}");
        let program = match name {
            "libraries" => format!("./{edited}/bin/{name}"),
            _ => format!("./{edited}"),
        };
        let once = fuzz(&folder, "once", &program);
        let served = fuzz(&folder, "served", &program);
        assert!(served[0].starts_with("c0000001 "), "{served:?}");
        let length: u64 = words(&served[0])[1].parse().expect("a number");
        assert!(length.is_multiple_of(4096) && length < 1 << 21, "{length}");
        let status = ["0", "0", "500", "700", "0", "0", "700", "6"];
        for (at, (name, _)) in INPUTS.iter().enumerate() {
            let (once, served) = (words(&once[at]), words(&served[at + 1]));
            assert_eq!(served[0], *name);
            for words in [&once, &served] {
                // A core may be written, or not.
                let ended = u32::from_str_radix(words[1], 16).expect("a number") & !0x80;
                assert_eq!(format!("{ended:x}"), status[at]);
            }
            let used = served[2].parse::<u64>().expect("a number");
            assert!(used > 3, "{served:?}");
        }
        // Maps are equal exactly if inputs are.
        assert_eq!(words(&served[1])[2..], words(&served[6])[2..], "{served:?}");
        let mut maps: Vec<&str> = served[1..9].iter().map(|line| words(line)[3]).collect();
        maps.sort_unstable();
        maps.dedup();
        assert_eq!(maps.len(), 7, "{served:?}");
        assert_eq!(served.last().map(String::as_str), Some("end 100"));
        // Nobody listens, and nobody shares memory.
        let alone = Command::new(folder.file(&program))
            .arg(folder.file("more"))
            .output();
        assert_eq!(alone.expect("it runs").status.code(), Some(7));
    }
}

/// The map has a byte for each mark that a run with coverage sets.
#[test]
fn the_map_has_what_coverage_has() {
    let folder = Folder::new("fuzzed-coverage");
    folder.program(&["-O1"], "fuzzer", FUZZER);
    folder.program(&["-O1", "-pthread"], "target", TARGET);
    for (name, text) in INPUTS {
        fs::write(folder.file(name), text).expect("a file");
    }
    let words_of = |words: &str| {
        let output = folder.run(BINARY, &words.split(' ').collect::<Vec<_>>());
        assert!(output.status.success(), "{output:?}");
    };
    words_of("rewrite target -o target.afl --tool afl");
    words_of("rewrite target -o target.marks --tool coverage --branches");
    let once = fuzz(&folder, "once", "./target.afl");
    for (at, name) in [(0, "plain"), (1, "loop"), (6, "exits")] {
        fs::copy(folder.file(name), folder.file("input")).expect("a copy");
        let run = Command::new(folder.file("target.marks"))
            .arg("input")
            .current_dir(folder.file(""))
            .output();
        assert!(run.is_ok());
        let files = crate::counted::counters(&folder, "");
        let file = fs::read(&files[0]).expect("a file of marks");
        let marks = file[16384 + 4096..]
            .iter()
            .filter(|mark| **mark == 1)
            .count();
        assert_eq!(words(&once[at])[2], marks.to_string(), "{name}");
        fs::remove_file(&files[0]).expect("it is there");
    }
}

/// One function has its turns in one process, with the same arguments; a process that ends is followed by another.
#[test]
fn a_function_has_turns() {
    let folder = Folder::new("fuzzed-turns");
    folder.program(&["-O1"], "fuzzer", FUZZER);
    folder.program(&["-O1", "-pthread"], "target", TARGET);
    for (name, text) in INPUTS {
        fs::write(folder.file(name), text).expect("a file");
    }
    let listed = folder.run("nm", &["target"]);
    let listed = String::from_utf8(listed.stdout).expect("text");
    let line = listed.lines().find(|line| line.ends_with(" one"));
    let address = line
        .and_then(|line| line.split(' ').next())
        .expect("a symbol");
    assert!(
        folder
            .run("strip", &["-o", "stripped", "target"])
            .status
            .success()
    );
    let address = format!("0x{}", address.trim_start_matches('0'));
    for (program, function) in [("target", "one"), ("stripped", address.as_str())] {
        let words = [
            "rewrite",
            program,
            "-o",
            "edited",
            "--tool",
            "afl",
            "--persistent",
            function,
        ];
        let output = folder.run(BINARY, &words);
        assert!(output.status.success(), "{output:?}");
        let lines = fuzz(&folder, "served", "./edited");
        let of = |at: usize| lines[at].as_str();
        // Each stops but the last two, of which the first ends the process of all before.
        for (at, (name, _)) in INPUTS.iter().enumerate() {
            let (beginning, status) = match *name {
                "plain" => ("", "137f"),
                "exits" => ("again ", "700"),
                "kills" => ("", "6"),
                _ => ("again ", "137f"),
            };
            let expected = format!("{beginning}{name} {status} ");
            let line = of(at + 1).replace(" 86 ", " 6 ");
            assert!(line.starts_with(&expected), "{lines:?}");
        }
        assert_eq!(of(9), "end 100");
        // Without a fuzzer it has one turn.
        let alone = Command::new(folder.file("edited"))
            .arg(folder.file("more"))
            .output();
        assert_eq!(alone.expect("it runs").status.code(), Some(7));
    }
    let words = "rewrite target -o edited --tool afl --persistent none";
    let refused = folder.run(BINARY, &words.split(' ').collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&refused.stderr);
    let sentence = "everypath: --persistent none: there is no such function; `everypath flow FILE` lists all with their addresses\n";
    assert_eq!(said, sentence);
}

/// AFL++ finds the input that ends a stripped program with a signal.
#[test]
#[ignore = "wide: AFL++ runs for as long as it needs"]
fn a_fuzzer_finds_what_ends_a_program() {
    let folder = Folder::new("fuzzed-by-afl");
    let target = r#"
        #include <stdio.h>
        #include <stdlib.h>
        int main(int c, char **v) {
            char b[100] = { 0 }; FILE *f = fopen(v[1], "r"); fread(b, 1, 99, f);
            if (b[0] == 'b') if (b[1] == 'u') abort();
            return 0;
        }"#;
    folder.program(&["-O1", "-s"], "target", target);
    fs::create_dir(folder.file("in")).expect("a new folder");
    fs::write(folder.file("in/a"), "aaaaaa").expect("a file");
    let words = "rewrite target -o target.afl --tool afl";
    assert!(
        folder
            .run(BINARY, &words.split(' ').collect::<Vec<_>>())
            .status
            .success()
    );
    let words = "-V 600 -i in -o out -- ./target.afl @@";
    let fuzzed = Command::new("afl-fuzz")
        .args(words.split(' '))
        .current_dir(folder.file(""))
        .envs(
            [
                "AFL_SKIP_CPUFREQ",
                "AFL_NO_UI",
                "AFL_NO_AFFINITY",
                "AFL_BENCH_UNTIL_CRASH",
                "AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES",
            ]
            .map(|name| (name, "1")),
        )
        .output();
    let fuzzed = fuzzed.expect("afl-fuzz is there");
    assert!(
        fuzzed.status.success(),
        "{}",
        String::from_utf8_lossy(&fuzzed.stdout)
    );
    let crashes = fs::read_dir(folder.file("out/default/crashes")).expect("a folder");
    let inputs = crashes.filter_map(|entry| fs::read(entry.expect("an entry").path()).ok());
    assert!(inputs.into_iter().any(|input| input.starts_with(b"bu")));
}
