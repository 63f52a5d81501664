//! `everypath raptor` as its users see it: the figures of the mTrace thesis, and real programs
//! made again of what was predicted wrongly.

use testkit::folder::Folder;
use testkit::program;

use crate::BINARY;

#[track_caller]
fn printed(folder: &Folder, arguments: &[&str]) -> String {
    let output = folder.run(BINARY, arguments);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A trace of a program of tests/programs, in `run.evp`.
fn traced(folder: &Folder, name: &str) {
    let path = program::repository().join("tests/programs").join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("// build: cc "));
    let flags: Vec<&str> = line.unwrap().split_whitespace().collect();
    folder.compile(&flags, "prog", &path);
    printed(folder, &["trace", "-q", "-o", "run.evp", "--", "./prog"]);
}

/// Its descriptors with `options`, as text with branches.
fn descriptors(folder: &Folder, name: &str, options: &[&str]) -> Vec<String> {
    traced(folder, name);
    let head = [
        "raptor", "run.evp", "--form", "ascii", "--disasm", "-o", "out",
    ];
    printed(folder, &[&head[..], options].concat());
    let text = std::fs::read_to_string(folder.file("out")).unwrap();
    text.lines().map(str::to_owned).collect()
}

/// Figure 4.31 shows the last seven of thirteen branches.
#[test]
fn the_gshare_example() {
    let folder = Folder::new("raptor-gshare");
    let ours = descriptors(&folder, "traptor_gshare.S", &["--gshare", "256"]);
    let mut expected = vec!["0, 0, 0, 0x0000000000400471"];
    expected.extend(["0, 2 jbe 0x400481"; 9]);
    expected.extend([
        "0, 3 jbe 0x400481",
        "0, 2 jbe 0x400481",
        // The last one is predicted; three instructions behind it the thread ends.
        "0, 0, 4, 0x8000000000000000",
    ]);
    assert_eq!(ours, expected);
}

/// Figure 4.33: six returns are predicted, main's is not, and its bCnt is 8.
#[test]
fn the_return_address_stack_example() {
    let folder = Folder::new("raptor-returns");
    let ours = descriptors(&folder, "traptor_returns.S", &[]);
    let expected = [
        "0, 0, 0, 0x00000000004004a8",
        "0, 7 jz 0x400495",
        "0, 8, T, 0x00000000004004af ret",
        "0, 0, 3, 0x8000000000000000",
    ];
    assert_eq!(ours, expected);
}

/// `--thesis`: the descriptors of figure 4.33, and none before and behind. bCnt begins with 1
/// where the thread does, as no descriptor was written there.
#[test]
fn descriptors_of_the_thesis_alone() {
    let folder = Folder::new("raptor-thesis");
    let ours = descriptors(&folder, "traptor_returns.S", &["--thesis"]);
    let expected = ["0, 7 jz 0x400495", "0, 8, T, 0x00000000004004af ret"];
    assert_eq!(ours, expected);
    let live = [
        "trace",
        "-q",
        "--raptor",
        "--thesis",
        "--form",
        "ascii",
        "--disasm",
        "--descriptors",
        "live",
        "--",
        "./prog",
    ];
    printed(&folder, &live);
    let live = std::fs::read_to_string(folder.file("live")).unwrap();
    assert!(live.lines().eq(expected), "{live}");
}

/// Handlers of signals have theirs; their returns have none.
#[test]
fn exceptions_of_the_thesis_are_handlers() {
    let folder = Folder::new("raptor-thesis-signals");
    let source = "#include <signal.h>\nstatic void h(int s){(void)s;}\n\
        int main(void){signal(SIGUSR1,h);raise(SIGUSR1);raise(SIGUSR1);return 0;}\n";
    folder.program(&["-O1"], "prog", source);
    printed(&folder, &["trace", "-q", "-o", "run.evp", "--", "./prog"]);
    let raptor = |name: &str, option: &[&str]| {
        let head = ["raptor", "run.evp", "--form", "ascii", "-o", name];
        let said = printed(&folder, &[&head[..], option].concat());
        assert!(said.contains("\n2 exceptions\n"), "{said}");
        let text = std::fs::read_to_string(folder.file(name)).unwrap();
        let exceptions = text.lines().filter(|line| line.starts_with("0, 0, "));
        let targets = exceptions.map(|line| line.rsplit_once(", ").unwrap().1.to_owned());
        targets.collect::<Vec<_>>()
    };
    let (all, thesis) = (raptor("all", &[]), raptor("thesis", &["--thesis"]));
    // A begin, two handlers, two returns, an end.
    assert_eq!(all.len(), 6);
    assert_eq!(thesis, [all[1].clone(), all[3].clone()]);
    assert_eq!(thesis[0], thesis[1]);
}

