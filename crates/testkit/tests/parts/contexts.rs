//! Calling contexts, three ways against each other:
//!
//! 1. the oracle against the forests printed in paper 000 (`tests/paper`),
//!    which shows that the oracle means what the paper means;
//! 2. `everypath contexts` against the same forests, line by line;
//! 3. `everypath contexts`, also in chaos, against the oracle, node by node, on
//!    every program of `tests/programs`: each one says `// run: oracle`, `// run: oracle
//!    own-functions`, or why not;
//!    So are contexts that `everypath report --as contexts` makes of a trace;
//!    Without callers (`-k 0`), too;
//! 4. whole contexts folded to those of k callers ([`folded`]).
//!
//! `EVERYPATH_ONLY=name` leaves one program, `EVERYPATH_NATIVE=1` only part 1.

mod folded;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use analysis::K;
use analysis::cct::Recursion;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use testkit::build::{self, Built, Ready};
use testkit::directive::Comparison;
use testkit::jobs::{self, Done};
use testkit::mode;
use testkit::oracle::{self, CostsByContext, Function, Options, Wanted};
use testkit::paper::{self, Case};
use testkit::product::{Derived, Run};
use testkit::program::{self, Program};
use testkit::scope::{STEPPED, Scope};
use testkit::tree::Tree;

/// Differences shown per program.
const SHOWN: usize = 12;

/// Programs without contexts of a trace: after its last outcome a killed thread's instructions are
/// not known, and files that are not there any more have no functions.
const NOT_MADE: [&str; 2] = ["signal_default_kill", "process_execveat_flags"];

/// The program of the paper that the gate steps; the product is compared with the forests of all of them.
const PAPER_STEPPED: &str = "prog9";

/// Functions that other modules have, too: a report has names, and not whose they are.
const EVERYWHERE: [&str; 7] = [
    "_start",
    "_init",
    "_fini",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
];

type Check = fn(&Program, &Built, &Path) -> Result<(), String>;

struct Job {
    program: Program,
    part: &'static str,
    check: Check,
}

impl Job {
    fn name(&self) -> String {
        format!("{} ({})", self.program.name, self.part)
    }
}

pub fn run() -> Result<(), String> {
    let repository = program::repository();
    let discover = |directory: &str| {
        program::discover(&repository.join(directory)).map_err(|error| error.to_string())
    };
    let native_only = std::env::var_os("EVERYPATH_NATIVE").is_some();
    let mut jobs = Vec::new();
    let mut left = 0;
    for program in discover("tests/paper")? {
        jobs.push(Job {
            program: program.clone(),
            part: "paper, oracle",
            check: oracle_against_paper,
        });
        if !native_only {
            jobs.push(Job {
                program,
                part: "paper, product",
                check: product_against_paper,
            });
        }
    }
    let programs = if native_only {
        Vec::new()
    } else {
        discover("tests/programs")?
    };
    for program in programs {
        let check: Check = match &program.directives.oracle {
            Some(Comparison::AllFunctions) => all_functions,
            Some(Comparison::OwnFunctions) => own_functions,
            Some(Comparison::Disagrees(reason)) => {
                println!("wrong   {}: {reason}", program.name);
                known_disagreement
            }
            Some(Comparison::Nothing(reason)) => {
                println!("left    {}: {reason}", program.name);
                left += 1;
                continue;
            }
            None => {
                return Err(format!(
                    "{} says neither `// run: oracle` nor `// run: no-oracle REASON`",
                    program.name
                ));
            }
        };
        if folded::PROGRAMS.contains(&&*program.name) {
            jobs.push(Job {
                program: program.clone(),
                part: "folded",
                check: folded::check,
            });
        }
        jobs.push(Job {
            program,
            part: "oracle, product",
            check,
        });
    }
    let product = if native_only {
        PathBuf::new()
    } else {
        mode::product(&repository).map_err(|error| error.to_string())?
    };
    let cache = build::cache_directory();
    println!("{left} programs say why their contexts cannot be compared");
    let (mut paper, programs): (Vec<Job>, Vec<Job>) = jobs
        .into_iter()
        .partition(|job| job.part.starts_with("paper"));
    let all = paper.len() + programs.len();
    if Scope::current() != Scope::Wide && !native_only {
        paper.retain(|job| job.part != "paper, oracle" || job.program.name == PAPER_STEPPED);
    }
    let (mut jobs, _) = Scope::current().choose(programs, &STEPPED, |job| &job.program.name);
    jobs.extend(paper);
    jobs::run(&jobs, "contexts", all - jobs.len(), Job::name, |job| {
        check(job, &cache, &product)
    })
}

