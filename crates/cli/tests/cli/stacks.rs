//! Programs with many stacks: coroutines, fibers, goroutines. Each function has in its contexts what
//! `count` says that it executed, and no other's: only the stubs of the dynamic linker, which are no
//! functions, are the callers' there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use testkit::folder::{Folder, program};

use crate::BINARY;

/// Instructions by file and function; those without a function have an empty name.
type Selves = BTreeMap<(String, String), u64>;

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            _ => fields.last_mut().expect("one at least").push(c),
        }
    }
    fields
}

fn selves(
    folder: &Folder,
    file: &str,
    columns: [&str; 2],
    instructions: impl Fn(&dyn Fn(&str) -> u64) -> u64,
) -> Selves {
    let text = fs::read_to_string(folder.file(file)).unwrap();
    let mut lines = text.lines();
    let names = fields(lines.next().unwrap());
    let column = |name: &str| names.iter().position(|known| known == name).expect(name);
    let mut all = Selves::new();
    for row in lines.map(fields) {
        let number = |name: &str| row[column(name)].parse::<u64>().unwrap();
        let [module, function] = columns.map(|name| row[column(name)].clone());
        *all.entry((module, function)).or_default() += instructions(&number);
    }
    all
}

/// Self costs by `contexts` and by `count`.
fn both(folder: &Folder) -> (Selves, Selves) {
    let columns = ["module", "function"];
    let contexts = selves(folder, "contexts.csv", columns, |number| {
        number("instructions")
    });
    let count = selves(folder, "count.csv", columns, |number| {
        number("instructions") * number("executed")
    });
    (contexts, count)
}

