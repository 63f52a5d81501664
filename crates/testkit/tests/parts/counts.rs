//! `everypath count`, also in chaos, against the single-stepping oracle: every
//! instruction of every program that the oracle can count, how often it was
//! executed and how often what lies behind it followed; and of every indirect jump, call
//! and return, where it went ([`edges_of`]).
//!
//! | program | compared |
//! |---|---|
//! | brings its own code only (`-nostdlib`) | all instructions |
//! | `// run: oracle`, `// run: oracle own-functions` | those of its own file |
//! | the same, but with a C library in its own file (`-static`) | nothing |
//! | `// run: nondeterministic-counts`, `// run: no-oracle`, `// run: no-counts` | nothing |
//!
//! A C library's string functions take other paths at other alignments of arguments
//! and environment, so its own instructions are left out.
//!
//! What is recorded must also fit together: the sum over blocks is what the threads
//! retired, and what goes into a block comes out of it.
//!
//! The same runs of the oracle say which contexts basic blocks have ([`blocks_of`]), and in
//! which order everything is executed ([`traces_of`]), with which accesses ([`accesses_of`]).
//!
//! `// run: no-order` leaves out the order.
//!
//! `EVERYPATH_ONLY=name` leaves one program.

mod accesses_of;
mod blocks_of;
mod controls_of;
mod edges_of;
mod traces_of;

use std::collections::HashMap;
use std::path::Path;

use analysis::counts::{self, blocks, hot};
use testkit::build::{self, Built, Ready};
use testkit::directive::Comparison;
use testkit::jobs::{self, Done};
use testkit::mode;
use testkit::oracle::{self, Executions, Options};
use testkit::product::Run;
use testkit::program::{self, Program, missing_feature};
use testkit::scope::{CONTEXTS_ONLY, STEPPED, Scope};
use trace::Recording;

/// Differences shown per program.
const SHOWN: usize = 12;

type Places = HashMap<(String, u64), Executions>;

/// Modules whose instructions are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    OwnFile,
}

pub fn run() -> Result<(), String> {
    let repository = program::repository();
    let programs = program::discover(&repository.join("tests/programs"));
    let mut jobs = Vec::new();
    for program in programs.map_err(|error| error.to_string())? {
        if let Some(part) = part(&program) {
            jobs.push((program, part));
        }
    }
    let comparable: Vec<&str> = jobs.iter().map(|job| &*job.0.name).collect();
    let chosen: Vec<&str> = STEPPED
        .iter()
        .copied()
        .filter(|name| comparable.contains(name) && !CONTEXTS_ONLY.contains(name))
        .collect();
    let (jobs, left) = Scope::current().choose(jobs, &chosen, |job| &job.0.name);
    let product = mode::product(&repository).map_err(|error| error.to_string())?;
    let cache = build::cache_directory();
    let name = |job: &(Program, Part)| job.0.name.clone();
    jobs::run(&jobs, "counts", left, name, |(program, part)| {
        let built = match build::ready(program, &cache)? {
            Ready::Built(built) => built,
            Ready::Missing(why) => return Ok(Done::Missing(why)),
        };
        check(program, &built, *part, &product)?;
        Ok(Done::Compared(1, String::new()))
    })
}

/// `None`: the program cannot be compared.
fn part(program: &Program) -> Option<Part> {
    let directives = &program.directives;
    let compared = matches!(
        directives.oracle,
        Some(Comparison::AllFunctions | Comparison::OwnFunctions)
    );
    if let Some(reason) = &directives.no_counts {
        println!("left    {}: {reason}", program.name);
        return None;
    }
    if !compared || !directives.deterministic_counts || missing_feature(&directives.needs).is_some()
    {
        return None;
    }
    let linked_in = directives
        .build
        .iter()
        .any(|word| word.starts_with("-static"));
    let alone = directives.build.iter().any(|word| word == "-nostdlib");
    match (alone, linked_in) {
        (true, _) => Some(Part::All),
        (false, false) => Some(Part::OwnFile),
        (false, true) => None,
    }
}

