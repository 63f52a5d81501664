//! `contexts --time`: where threads execute, and wait.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use testkit::folder::Folder;

use crate::BINARY;

/// Five problems: memory that is followed, arithmetic, many calls, sleep, and a lock.
const PROBLEMS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#define N (1 << 23)
static unsigned *next;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t held;
__attribute__((noinline)) unsigned chase(long n) {
    unsigned at = 0;
    for (long i = 0; i < n; i++) at = next[at];
    return at;
}
__attribute__((noinline)) unsigned long spin(long n) {
    unsigned long x = 1;
    for (long i = 0; i < n; i++) x = x * 6364136223846793005ul + 1;
    return x;
}
__attribute__((noinline)) int small(int x) { return x * 7 + 1; }
__attribute__((noinline)) long calls(long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += small(i);
    return sum;
}
__attribute__((noinline)) void pause_ms(long ms) {
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, 0);
}
__attribute__((noinline)) void take(void) {
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
}
static void *holder(void *unused) {
    pthread_mutex_lock(&lock);
    pthread_barrier_wait(&held);
    pause_ms(300);
    pthread_mutex_unlock(&lock);
    return unused;
}
int main(void) {
    next = malloc(N * sizeof *next);
    for (unsigned i = 0; i < N; i++) next[i] = i;
    unsigned long r = 88172645463325252ul;
    for (unsigned i = N - 1; i > 0; i--) {
        r ^= r << 13; r ^= r >> 7; r ^= r << 17;
        unsigned j = r % i, t = next[i];
        next[i] = next[j]; next[j] = t;
    }
    pthread_t thread;
    pthread_barrier_init(&held, 0, 2);
    pthread_create(&thread, 0, holder, 0);
    pthread_barrier_wait(&held);
    take();
    pthread_join(thread, 0);
    unsigned a = chase(6000000);
    unsigned long b = spin(200000000);
    pause_ms(200);
    printf("%u %lu %ld\n", a, b, calls(5000000));
}
"#;

fn everypath(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(BINARY);
    command.current_dir(folder).args(words).output().unwrap()
}

/// Values of a cost in the k-slab forests of a report as JSON, with the names of their functions.
fn of_functions(report: &Value, cost: &str) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for process in report["processes"].as_array().unwrap() {
        let functions = process["functions"].as_array().unwrap();
        let name = |id: &Value| {
            let function = functions.iter().find(|function| function["id"] == *id);
            function.map_or("", |function| function["name"].as_str().unwrap())
        };
        let forests = process["forests"].as_array().unwrap().iter();
        for forest in forests.filter(|forest| forest["kind"] == "k-sf") {
            let values = forest["costs"][cost].as_array().unwrap();
            let nodes = forest["nodes"].as_array().unwrap();
            assert_eq!(values.len(), nodes.len());
            for (node, value) in nodes.iter().zip(values) {
                found.push((name(&node[1]).to_owned(), value.as_u64().unwrap()));
            }
        }
    }
    found
}

#[test]
fn times_are_costs_in_every_form() {
    let folder = Folder::new("timed");
    let words = ["contexts", "--time", "-q", "-o", "run.evp", "--"];
    let shell = ["sh", "-c", "sleep 0.1; echo done"];
    let output = everypath(folder.path(), &[&words[..], &shell].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"done\n");
    let shown = |words: &[&str]| {
        let output = everypath(folder.path(), &[&["report", "run.evp"], words].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let report: Value = serde_json::from_str(&shown(&["--format", "json"])).unwrap();
    for cost in ["time-ns", "waiting-ns", "instructions"] {
        assert!(!of_functions(&report, cost).is_empty(), "{cost}");
    }
    let text = shown(&["--by", "waiting"]);
    assert!(text.contains(" executing, "), "{text}");
    assert!(text.contains("note: time is sampled, "), "{text}");
    let csv = shown(&["--format", "csv"]);
    let head = csv.lines().next().unwrap();
    assert!(
        head.contains("time-ns") && head.contains("waiting-ns"),
        "{head}"
    );
    let xml = shown(&["--format", "xml"]);
    assert!(
        xml.contains("time-ns=\""),
        "{}",
        &xml[..xml.len().min(3000)]
    );
}

#[test]
fn times_that_cannot_be_sampled_are_refused() {
    let folder = Folder::new("untimed");
    for (words, why) in [
        (
            &["--time", "--mode", "intra"][..],
            "--time is about functions",
        ),
        (&["--time", "--cost", "calls"], "leave out --cost calls"),
        (
            &["--by", "time", "--mode", "intra"],
            "--time is about functions",
        ),
        (&["--by", "waiting", "--time=no"], "leave out --time=no"),
        (&["--cost", "time"], "give --time"),
    ] {
        let output = everypath(
            folder.path(),
            &[&["contexts"], words, &["--", "true"]].concat(),
        );
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(why), "{said}");
    }
}

/// The screen of a command on a terminal, without the marks of a style.
fn on_a_terminal(folder: &Path, words: &str) -> String {
    let line = format!("stty cols 150; {BINARY} {words}");
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &line, "/dev/null"]);
    let output = command.current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    let mut parts = said.split('\x1b');
    let first = parts.next().unwrap_or("").to_owned();
    let plain = parts.filter_map(|part| part.split_once('m'));
    plain.fold(first, |all, (_, part)| all + part)
}