/// Keeps a worker on one processor: a step is two switches between tracer and
/// program, half as quick again on one as on two. It also makes what a program
/// is told about processors the same in both of its runs.
fn stay_on_one_processor() {
    static WORKER: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STAYS: bool = {
            let there = std::thread::available_parallelism().map_or(1, usize::from);
            let mut set = CpuSet::new();
            let chosen = set.set(WORKER.fetch_add(1, Ordering::Relaxed) % there);
            chosen.and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)).is_ok()
        };
    }
    // Where it is not allowed, the test is only slower.
    STAYS.with(|_| ());
}

/// Runs one comparison.
fn check(job: &Job, cache: &Path, product: &Path) -> Result<Done, String> {
    stay_on_one_processor();
    let program = &job.program;
    let built = match build::ready(program, cache)? {
        Ready::Built(built) => built,
        Ready::Missing(why) => return Ok(Done::Missing(why)),
    };
    (job.check)(program, &built, product)?;
    Ok(Done::Compared(1, String::new()))
}

fn cases(program: &Program) -> Result<Vec<Case>, String> {
    let path = program.source.with_extension("expect.txt");
    paper::load(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn counted(program: &Program, built: &Built, own_code: bool) -> Result<oracle::Counts, String> {
    let options = Options {
        own_code,
        ..Options::default()
    };
    oracle::count(
        &built.executable,
        arguments(program),
        &built.directory,
        options,
    )
    .map_err(|error| format!("oracle: {error}"))
}

/// The arguments of a comparison.
fn arguments(program: &Program) -> &[String] {
    let directives = &program.directives;
    directives.oracle_args.as_ref().unwrap_or(&directives.args)
}

/// Options of a case of the paper, for the oracle.
fn wanted<'a>(case: &Case, selected: &'a dyn Fn(&Function) -> bool) -> Wanted<'a> {
    let k = match case.value("-k").and_then(|k| k.parse().ok()) {
        Some(k) if !case.has("--k-inf") => K::Finite(k),
        _ => K::Infinite,
    };
    Wanted {
        k,
        recursion: Recursion::from(case.has("--unroll-recursion")),
        selected: Some(selected),
        ..Wanted::EVERYTHING
    }
}

/// Plain slab forests of infinite k: their order of nodes is the paper's too.
fn oracle_against_paper(program: &Program, built: &Built, _: &Path) -> Result<(), String> {
    let counts = counted(program, built, false)?;
    for case in cases(program)?.iter().filter(|case| case.has("--k-inf")) {
        let funcs = case.value("--funcs").unwrap_or_default();
        let keep: Vec<&str> = funcs.split(',').collect();
        let selected = |function: &Function| keep.contains(&function.name.as_str());
        let mut trees = counts.slab_forests(&wanted(case, &selected));
        if case.has("--join-threads") {
            trees = vec![Tree::joined(&trees)];
        }
        let expected: Vec<&Tree> = case.sections.iter().map(|section| &section.tree).collect();
        same_rows(&trees.iter().collect::<Vec<_>>(), &expected, &case.options)?;
    }
    Ok(())
}

fn product_against_paper(program: &Program, built: &Built, product: &Path) -> Result<(), String> {
    for case in cases(program)? {
        let sections = product_run(program, built, product).forests(&case.options)?;
        if sections
            .iter()
            .map(|s| s.kind)
            .ne(case.sections.iter().map(|s| s.kind))
        {
            return Err(format!(
                "{}: another number or kind of forests",
                case.options.join(" ")
            ));
        }
        let ours: Vec<&Tree> = sections.iter().map(|section| &section.tree).collect();
        let expected: Vec<&Tree> = case.sections.iter().map(|section| &section.tree).collect();
        same_rows(&ours, &expected, &case.options)?;
    }
    Ok(())
}

fn product_run<'a>(program: &'a Program, built: &'a Built, product: &'a Path) -> Run<'a> {
    Run {
        product,
        built,
        args: arguments(program),
        stdin: &program.directives.stdin,
    }
}

/// Functions without their callers.
const ALONE: [&str; 5] = ["-k", "0", "--forest", "ksf", "--join-threads"];