fn check(program: &Program, built: &Built, part: Part, product: &Path) -> Result<(), String> {
    let directives = &program.directives;
    let args = directives.oracle_args.as_ref().unwrap_or(&directives.args);
    let options = Options {
        own_code: part == Part::OwnFile,
        blocks: true,
        ..Options::default()
    };
    let stepped = oracle::count(&built.executable, args, &built.directory, options)
        .map_err(|error| format!("oracle: {error}"))?;
    let name = built.executable.file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    let wanted = |file: &str| part == Part::All || file == name;
    let mut expected = stepped.executed();
    expected.retain(|(file, _), _| wanted(file));
    let run = Run {
        product,
        built,
        args,
        stdin: &directives.stdin,
    };
    let edges = edges_of::expected(&stepped);
    let counted = |recording: &Recording| {
        sound(recording)?;
        let mut ours = executed(recording)?;
        ours.retain(|(file, _), _| wanted(file));
        same(&ours, &expected)?;
        edges_of::check(recording, &edges, wanted)
    };
    for chaos in [None, Some("3")] {
        let options: Vec<String> = chaos.map_or(Vec::new(), |seed| {
            vec!["--chaos".to_owned(), seed.to_owned()]
        });
        let recording = run.recording(&options)?;
        counted(&recording).map_err(|error| format!("{}: {error}", options.join(" ")))?;
    }
    let module = (part == Part::OwnFile).then_some(&*name);
    match &directives.no_order {
        Some(reason) => println!("left    {}, order: {reason}", program.name),
        None => {
            traces_of::check(&run, &stepped, module, &counted)?;
            accesses_of::check(&run, &stepped, module, &program.name)?;
            if controls_of::PROGRAMS.contains(&program.name.as_str()) {
                controls_of::check(&run, &stepped, module, &name)?;
            }
        }
    }
    if let Some(reason) = &directives.no_blocks {
        println!("left    {}, blocks: {reason}", program.name);
        return Ok(());
    }
    blocks_of::check(&run, &stepped, module)
}

fn executed(recording: &Recording) -> Result<Places, String> {
    let counts = counts::of_recording(recording).map_err(|error| error.to_string())?;
    let mut places = Places::new();
    for insn in &counts.insns {
        let path = counts.units[insn.unit as usize].path.as_deref();
        let name = path.map_or("", |path| path.rsplit('/').next().unwrap_or(path));
        let sum = places.entry((name.to_owned(), insn.at)).or_default();
        sum.count += insn.count;
        // Only branches are told from what follows them.
        sum.fell += insn.fell;
    }
    Ok(places)
}

/// Conditional branches must agree in both; of others, what followed is not compared.
fn same(ours: &Places, expected: &Places) -> Result<(), String> {
    let mut differences = Vec::new();
    let places: std::collections::BTreeSet<&(String, u64)> =
        ours.keys().chain(expected.keys()).collect();
    for place in places {
        let get = |places: &Places| places.get(place).copied().unwrap_or_default();
        let (ours, expected) = (get(ours), get(expected));
        let taken = ours.fell != ours.count && ours.fell != expected.fell;
        if ours.count != expected.count || taken {
            differences.push(format!(
                "{}+{:#x}: {ours:?}, expected {expected:?}",
                place.0, place.1
            ));
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    let all = differences.len();
    differences.truncate(SHOWN);
    Err(format!("{all} differences\n{}", differences.join("\n")))
}

/// Whether the recording fits together.
fn sound(recording: &Recording) -> Result<(), String> {
    let counts = counts::of_recording(recording).map_err(|error| error.to_string())?;
    let blocks = blocks::of(&counts);
    let threads = recording.processes.iter().flat_map(|p| &p.threads);
    let retired: u128 = threads.map(|thread| u128::from(thread.insns)).sum();
    let executed: u128 = blocks.blocks.iter().map(hot::weight).sum();
    if retired != executed {
        return Err(format!(
            "{executed} instructions in blocks, {retired} in threads"
        ));
    }
    let mut out = vec![0u64; blocks.blocks.len()];
    for edge in &blocks.edges {
        out[edge.from] += edge.count;
    }
    for (at, block) in blocks.blocks.iter().enumerate() {
        let insns = &counts.insns[block.first..][..block.len];
        if insns.iter().any(|insn| insn.count != block.count) {
            return Err(format!("block {at} is not executed as a whole"));
        }
        if out[at] != 0 && out[at] != block.count {
            return Err(format!("{} leave block {at} of {}", out[at], block.count));
        }
    }
    Ok(())
}

/// Code that is in no file lies elsewhere in every run.
fn comparable(name: &str) -> String {
    match name.starts_with("{0x") {
        true => "[code]".to_owned(),
        false => name.to_owned(),
    }
}
