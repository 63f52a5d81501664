//! Contexts of basic blocks where nothing may be lost: at the limit of nodes, and where
//! alarms interrupt blocks anywhere.

use testkit::folder::Folder;

use crate::BINARY;

const MODES: [&[&str]; 4] = [
    &["--mode", "intra"],
    &["--mode", "intra", "--roll-loops"],
    &["--mode", "intra", "--blocks", "dynamic", "-k", "3"],
    &["--mode", "inter"],
];

/// The report of a run of `program`.
fn contexts(folder: &Folder, options: &[&[&str]], format: &str, program: &[&str]) -> String {
    let head = ["contexts", "--report", "report", "--format", format];
    let arguments = [&head[..], &options.concat(), &["--"], program].concat();
    let output = folder.run(BINARY, &arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    std::fs::read_to_string(folder.file("report")).unwrap()
}

const PROGRAM: &str = r#"
#include <signal.h>
#include <sys/time.h>
static volatile unsigned alarms;
static void on_alarm(int signal) { alarms++; }
__attribute__((noinline)) unsigned work(unsigned n) {
    unsigned x = 1, sum = 0;
    for (unsigned i = 0; i < n; i++) {
        x = x * 1664525 + 1013904223;
        if (x & 0x10000) sum += x; else sum ^= i;
        switch (x >> 29) {
        case 1: sum += 3; break;
        case 2: sum -= 7; /* and on */
        case 3: sum *= 5; break;
        case 6: sum ^= x;
        }
        if (x % 1000 == 0) sum = sum * 31 + work(3);
    }
    return sum;
}
int main(int argc, char **argv) {
    struct itimerval timer = {{0, 100}, {0, 100}};
    unsigned sum = 0;
    signal(SIGALRM, on_alarm);
    if (argc > 1) setitimer(ITIMER_REAL, &timer, 0);
    for (int i = 0; i < 100 || (argc > 1 && alarms < 100); i++)
        if (i < 100) sum += work(10000);
    return sum == 1;
}
"#;

/// Executions, all and those in `[truncated]`.
fn executions(folder: &Folder, mode: &[&str], limit: &str) -> (u64, u64) {
    let options = [mode, &["--funcs", "work", "--max-nodes", limit]];
    let report = contexts(folder, &options, "json", &["./program"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let total = |name: &str| report["totals"][name].as_u64().unwrap();
    (total("calls"), total("truncated"))
}

#[test]
fn the_limit_of_nodes_loses_no_execution() {
    let folder = Folder::new("blocks-limit");
    folder.program(&["-O1", "-g"], "program", PROGRAM);
    for mode in MODES {
        let (all, beyond) = executions(&folder, mode, "1000000");
        assert!(all > 3_000_000 && beyond == 0, "{mode:?}: {all}, {beyond}");
        let mut last = all;
        for limit in ["1", "5", "30"] {
            let (counted, beyond) = executions(&folder, mode, limit);
            assert_eq!(counted, all, "{mode:?}, {limit} nodes");
            assert!(0 < beyond && beyond <= last, "{mode:?}: {beyond}, {last}");
            last = beyond;
        }
        assert!(last < all, "{mode:?}");
    }
}

#[test]
fn alarms_inside_of_blocks_change_nothing() {
    let folder = Folder::new("blocks-storm");
    folder.program(&["-O1", "-g"], "program", PROGRAM);
    for mode in MODES {
        let options = [mode, &["--funcs", "work"]];
        let calm = contexts(&folder, &options, "folded", &["./program"]);
        assert!(calm.lines().count() > 20, "{mode:?}: {calm}");
        let storm = contexts(&folder, &options, "folded", &["./program", "1"]);
        assert!(calm == storm, "{mode:?}");
    }
}

/// Total costs of `work`, the four that blocks have.
fn costs(folder: &Folder, mode: &[&str]) -> [u64; 4] {
    let options = ["--funcs", "work", "--cost", "branches,loads,stores"];
    let report = contexts(folder, &[mode, &options], "json", &["./program"]);
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let process = &report["processes"][0];
    let forest = &process["forests"][0];
    let functions = process["functions"].as_array().unwrap();
    let of_work = |node: &serde_json::Value| {
        let own = functions.iter().find(|function| function["id"] == node[1]);
        own.is_some_and(|own| own["name"].as_str().unwrap().contains("work"))
    };
    let nodes = forest["nodes"].as_array().unwrap();
    ["instructions", "branches", "loads", "stores"].map(|cost| {
        let values = forest["costs"][cost].as_array().unwrap();
        let own = nodes.iter().zip(values).filter(|(node, _)| of_work(node));
        own.map(|(_, value)| value.as_u64().unwrap()).sum()
    })
}

#[test]
fn blocks_cost_what_their_function_does() {
    let folder = Folder::new("blocks-costs");
    folder.program(&["-O1", "-g"], "program", PROGRAM);
    let function = costs(&folder, &[]);
    assert!(function[0] > 5_000_000, "{function:?}");
    for mode in MODES {
        assert_eq!(costs(&folder, mode), function, "{mode:?}");
    }
}