#[test]
fn a_terminal_shows_time_unless_there_is_little_or_none_is_wanted() {
    let folder = Folder::new("terminal");
    let text = "__attribute__((noinline)) unsigned long spin(long n) {
                    unsigned long x = 1;
                    for (long i = 0; i < n; i++) x = x * 6364136223846793005ul + 1;
                    return x;
                }
                int main(void) { return spin(150000000) == 7; }";
    folder.program(&["-O1", "-g"], "spin", text);
    let columns = |screen: &str| -> Vec<String> {
        let head = screen.lines().find(|line| line.contains("with callees "));
        let words = head
            .unwrap_or_else(|| panic!("{screen}"))
            .split_whitespace();
        words.map(str::to_owned).collect()
    };
    let has_time = |screen: &str| columns(screen).contains(&"time".to_owned());
    let screen = on_a_terminal(folder.path(), "contexts -- ./spin");
    assert!(has_time(&screen), "{screen}");
    assert!(screen.contains("(`--by time` sorts by it)"), "{screen}");
    assert!(!screen.contains("instructions are not time"), "{screen}");
    let first = columns(&screen).into_iter().skip(3);
    assert_eq!(
        first.take(1).collect::<Vec<_>>(),
        ["instructions"],
        "{screen}"
    );
    for words in ["contexts --time=no -- ./spin", "contexts -- true"] {
        let screen = on_a_terminal(folder.path(), words);
        assert!(!has_time(&screen), "{screen}");
        assert!(screen.contains("instructions are not time"), "{screen}");
    }
    // Nobody reads at once what goes into a pipe.
    let piped = |words: &[&str]| {
        let output = everypath(
            folder.path(),
            &[&["contexts"], words, &["--", "./spin"]].concat(),
        );
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(!has_time(&piped(&[])));
    let sorted = piped(&["--by", "time"]);
    assert_eq!(columns(&sorted)[3], "time", "{sorted}");
}

#[test]
#[ignore = "wide: it depends on time"]
fn each_of_five_problems_is_named() {
    let folder = Folder::new("problems");
    folder.program(&["-O1", "-g", "-pthread"], "problems", PROBLEMS);
    let words = ["contexts", "--time", "--", "./problems"];
    let output = everypath(folder.path(), &words);
    let screen = String::from_utf8(output.stderr).unwrap();
    // The hottest function is the one that waits for memory, and the screen says that.
    let chase = screen
        .lines()
        .find(|line| line.contains("  chase  "))
        .unwrap();
    let share: f64 = chase.split('%').next().unwrap().trim().parse().unwrap();
    assert!(share > 40.0, "{screen}");
    assert!(screen.contains("note: chase is "), "{screen}");
    assert!(screen.contains("note: threads waited "), "{screen}");
    assert!(screen.contains(" in clock_nanosleep"), "{screen}");
    let json = [
        "contexts", "--time", "--format", "json", "--report", "r.json",
    ];
    everypath(folder.path(), &[&json[..], &["--", "./problems"]].concat());
    let text = std::fs::read(folder.file("r.json")).unwrap();
    let report: Value = serde_json::from_slice(&text).unwrap();
    let sum = |cost: &str, part: &str| -> u64 {
        let all = of_functions(&report, cost).into_iter();
        let of_part = all.filter(|(name, _)| name.contains(part));
        of_part.map(|(_, ns)| ns).sum()
    };
    let all = |cost| sum(cost, "");
    assert!(sum("time-ns", "chase") * 10 > all("time-ns") * 4);
    assert!(sum("instructions", "chase") * 20 < all("instructions"));
    assert!(sum("instructions", "spin") * 2 > all("instructions"));
    // Two pauses of 300 and 200 ms, and the wait for the lock during the first.
    let (slept, locked) = (
        sum("waiting-ns", "nanosleep"),
        sum("waiting-ns", "lll_lock_wait"),
    );
    assert!((480_000_000..600_000_000).contains(&slept), "{slept}");
    assert!((280_000_000..400_000_000).contains(&locked), "{locked}");
}