/// The program of figure 4.33 has six calls open at its deepest: with four entries the two
/// oldest are gone. A circular stack reads the newest again, which is right once by chance.
#[test]
fn more_calls_than_the_return_address_stack_has_entries() {
    let folder = Folder::new("raptor-overflow");
    const FIRST: [&str; 2] = ["0, 0, 0, 0x00000000004004a8", "0, 7 jz 0x400495"];
    const LAST: [&str; 2] = [
        "0, 2, T, 0x00000000004004af ret",
        "0, 0, 3, 0x8000000000000000",
    ];
    let expected = |returns: &[&'static str]| [&FIRST[..], returns, &LAST[..]].concat();
    let circular = expected(&["0, 7, T, 0x00000000004004a6 ret"]);
    let oldest = expected(&[
        "0, 6, T, 0x0000000000400493 ret",
        "0, 2, T, 0x00000000004004a6 ret",
    ]);
    let ours = |options: &[&str]| {
        let options = [&["--ras", "4"], options].concat();
        descriptors(&folder, "traptor_returns.S", &options)
    };
    assert_eq!(ours(&[]), circular);
    assert_eq!(ours(&["--ras-overflow", "circular"]), circular);
    assert_eq!(ours(&["--ras-overflow", "drop-oldest"]), oldest);
}

/// Figure 4.35, with the branches that it leaves out: without a gshare every taken `jle` has a
/// descriptor, and so each call has bCnt 2 as there.
#[test]
fn the_ibtb_example() {
    let folder = Folder::new("raptor-ibtb");
    let ours = descriptors(&folder, "traptor_ibtb.S", &["--gshare", "0"]);
    let call = "0, 2, T, 0x0000000000400474 call rdx";
    let jle = |count| format!("0, {count} jle 0x400493");
    // Which calls are predicted: the test of `ibtb` has the same from the figure.
    let hits = [
        false, true, false, false, false, false, false, false, true, true,
    ];
    let mut expected = vec!["0, 0, 0, 0x00000000004004aa".to_owned(), jle(2)];
    for (turn, hit) in hits.into_iter().enumerate() {
        if !hit {
            expected.push(call.to_owned());
        }
        // The call, unless it had a descriptor, the return and itself.
        let count = if hit { 4 } else { 3 };
        if turn < 9 {
            expected.push(jle(count));
        }
    }
    expected.push("0, 5, T, 0x00000000004004b1 ret".to_owned());
    expected.push("0, 0, 3, 0x8000000000000000".to_owned());
    assert_eq!(ours, expected);
}

/// Figures 4.8 and 4.10.
#[test]
fn the_enumeration_example() {
    let folder = Folder::new("mcf-enumeration");
    traced(&folder, "mcf_enumeration.S");
    let text = printed(&folder, &["dump", "run.evp", "--mcf", "ascii", "--disasm"]);
    let figures = [
        "0, 0x00000000004004d3, 0x000000000040059e, C, D, NT jnbe 0x40059e",
        "0, 0x00000000004004d9, 0x000000000040059e, C, D, NT jnb 0x40059e",
        "0, 0x0000000000400572, 0x0000000000400572, C, D, NT loop 0x400572",
        "0, 0x000000000040057b, 0x000000000040057b, C, D, NT loope 0x40057b",
        "0, 0x000000000040058f, 0x0000000000400594, U, D, T jmp 0x400594",
        "0, 0x0000000000400599, 0x00000000004003b8, U, D, T call 0x4003b8",
    ];
    let mut lines = text.lines();
    for figure in figures {
        assert!(
            lines.any(|line| line == figure),
            "{figure} is not in\n{text}"
        );
    }
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("0, 0x000000000040059f, 0x"), "{last}");
    assert!(last.ends_with(", U, I, T ret"), "{last}");
}

/// Figure 4.12, line by line.
#[test]
fn the_contexts_example() {
    let folder = Folder::new("mcf-contexts");
    traced(&folder, "mcf_contexts.S");
    let text = printed(&folder, &["dump", "run.evp", "--mcf", "ascii", "--disasm"]);
    let of_figure: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("C, D") || line.ends_with("call rax"))
        .collect();
    let taken = "0, 0x00000000004004fe, 0x00000000004004fe, C, D, T loop 0x4004fe";
    let figure = [
        "0, 0x00000000004004ec, 0x00000000004004f1, C, D, T jnbe 0x4004f1",
        "0, 0x00000000004004f5, 0x00000000004004f7, C, D, T jz 0x4004f7",
        taken,
        taken,
        taken,
        taken,
        "0, 0x00000000004004fe, 0x00000000004004fe, C, D, NT loop 0x4004fe",
        "0, 0x0000000000400511, 0x00000000004004c4, U, I, T call rax",
    ];
    assert_eq!(of_figure, figure);
}