/// Runs it twice.
fn live(folder: &Folder, words: &[&str], environment: &[(&str, &str)]) -> (Selves, Selves) {
    for mode in ["contexts", "count"] {
        let report = format!("{mode}.csv");
        let head = [
            mode,
            "-q",
            "--format",
            "csv",
            "--full-names",
            "--report",
            &report,
            "--",
        ];
        let mut command = Command::new(BINARY);
        command.current_dir(folder.path()).args(head).args(words);
        command.env("LD_BIND_NOW", "1").envs(environment.to_vec());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    both(folder)
}

/// Runs it once, for programs of which no two runs are the same.
fn traced(folder: &Folder, words: &[&str]) -> (Selves, Selves) {
    let run = |arguments: &[&str]| {
        let output = folder.run(BINARY, arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output.stdout
    };
    run(&[&["trace", "-q", "-o", "trace.evp", "--"], words].concat());
    for (form, report) in [("contexts", "contexts.csv"), ("counts", "count.csv")] {
        let what = ["--as", form, "--format", "csv", "--full-names"];
        let text = run(&[&["report", "trace.evp"], &what[..]].concat());
        fs::write(folder.file(report), text).unwrap();
    }
    both(folder)
}

/// Functions of the files with that in their names; no function has less than it executed, and all that
/// they have more is in stubs.
fn check(words: &[&str], file: &str, (contexts, count): (Selves, Selves)) {
    let of_file = |selves: &Selves| -> Selves {
        let own = selves.iter().filter(|((module, _), _)| {
            let name = Path::new(module).file_name().unwrap_or_default();
            name.to_string_lossy().contains(file)
        });
        own.map(|(name, &number)| (name.clone(), number)).collect()
    };
    let (contexts, mut count) = (of_file(&contexts), of_file(&count));
    count.retain(|_, &mut number| number > 0);
    let stubs: u64 = count
        .extract_if(.., |(_, function), _| {
            function.is_empty() || function.contains("plt")
        })
        .map(|(_, number)| number)
        .sum();
    assert!(count.len() > 3, "{words:?}: {count:?}");
    let mut more = 0;
    for (name, &number) in &count {
        let own = contexts.get(name).copied().unwrap_or(0);
        assert!(own >= number, "{words:?}: {name:?} has {own} of {number}");
        more += own - number;
    }
    assert!(
        more <= stubs,
        "{words:?}: {more} too much, {stubs} in stubs"
    );
    // Without a symbol a function has a name in contexts only.
    let is_other = |name: &&(String, String)| !count.contains_key(*name) && !name.1.contains("+0x");
    let others = contexts.keys().find(is_other);
    assert_eq!(others, None, "{words:?}");
}

#[test]
fn coroutines_of_c_cost_what_they_executed() {
    let folder = Folder::new("stacks-c");
    let words = program("stack_switches");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    check(&words, "stack_switches", live(&folder, &words, &[]));
    check(&words, "stack_switches", traced(&folder, &words));
}

/// Goroutines that wait for each other, and one whose stack moves while it grows.
pub const GO: &str = r#"
package main

import "fmt"

//go:noinline
func leaf(x int) int { return x*3 + 1 }

//go:noinline
func deep(n int) int {
	var pad [256]int
	pad[n&255] = n
	if n == 0 {
		return leaf(pad[0])
	}
	return deep(n-1) + leaf(pad[n&255])
}

//go:noinline
func after(n int) int {
	s := 0
	for i := 0; i < n; i++ {
		s += leaf(i)
	}
	return s
}

//go:noinline
func produce(c chan int, n int) {
	for i := 0; i < n; i++ {
		c <- i * i
	}
	close(c)
}

//go:noinline
func consume(c chan int) int {
	s := 0
	for x := range c {
		s += x % 7
	}
	return s
}

func main() {
	c := make(chan int)
	go produce(c, 400)
	fmt.Println(consume(c), deep(40)+after(1500))
}
"#;

#[test]
fn goroutines_cost_what_they_executed() {
    let folder = Folder::new("stacks-go");
    fs::write(folder.file("program.go"), GO).unwrap();
    let mut command = Command::new("go");
    command
        .args(["build", "-o", "program", "program.go"])
        .current_dir(folder.path());
    command.env("GOCACHE", folder.file("cache"));
    assert!(
        command
            .status()
            .expect("go is installed (Debian: golang-go)")
            .success()
    );
    let threads: [&[(&str, &str)]; 2] = [&[], &[("GOMAXPROCS", "1")]];
    for environment in threads {
        let (contexts, count) = live(&folder, &["./program"], environment);
        let own = |selves: &Selves| -> BTreeMap<String, u64> {
            let own = selves
                .iter()
                .filter(|((_, name), _)| name.starts_with("main."));
            own.map(|((_, name), &number)| (name.clone(), number))
                .collect()
        };
        let (contexts, count) = (own(&contexts), own(&count));
        assert!(
            count["main.consume"] > 7_000 && count["main.produce"] > 4_000,
            "{count:?}"
        );
        // A goroutine that is preempted executes some instructions again: up to 86 more were seen.
        assert_eq!(
            contexts.keys().collect::<Vec<_>>(),
            count.keys().collect::<Vec<_>>()
        );
        for (name, &own) in &contexts {
            assert!(
                own.abs_diff(count[name]) < 1000,
                "{name}: {own} of {}",
                count[name]
            );
        }
        // The stack that moved kept its activations.
        let text = fs::read_to_string(folder.file("contexts.csv")).unwrap();
        let paths = text
            .lines()
            .filter(|line| line.contains("main.after;main.leaf"));
        let paths: Vec<&str> = paths.collect();
        assert!(
            !paths.is_empty()
                && paths
                    .iter()
                    .all(|path| path.contains("main.main;main.after")),
            "{paths:?}"
        );
    }
}

#[test]
#[ignore = "wide: greenlets, and coroutines of other programs, are in the gate"]
fn fibers_of_interpreters_cost_what_they_executed() {
    let folder = Folder::new("stacks-fibers");
    let ruby = "g = Fiber.new { 300.times { |i| Fiber.yield(i * i) }; nil }\ns = 0\nwhile (x = g.resume); s += x; end\nputs s\ne = [3, 1, 2].each\nputs e.next, e.next";
    let words = ["ruby", "--disable-gems", "-e", ruby];
    check(&words, "libruby", traced(&folder, &words));
    // A fiber of PHP begins in the middle of `make_fcontext`, which is no activation.
    let php = "$f = new Fiber(function () { for ($i = 0; $i < 300; $i++) Fiber::suspend($i); }); $s = $f->start(); while (!$f->isTerminated()) $s += $f->resume(); echo $s;";
    let words = ["php", "-n", "-r", php];
    let (contexts, mut count) = traced(&folder, &words);
    count.retain(|(_, name), _| name != "make_fcontext");
    let contexts = contexts
        .into_iter()
        .filter(|((_, name), _)| name != "make_fcontext");
    check(&words, "php", (contexts.collect(), count));
}

/// A greenlet keeps its part of the one stack that all have: its activations go on when that is copied back, which is seen
/// live only.
#[test]
fn greenlets_cost_what_they_executed() {
    let folder = Folder::new("stacks-greenlets");
    let text = "import sys; sys.path.append('/usr/lib/python3/dist-packages')\nfrom greenlet import greenlet\n\
        def deep(n, to):\n  return deep(n - 1, to) + 1 if n else to.switch(7)\n\
        def work():\n  s = 0\n  for i in range(100): s += deep(i % 9, main)\n  return s\n\
        main = greenlet.getcurrent(); g = greenlet(work); s = g.switch()\n\
        while not g.dead: s += g.switch(len(sorted(str(s))))\n\
        print(s)";
    let words = ["/usr/bin/python3", "-S", "-B", "-c", text];
    let native = folder.run(words[0], &words[1..]);
    assert_eq!(String::from_utf8_lossy(&native.stdout), "1381\n");
    let both = live(&folder, &words, &[("PYTHONHASHSEED", "0")]);
    // Most of what the interpreter itself executes depends on addresses.
    let interpreter = |selves: &Selves| {
        let mut all = selves.iter();
        let found = all.find(|((_, name), _)| name == "_PyEval_EvalFrameDefault");
        *found.expect("the interpreter's loop").1
    };
    let [own, exact] = [&both.0, &both.1].map(interpreter);
    let in_stubs = own.checked_sub(exact).unwrap_or(u64::MAX);
    assert!(exact > 1_000_000 && in_stubs < 1000, "{own} of {exact}");
    check(&words, "_greenlet", both);
}

/// The coroutines of qemu are contexts of `swapcontext`. In the trace gofmt's stacks that move begin anew,
/// live they do not; its runtime, which looks at the clock, is not the same in two runs.
#[test]
fn coroutines_of_real_programs_cost_what_they_executed() {
    let folder = Folder::new("stacks-programs");
    fs::write(folder.file("disk"), vec![7; 1 << 20]).unwrap();
    let words = ["qemu-img", "convert", "-O", "qcow2", "disk", "image"];
    check(&words, "qemu-img", traced(&folder, &words));
    let image = fs::read(folder.file("image")).unwrap();
    assert!(image.starts_with(b"QFI\xfb"), "an image was made");

    fs::write(folder.file("program.go"), GO).unwrap();
    let environment = [
        ("GOMAXPROCS", "1"),
        ("GOGC", "off"),
        ("GODEBUG", "asyncpreemptoff=1"),
    ];
    let own = |selves: Selves| -> BTreeMap<String, u64> {
        let packages = ["go/", "text/", "main.", "bytes.", "strings.", "strconv."];
        let named = selves.into_iter().map(|((_, name), own)| (name, own));
        // Goroutines begin and wait in these functions, at which the scheduler asks most often.
        let begins = |name: &str| name.starts_with("main.(*sequencer)");
        let is_own = |name: &str| packages.iter().any(|of| name.starts_with(of)) && !begins(name);
        named
            .filter(|(name, own)| *own > 0 && is_own(name))
            .collect()
    };
    // A function that is asked for the processor at its beginning gives it up and begins again, which takes a few instructions
    // more. In one of fifty runs beside others that is one function or another, in either mode, so the least of several runs is
    // compared.
    let least = |all: &mut BTreeMap<String, u64>, new: BTreeMap<String, u64>| {
        for (name, own) in new {
            let before = all.entry(name).or_insert(own);
            *before = own.min(*before);
        }
    };
    let (mut contexts, mut count) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..12 {
        let run = live(&folder, &["gofmt", "-d", "program.go"], &environment);
        least(&mut contexts, own(run.0));
        least(&mut count, own(run.1));
        if contexts == count {
            break;
        }
    }
    assert!(
        count["text/tabwriter.(*Writer).Write"] > 10_000 && count.len() > 200,
        "{count:?}"
    );
    assert_eq!(contexts, count);
}

/// Slices of one stack that are copied away and back. Where both return from one call, the second return is the
/// caller's, so those who switch are not compared.
#[test]
fn slices_of_a_stack_cost_what_they_executed() {
    let folder = Folder::new("stacks-slices");
    let words = program("stack_slices");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (contexts, count) = live(&folder, &words, &[]);
    for name in ["body", "work", "leaf"] {
        let own = |selves: &Selves| {
            selves
                .iter()
                .find(|((_, function), _)| function == name)
                .map(|(_, &own)| own)
        };
        assert_eq!(own(&contexts), own(&count), "{name}");
        assert!(own(&count) > Some(100), "{name}");
    }
    let text = fs::read_to_string(folder.file("contexts.csv")).unwrap();
    let paths = text.lines().filter(|line| line.contains(";work;leaf"));
    let paths: Vec<&str> = paths.collect();
    assert!(
        !paths.is_empty()
            && paths
                .iter()
                .all(|path| path.contains("main;resume;body;work;leaf")),
        "{paths:?}"
    );
}

/// The block that loads the stack pointer is of the function that executes it, not of that which
/// control goes to.
#[test]
fn the_last_block_of_longjmp_is_its_own() {
    let folder = Folder::new("stacks-longjmp");
    let words = program("flow_longjmp_blocks");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let head = [
        "contexts",
        "--mode",
        "intra",
        "-k",
        "10",
        "--funcs",
        "sj,f,__longjmp",
    ];
    let form = ["--format", "text", "--report", "report", "--"];
    let output = folder.run(BINARY, &[&head[..], &form, &words].concat());
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(folder.file("report")).unwrap();
    let (before, own) = text.split_once("Function: __longjmp()").unwrap();
    let nodes = |text: &str| -> Vec<String> {
        let nodes = text.lines().filter(|line| line.contains('{'));
        nodes
            .map(|line| line.trim_start_matches(['|', ' ']).to_owned())
            .collect()
    };
    assert_eq!(nodes(own), ["{__longjmp+0 at 0,0},1"]);
    assert!(
        nodes(before).iter().all(|node| !node.contains("longjmp")),
        "{before}"
    );
}