/// Whole contexts of all threads and processes together.
const WHOLE: [&str; 4] = ["--k-inf", "--forest", "ksf", "--join-threads"];

fn all_functions(program: &Program, built: &Built, product: &Path) -> Result<(), String> {
    let counts = counted(program, built, false)?;
    let run = product_run(program, built, product);
    let expected = counts.joined();
    also_in_chaos(&WHOLE.map(str::to_owned), |options| {
        same_nodes(&run.joined(options)?, &expected)
    })?;
    let wanted = Wanted {
        k: K::Finite(0),
        ..Wanted::EVERYTHING
    };
    let alone = Tree::joined(&counts.slab_forests(&wanted));
    let words = ALONE.map(str::to_owned);
    also_in_chaos(&words, |options| same_nodes(&run.joined(options)?, &alone))?;
    let made = made(program, &run)?;
    if let Some(made) = &made {
        same_nodes(&made.joined(&WHOLE.map(str::to_owned))?, &expected).map_err(of_a_trace)?;
        same_nodes(&made.joined(&words)?, &alone).map_err(of_a_trace)?;
    }
    // A C library's string functions take other paths at other alignments of
    // arguments and environment, and these lie elsewhere natively: counts are
    // compared for programs that bring their own code only. For others see
    // `tests/instructions.rs`.
    let own_code = program
        .directives
        .build
        .iter()
        .any(|word| word == "-nostdlib");
    if !program.directives.deterministic_counts {
        return Ok(());
    }
    if own_code {
        let instructions = run.instructions()?;
        if instructions != counts.instructions() {
            return Err(format!(
                "{instructions} instructions, expected {}",
                counts.instructions()
            ));
        }
    }
    // Of others, those of the program's own functions are, if it can be told which.
    if !own_code
        && program
            .directives
            .build
            .iter()
            .any(|word| word.starts_with("-static"))
    {
        return Ok(());
    }
    let own: BTreeSet<&str> = counts
        .processes
        .iter()
        .flatten()
        .filter(|function| own_code || function.module == program.name)
        .map(|function| &*function.name)
        .collect();
    let compared = |mut costs: CostsByContext| {
        let last = |path: &Vec<String>| path.last().is_some_and(|name| own.contains(&**name));
        costs.retain(|path, _| own_code || last(path));
        costs
    };
    let mut expected = compared(counts.costs_by_context());
    let all = ["--cost", "branches,loads,stores"].map(str::to_owned);
    if let Some(made) = &made {
        same_costs(compared(made.costs_by_context(&all)?), &expected).map_err(of_a_trace)?;
    }
    also_in_chaos(&all, |options| {
        same_costs(compared(run.costs_by_context(options)?), &expected)
    })?;
    // Instructions alone, as without `--cost`.
    for [_, others @ ..] in expected.values_mut() {
        *others = [0; 3];
    }
    also_in_chaos(&[], |options| {
        same_costs(compared(run.costs_by_context(options)?), &expected)
    })
}

/// A trace, to make contexts of.
fn made<'a>(program: &Program, run: &'a Run<'a>) -> Result<Option<Derived<'a>>, String> {
    if NOT_MADE.contains(&&*program.name) {
        return Ok(None);
    }
    // Chaos has small chunks, and a filter of some program forbids new ones.
    let chaos = match program.directives.no_order {
        None => &["--chaos", "3"].map(str::to_owned)[..],
        Some(_) => &[],
    };
    run.made(chaos).map(Some)
}

fn of_a_trace(error: String) -> String {
    format!("made of a trace: {error}")
}

/// Context by context.
fn same_costs(ours: CostsByContext, expected: &CostsByContext) -> Result<(), String> {
    let renamed = |costs: &CostsByContext| {
        let mut sums = CostsByContext::new();
        for (path, &costs) in costs {
            let path = path.iter().map(|name| comparable(name)).collect();
            let sum = sums.entry(path).or_default();
            *sum = std::array::from_fn(|i| sum[i] + costs[i]);
        }
        sums
    };
    let (ours, expected) = (renamed(&ours), renamed(expected));
    let paths: BTreeSet<&Vec<String>> = ours.keys().chain(expected.keys()).collect();
    let differences = paths.into_iter().filter_map(|path| {
        let (ours, expected) = (ours.get(path), expected.get(path));
        let number =
            |cost: Option<&[u64; 4]>| cost.map_or("none".to_owned(), |costs| format!("{costs:?}"));
        (ours != expected).then(|| {
            let (ours, expected) = (number(ours), number(expected));
            format!(
                "{}: {ours}, expected {expected} (instructions, branches, loads, stores)",
                path.join(";")
            )
        })
    });
    let differences: Vec<String> = differences.take(SHOWN).collect();
    match differences.is_empty() {
        true => Ok(()),
        false => Err(differences.join("\n")),
    }
}