/// Descriptors, the code, and nothing else give what was traced.
#[test]
fn real_programs_are_made_again() {
    let folder = Folder::new("raptor-real");
    let text: String = (0..1500).map(|line| format!("{}\n", line * line)).collect();
    std::fs::write(folder.file("text"), text).unwrap();
    let programs: [(&[&str], &[&str]); 2] = [
        (&["/usr/bin/gcc", "--version"], &["gshare"]),
        (
            &["/usr/bin/xz", "-0kf", "-T2", "--block-size=5KiB", "text"],
            &["bimodal", "tage"],
        ),
    ];
    for (program, predictors) in programs {
        let head = ["trace", "-q", "-o", "run.evp", "--"];
        printed(&folder, &[&head[..], program].concat());
        printed(
            &folder,
            &["dump", "run.evp", "--mcf", "binary", "-o", "mcf"],
        );
        for outcomes in predictors {
            let raptor = ["raptor", "run.evp", "--targets", "ibtb-last", "--outcomes"];
            let said = printed(&folder, &[&raptor[..], &[outcomes, "--check"]].concat());
            assert!(said.ends_with("made again, all equal\n"), "{said}");
            printed(&folder, &[&raptor[..], &[outcomes, "-o", "out"]].concat());
            let decode = [outcomes, "--decode", "out", "-o", "decoded"];
            printed(&folder, &[&raptor[..], &decode].concat());
            let read = |name: &str| std::fs::read(folder.file(name)).unwrap();
            assert!(
                read("decoded") == read("mcf"),
                "{program:?} with {outcomes}"
            );
        }
    }
}

/// The output has the length that is stated, and the statistics of figure 4.23 add up.
#[test]
fn statistics_are_of_what_is_written() {
    let folder = Folder::new("raptor-statistics");
    let program = [
        "trace",
        "-q",
        "-o",
        "run.evp",
        "--",
        "/usr/bin/gcc",
        "--version",
    ];
    printed(&folder, &program);
    let said = printed(&folder, &["raptor", "run.evp", "-o", "out"]);
    let number = |text: &str| -> u64 { text.replace(',', "").parse().unwrap() };
    let row = said.lines().nth(4).unwrap();
    let bytes = number(row.split_whitespace().nth(5).unwrap());
    assert_eq!(bytes, std::fs::metadata(folder.file("out")).unwrap().len());
    let figures: Vec<u64> = said
        .lines()
        .skip_while(|line| !line.starts_with("mcfTRaptor"))
        .filter_map(|line| line.split_whitespace().next()?.parse().ok())
        .collect();
    let [
        outcomes,
        right,
        wrong,
        targets,
        hits,
        missed,
        exceptions,
        others,
    ] = figures[..]
    else {
        panic!("{figures:?} of {said}")
    };
    assert_eq!((outcomes, targets), (right + wrong, hits + missed));
    assert_eq!((exceptions, others), (0, 2));
    assert_eq!(bytes, wrong * 6 + missed * 15 + others * 18);
}

#[test]
fn what_cannot_be_is_refused() {
    let folder = Folder::new("raptor-refused");
    traced(&folder, "traptor_ibtb.S");
    let refused = |arguments: &[&str], sentence: &str| {
        let output = folder.run(BINARY, &[&["raptor", "run.evp"], arguments].concat());
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(stderr, format!("everypath: {sentence}\n"));
    };
    refused(
        &["--check"],
        "a target in either way of a set of 'ibtb' counts as predicted, and no decoder can \
         tell in which; give --targets ibtb-last",
    );
    refused(
        &["--disasm", "-o", "out"],
        "binary descriptors have no place for branches; use --form ascii",
    );
    refused(
        &["--gshare", "1000"],
        "invalid value '1000' for '--entries <N>': give 0, or a power of two up to 16777216; \
         see `everypath raptor --help`",
    );
    refused(
        &["--thesis", "--targets", "ibtb-last", "--check"],
        "the argument '--thesis' cannot be used with '--check'; see `everypath raptor --help`",
    );
    // Descriptors of other predictors, and bytes that are none.
    let last = ["raptor", "run.evp", "--targets", "ibtb-last"];
    printed(&folder, &[&last[..], &["-o", "out"]].concat());
    let decode = |words: &[&str]| {
        let decode = ["--decode", "out", "-o", "decoded"];
        let output = folder.run(BINARY, &[&last[..], &decode, words].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let silent = decode(&["--ras", "0"]);
    assert!(
        silent.ends_with("nothing says where the branch at 0x400479 goes\n"),
        "{silent}"
    );
    std::fs::write(folder.file("out"), [0, 1, 0, 0, 0, 9]).unwrap();
    assert_eq!(
        decode(&[]),
        "everypath: 'out': the descriptors: this is no descriptor\n"
    );
}
