//! The options of `everypath contexts` against the definitions.
//!
//! One program is stepped once; what the options should give is made of the
//! noted events by filters and by the definitions in `analysis::oracle`, and
//! compared with what the product prints, forest by forest, node by node.

use std::path::PathBuf;

use analysis::K;
use analysis::cct::Recursion;
use testkit::build::{self, Built};
use testkit::mode;
use testkit::oracle::{self, Counts, Function, Options, Wanted};
use testkit::product::Run;
use testkit::program::{self, Program};
use testkit::scope::Scope;
use testkit::tree::Tree;

/// Differences shown per set of options.
const SHOWN: usize = 8;

/// A program, stepped.
struct Stepped {
    program: Program,
    built: Built,
    counts: Counts,
    product: PathBuf,
}

fn step(path: &str, own_code: bool) -> Stepped {
    let repository = program::repository();
    let program = program::load(repository.join(path)).expect("the program is well formed");
    let built = build::build(&program, &build::cache_directory()).expect("cc is installed");
    let options = Options {
        own_code,
        ..Options::default()
    };
    let counts = oracle::count(&built.executable, &[], &built.directory, options)
        .expect("the program can be stepped");
    let product = mode::product(&repository).unwrap_or_else(|error| panic!("{error}"));
    Stepped {
        program,
        built,
        counts,
        product,
    }
}

impl Stepped {
    /// All sets of options that begin with one of `choices`, for all `heights`.
    fn check(&self, heights: &[(&str, &[&str])], choices: &[&str]) {
        let mut wrong = Vec::new();
        let mut checked = 0;
        for choice in choices {
            for recursion in ["", "--unroll-recursion"] {
                for join in ["", "--join-threads"] {
                    for (height, forests) in heights {
                        for forest in *forests {
                            let line =
                                format!("{choice} {recursion} {join} {height} --forest {forest}");
                            checked += 1;
                            wrong.extend(self.difference(&line));
                        }
                    }
                }
            }
        }
        let name = &self.program.name;
        assert!(checked >= 40, "{name}: only {checked} sets of options");
        assert!(
            wrong.is_empty(),
            "{name}: {} of {checked} sets of options differ\n{}",
            wrong.len(),
            wrong[..wrong.len().min(SHOWN)].join("\n")
        );
    }

    /// Differences with the options of `line`.
    fn difference(&self, line: &str) -> Option<String> {
        let options: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let run = Run {
            product: &self.product,
            built: &self.built,
            args: &[],
            stdin: "",
        };
        let ours: Vec<Tree> = match run.forests(&options) {
            Ok(sections) => sections.into_iter().map(|section| section.tree).collect(),
            Err(error) => return Some(format!("{line}: {error}")),
        };
        let expected = self.expected(&options);
        if ours.len() != expected.len() {
            let (ours, expected) = (ours.len(), expected.len());
            return Some(format!("{line}: {ours} forests, expected {expected}"));
        }
        let pairs = ours.iter().zip(&expected);
        let differences: Vec<String> = pairs
            .flat_map(|(ours, expected)| ours.differences(expected, SHOWN))
            .collect();
        (!differences.is_empty()).then(|| format!("{line}\n  {}", differences.join("\n  ")))
    }

    /// Forests that the definitions give for `options`.
    fn expected(&self, options: &[String]) -> Vec<Tree> {
        let has = |option: &str| options.iter().any(|given| given == option);
        let value = |option: &str| {
            let at = options.iter().position(|given| given == option)?;
            options.get(at + 1).map(String::as_str)
        };
        let funcs: Option<Vec<&str>> = value("--funcs").map(|list| list.split(',').collect());
        let rootless = has("--main-image-only");
        let own = rootless.then_some(&*self.program.name);
        let modules = value("--modules").or(own);
        let selected = |function: &Function| {
            funcs
                .as_ref()
                .is_none_or(|funcs| funcs.contains(&function.name.as_str()))
                && modules.is_none_or(|module| module == function.module)
        };
        let chosen: &dyn Fn(&Function) -> bool = &selected;
        let wanted = Wanted {
            k: value("-k").map_or(K::Infinite, |k| K::Finite(k.parse().expect("a number"))),
            recursion: Recursion::from(has("--unroll-recursion")),
            selected: (funcs.is_some() || modules.is_some()).then_some(chosen),
            rootless,
            start: value("--start-func"),
            stop: value("--stop-func"),
        };
        let trees = match value("--forest") {
            Some("kccf") => self.counts.calling_context_forests(&wanted),
            _ => self.counts.slab_forests(&wanted),
        };
        if has("--join-threads") {
            return vec![Tree::joined(&trees)];
        }
        trees
    }
}

