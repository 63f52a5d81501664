//! `everypath trace --order`: threads in the order in which they did what they did, held
//! against programs that know it.

use std::collections::{BTreeSet, HashMap};

use testkit::folder::Folder;
use testkit::scope::Scope;

use crate::BINARY;

/// Four threads take tickets, and then a lock in turn; each says whose every ticket and every turn was.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
enum { THREADS = 4, EACH = 400 };
static unsigned tickets, turns;
static int holder[THREADS * EACH], taken[THREADS * EACH];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) unsigned ticket(void) { return __atomic_fetch_add(&tickets, 1, __ATOMIC_SEQ_CST); }
__attribute__((noinline)) void inside(int tid) { taken[turns++] = tid; }
static void *run(void *none) {
    int tid = gettid();
    for (int i = 0; i < EACH; i++) holder[ticket()] = tid;
    for (int i = 0; i < EACH; i++) {
        pthread_mutex_lock(&lock);
        inside(tid);
        pthread_mutex_unlock(&lock);
    }
    return none;
}
int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, run, 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    for (int i = 0; i < THREADS * EACH; i++) printf("%d %d\n", holder[i], taken[i]);
    return 0;
}
"#;

#[track_caller]
fn printed(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.run(BINARY, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn traced(folder: &Folder, options: &[&str]) -> String {
    let command = ["trace", "-q", "-o", "run.evp"];
    printed(folder, &[&command, options, &["--", "./program"]].concat())
}

/// Facts of the program from `dump --order`.
#[derive(Default)]
struct Order {
    /// Whose turns in the critical section, and whose tickets, come one after the other.
    turns: Vec<String>,
    tickets: Vec<String>,
    /// Atomic instructions without a stamp.
    missing: usize,
}

fn order(folder: &Folder) -> Order {
    let mut order = Order::default();
    let (mut thread, mut is_first) = (String::new(), false);
    for line in printed(folder, &["dump", "--order", "run.evp"]).lines() {
        let head = line.strip_prefix("# ");
        if let Some((_, said)) = head.and_then(|head| head.split_once(" thread ")) {
            let mut words = said.split(", ");
            thread = words.next().unwrap().to_owned();
            is_first = words.next() == Some("atomic");
            continue;
        }
        // The place comes behind the number and the address, the instruction behind the place.
        let mut columns = line.split("  ").filter(|column| !column.is_empty()).skip(2);
        let place = columns.next().unwrap_or_default().trim_start();
        let insn = columns.next().unwrap_or_default().trim_start();
        let is_atomic = insn.starts_with("lock ") || insn.starts_with("mfence");
        order.missing += usize::from(is_atomic && !is_first);
        if place == "inside+0x0" {
            order.turns.push(thread.clone());
        }
        if place.starts_with("ticket+") && insn.starts_with("lock xadd") {
            order.tickets.push(thread.clone());
        }
        is_first = false;
    }
    order
}

/// `dump --order --mcf`: each thread's descriptors are those that it has without the order, and
/// calls within critical sections come in the order of these.
#[test]
fn descriptors_are_in_the_order_of_execution() {
    let folder = Folder::new("order-mcf");
    folder.program(&["-O1", "-no-pie", "-pthread"], "program", PROGRAM);
    let said = traced(&folder, &["--order", "fine"]);
    let whole = printed(&folder, &["dump", "run.evp", "--mcf", "ascii"]);
    let ordered = printed(&folder, &["dump", "run.evp", "--mcf", "ascii", "--order"]);
    let of_thread = |text: &str, thread: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with(thread));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(whole.lines().count(), ordered.lines().count());
    for thread in ["0,", "1,", "2,", "3,", "4,"] {
        assert_eq!(of_thread(&whole, thread), of_thread(&ordered, thread));
    }
    let symbols = folder.run("nm", &["program"]);
    let symbols = String::from_utf8(symbols.stdout).unwrap();
    let inside = symbols
        .lines()
        .find(|line| line.ends_with(" inside"))
        .unwrap();
    let calls = format!(
        ", {:#018x}, U, D, T",
        u64::from_str_radix(&inside[..16], 16).unwrap()
    );
    let turns: Vec<u32> = ordered
        .lines()
        .filter(|line| line.ends_with(&calls))
        .map(|line| line.split_once(',').unwrap().0.parse().unwrap())
        .collect();
    let tids: Vec<u32> = said
        .lines()
        .map(|line| line.split_once(' ').unwrap().1.parse().unwrap())
        .collect();
    assert_eq!(turns.len(), tids.len());
    // Threads are numbered as they begin to run, which is not always as they were made: each
    // identifier has one number, and no two have the same.
    let pairs: BTreeSet<_> = turns.iter().zip(&tids).collect();
    let numbers: BTreeSet<_> = turns.iter().collect();
    let known: BTreeSet<_> = tids.iter().collect();
    assert_eq!((pairs.len(), numbers.len()), (known.len(), known.len()));
}

const MODES: [&[&str]; 4] = [
    &["--order", "fine"],
    &["--order", "fine", "--chaos", "3"],
    &["--order", "fine", "--chaos", "6", "--buffer", "1"],
    &["--order", "sync", "--chaos", "5"],
];

/// Successive critical sections come in their order; with `fine` tickets do, too.
#[test]
#[ignore = "wide: descriptors in the order of execution are in the gate"]
fn threads_come_in_the_order_that_they_saw() {
    are_in_order("order-tickets", &MODES[1..2]);
}

#[test]
#[ignore = "wide: one way to stamp is in the gate, and all with shared predictors"]
fn threads_come_in_the_order_that_they_saw_in_all_modes() {
    are_in_order("order-all-tickets", &MODES);
}

fn are_in_order(name: &str, modes: &[&[&str]]) {
    let folder = Folder::new(name);
    folder.program(&["-O1", "-pthread"], "program", PROGRAM);
    for options in modes {
        let said = traced(&folder, options);
        let (holders, turns): (Vec<&str>, Vec<&str>) =
            said.lines().filter_map(|line| line.split_once(' ')).unzip();
        let found = order(&folder);
        assert_eq!(found.missing, 0, "{options:?}");
        assert!(found.turns == turns, "{options:?}: turns");
        assert_eq!(found.tickets.len(), holders.len(), "{options:?}");
        if options[1] == "fine" {
            assert!(found.tickets == holders, "{options:?}: tickets");
        }
    }
}

/// Shared predictors: all branches are made again from the descriptors and the code, each
/// thread's as the trace has them.
#[test]
fn shared_predictors_lose_nothing() {
    let folder = Folder::new("order-shared");
    folder.program(&["-O1", "-pthread"], "program", PROGRAM);
    let modes = match Scope::current() {
        Scope::Wide => &MODES[..],
        _ => &MODES[1..2],
    };
    for options in modes {
        traced(&folder, options);
        let shared = ["raptor", "run.evp", "--shared", "--targets", "ibtb-last"];
        let with = |more: &[&str]| printed(&folder, &[&shared, more].concat());
        let checked = with(&["--check"]);
        assert!(checked.ends_with("made again, all equal\n"), "{checked}");
        with(&["-o", "run.raptor"]);
        let decoded = with(&["--decode", "run.raptor", "--form", "ascii"]);
        let traced = printed(&folder, &["dump", "run.evp", "--mcf", "ascii"]);
        assert!(by_thread(&decoded) == by_thread(&traced), "{options:?}");
    }
}

fn by_thread(text: &str) -> HashMap<&str, Vec<&str>> {
    let mut threads: HashMap<&str, Vec<&str>> = HashMap::new();
    for line in text.lines() {
        let thread = line.split(',').next().unwrap();
        threads.entry(thread).or_default().push(line);
    }
    threads
}

/// Instructions of a range of time are a part of the whole.
#[test]
#[ignore = "wide: descriptors in the order of execution are in the gate"]
fn a_range_of_time() {
    let folder = Folder::new("order-time");
    folder.program(&["-O1", "-pthread"], "program", PROGRAM);
    traced(&folder, &[]);
    let all = printed(&folder, &["dump", "--order", "run.evp"]);
    let is_head = |line: &&str| {
        let mut words = line.split(' ').skip(1);
        let time = words.next().unwrap_or_default();
        time.starts_with(|c: char| c.is_ascii_digit()) && words.next() == Some("thread")
    };
    let heads = || all.lines().filter(is_head);
    let times: Vec<u64> = heads()
        .map(|line| {
            line.split(' ')
                .nth(1)
                .unwrap()
                .replace(',', "")
                .parse()
                .unwrap()
        })
        .collect();
    assert!(times.is_sorted() && times.len() > 3000, "{}", times.len());
    let (from, to) = (times[1000], times[1100]);
    let range = format!("{from}..{to}");
    let part = printed(&folder, &["dump", "--order", "--time", &range, "run.evp"]);
    let first = heads().nth(1000).unwrap();
    let lines: Vec<&str> = all
        .lines()
        .skip_while(|line| *line != first)
        .take(50)
        .collect();
    let shown: Vec<&str> = part
        .lines()
        .filter(|line| !line.starts_with("# process"))
        .take(50)
        .collect();
    assert_eq!(shown, lines);
}

#[test]
fn a_trace_without_stamps_has_no_order() {
    let folder = Folder::new("order-none");
    folder.program(&["-O1", "-pthread"], "program", PROGRAM);
    traced(&folder, &["--order", "chunk"]);
    for command in [
        &["dump", "--order", "run.evp"][..],
        &["raptor", "--shared", "run.evp"],
    ] {
        let output = folder.run(BINARY, command);
        assert_eq!(output.status.code(), Some(125));
        let said = "everypath: 'run.evp' has no time stamps, which order threads; record it with \
                    --order sync or fine\n";
        assert_eq!(String::from_utf8_lossy(&output.stderr), said);
    }
}

/// A program that forbids itself to read the counter is traced all the same.
#[test]
fn the_counter_is_forbidden() {
    let folder = Folder::new("order-forbidden");
    let source = include_str!("../../../../tests/programs/insn_rdtsc_forbidden_everywhere.c");
    folder.program(&["-O1", "-pthread", "-static"], "program", source);
    let native = folder.run("./program", &[]);
    for options in MODES {
        assert_eq!(
            traced(&folder, options).as_bytes(),
            native.stdout,
            "{options:?}"
        );
        printed(&folder, &["verify", "run.evp"]);
    }
}