fn own_functions(program: &Program, built: &Built, product: &Path) -> Result<(), String> {
    let counts = counted(program, built, true)?;
    let own = |function: &Function| function.module == program.name;
    let wanted = Wanted {
        selected: Some(&own),
        ..Wanted::EVERYTHING
    };
    let mut options = WHOLE.map(str::to_owned).to_vec();
    options.extend(["--modules".to_owned(), program.name.clone()]);
    // Roots count threads and signals, not functions: the oracle leaves out
    // processes that execute other programs, and the product does not.
    let expected = Tree::joined(&counts.slab_forests(&wanted)).without_roots();
    let run = product_run(program, built, product);
    also_in_chaos(&options, |options| {
        let ours = run.joined(options)?;
        same_nodes(&ours.without_roots(), &expected)
    })?;
    let wanted = Wanted {
        k: K::Finite(0),
        ..wanted
    };
    let alone = Tree::joined(&counts.slab_forests(&wanted)).without_special_roots();
    let mut options = ALONE.map(str::to_owned).to_vec();
    options.extend(["--modules".to_owned(), program.name.clone()]);
    let ours = run.joined(&options)?;
    same_nodes(&ours.without_special_roots(), &alone)?;
    let Some(made) = made(program, &run)? else {
        return Ok(());
    };
    let functions = counts.processes.iter().flatten();
    let own = functions.filter(|function| own(function));
    let names: BTreeSet<&str> = own.map(|function| &*function.name).collect();
    let ours = made.joined(&WHOLE.map(str::to_owned))?;
    let ours = ours.kept(|name| names.contains(name)).without_roots();
    // As it is called where functions were selected.
    let root = |name: &str| name.replace("[thread]", "__root__");
    let told_apart = |tree: Tree| tree.kept(|name| !EVERYWHERE.contains(&name));
    same_nodes(&told_apart(ours.renamed(root)), &told_apart(expected)).map_err(of_a_trace)
}

/// Compares once more with code that is evicted all the time and
/// nodes that lie too far from the thread's first for the table.
fn also_in_chaos(
    options: &[String],
    compare: impl Fn(&[String]) -> Result<(), String>,
) -> Result<(), String> {
    compare(options)?;
    let mut chaotic = options.to_vec();
    chaotic.extend(["--chaos".to_owned(), "3".to_owned()]);
    compare(&chaotic).map_err(|error| format!("in chaos: {error}"))
}

/// Passes while the product is wrong, and fails as soon as it is right.
fn known_disagreement(program: &Program, built: &Built, product: &Path) -> Result<(), String> {
    match own_functions(program, built, product) {
        Ok(()) => Err("they agree now: say `// run: oracle`".to_owned()),
        Err(_) => Ok(()),
    }
}

/// Node by node. Functions outside of files that can be read are known by
/// address only, and addresses differ.
fn same_nodes(ours: &Tree, expected: &Tree) -> Result<(), String> {
    let named = |tree: &Tree| tree.renamed(comparable);
    let differences = named(ours).differences(&named(expected), SHOWN);
    if differences.is_empty() {
        return Ok(());
    }
    Err(differences.join("\n"))
}

fn comparable(name: &str) -> String {
    if name.starts_with("0x") || name.contains(" (deleted)+") {
        return "[code]".to_owned();
    }
    // A module may be known by the name of a link to it.
    let offset = name.find("+0x").unwrap_or(0);
    name[offset..].to_owned()
}

/// The forests must be equal line by line, order included.
fn same_rows(ours: &[&Tree], expected: &[&Tree], options: &[String]) -> Result<(), String> {
    if ours
        .iter()
        .map(|tree| tree.rows())
        .eq(expected.iter().map(|tree| tree.rows()))
    {
        return Ok(());
    }
    let text = |trees: &[&Tree]| {
        trees
            .iter()
            .map(|tree| tree.to_text())
            .collect::<Vec<_>>()
            .join("-----\n")
    };
    Err(format!(
        "{}\ngot:\n{}expected:\n{}",
        options.join(" "),
        text(ours),
        text(expected)
    ))
}