/// Every k with the forests that are compared; the gate has the first four.
const HEIGHTS: &[(&str, &[&str])] = &[
    ("-k 0", &["ksf", "kccf"]),
    ("-k 1", &["ksf", "kccf"]),
    ("-k 3", &["ksf", "kccf"]),
    ("--k-inf", &["ksf", "kccf"]),
    ("-k 2", &["ksf", "kccf"]),
    ("-k 5", &["ksf"]),
    ("-k 10", &["kccf"]),
];

/// Heights that this scope compares.
fn heights() -> &'static [(&'static str, &'static [&'static str])] {
    match Scope::current() {
        Scope::Wide => HEIGHTS,
        _ => &HEIGHTS[..4],
    }
}

#[test]
fn recursion_tail_calls_threads_and_signals() {
    let stepped = step("tests/programs/contexts_selected.c", true);
    stepped.check(
        heights(),
        &[
            "--modules contexts_selected",
            "--funcs direct,even,odd,leaf,work",
            "--funcs relay,last,leaf,on_usr1",
        ],
    );
}

#[test]
#[ignore = "wide: roots of recursive programs are in the gate"]
fn functions_of_the_program_without_a_root() {
    // Slabs have the levels of the tree with the root.
    const HEIGHTS: &[(&str, &[&str])] = &[
        ("-k 0", &["ksf", "kccf"]),
        ("-k 1", &["kccf"]),
        ("-k 3", &["kccf"]),
        ("-k 10", &["kccf"]),
        ("--k-inf", &["ksf", "kccf"]),
    ];
    let choices = ["--main-image-only", "--main-image-only --start-func begin"];
    step("tests/programs/contexts_selected.c", true).check(HEIGHTS, &choices);
    let choices = ["--main-image-only", "--main-image-only --start-func e"];
    step("tests/paper/prog1.c", true).check(HEIGHTS, &choices);
}

#[test]
fn counting_begins_at_a_function() {
    let stepped = step("tests/programs/contexts_selected.c", true);
    stepped.check(
        heights(),
        &[
            "--modules contexts_selected --start-func begin",
            "--modules contexts_selected --start-func direct",
        ],
    );
}

#[test]
fn counting_ends_at_a_function() {
    let stepped = step("tests/programs/contexts_selected.c", true);
    stepped.check(
        heights(),
        &[
            "--modules contexts_selected --stop-func finish",
            "--modules contexts_selected --start-func begin --stop-func finish",
            "--modules contexts_selected --start-func direct --stop-func last",
        ],
    );
}

#[test]
fn counting_begins_and_ends_at_functions_that_are_not_selected() {
    let stepped = step("tests/programs/contexts_selected.c", true);
    stepped.check(
        heights(),
        &[
            "--funcs leaf,odd,even --start-func begin",
            "--funcs leaf,odd,even --stop-func finish",
        ],
    );
}

#[test]
fn jumps_between_functions() {
    let stepped = step("tests/programs/contexts_jumps.S", false);
    // From k = 3 on: a jump back over a slab's border is a known gap
    // (docs/design/0004-contexts-by-stack-pointer.md).
    let is_known = |(height, _): &&(&str, _)| !matches!(*height, "-k 1" | "-k 2");
    let heights: Vec<_> = heights().iter().filter(is_known).copied().collect();
    stepped.check(
        &heights,
        &["", "--funcs _start,leaf,one,dispatch", "--stop-func two"],
    );
}

#[test]
fn recursion_in_a_static_program() {
    let stepped = step("tests/programs/contexts_recursion.c", false);
    stepped.check(heights(), &["", "--funcs main,fib,even,odd,leaf"]);
}

#[test]
fn two_threads_of_the_paper() {
    let stepped = step("tests/paper/prog1.c", true);
    stepped.check(
        heights(),
        &["--funcs a,b,c,d,e,f", "--funcs a,c,e --start-func e"],
    );
}
