//! `dump --pt`: libipt, which shares nothing with Everypath, decodes the packets to the
//! instructions that were executed, one by one.

use analysis::walk::Pieces;
use testkit::folder::{Folder, addresses, program};

use crate::BINARY;

const DECODER: &str = include_str!("pt/decode.c");

/// Programs of `tests/programs` whose control goes odd ways.
const PROGRAMS: [&str; 12] = [
    "code_far_jumps",
    "code_rwx_jit",
    "code_selfmod_same_block",
    "contexts_exceptions",
    "contexts_fork",
    "flow_call_site_self",
    "flow_coroutines",
    "flow_longjmp",
    "process_exec_chain",
    "signal_nested",
    "signal_interrupted_rep",
    "thread_create_join",
];

/// Both forms.
const FORMS: [&[&str]; 2] = [&[], &["--pt-targets"]];

/// Decodes every thread of `run.evp` there.
fn check(folder: &Folder, name: &str, forms: &[&[&str]]) -> u64 {
    let file = std::fs::File::open(folder.file("run.evp")).unwrap();
    let recording = trace::read(file).unwrap();
    let mut number = 0;
    for form in forms {
        let packets = folder.file("packets");
        let _ = std::fs::remove_dir_all(&packets);
        let arguments = [&["dump", "run.evp", "--pt", "packets"], *form].concat();
        let output = folder.run(BINARY, &arguments);
        assert!(output.status.success(), "{name}: {output:?}");
        number = 0;
        for (at, process) in recording.processes.iter().enumerate() {
            let mut pieces = Pieces::of(process);
            for thread in &process.threads {
                let expected = addresses(&mut pieces, thread);
                let process = format!("packets/{at}-{}", process.pid);
                let stream = format!("{process}-{}.pt", thread.tid);
                let decoder = folder.file("decode");
                let decoder = decoder.to_str().unwrap();
                let output = folder.run(decoder, &[&format!("{process}.code"), &stream]);
                let said = String::from_utf8_lossy(&output.stderr);
                let addresses = output.stdout.chunks_exact(8);
                let ours: Vec<u64> = addresses
                    .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
                    .collect();
                let same = ours.iter().zip(&expected).take_while(|(a, b)| a == b);
                let same = same.count();
                assert!(
                    ours == expected && output.status.success(),
                    "{name} {form:?}, {stream}: {} instructions, expected {}; after {same}: {said}",
                    ours.len(),
                    expected.len()
                );
                number += expected.len() as u64;
            }
        }
    }
    number
}

fn with_decoder(name: &str) -> Folder {
    let folder = Folder::new(name);
    std::fs::write(folder.file("decode.c"), DECODER).unwrap();
    let compiler = ["-O2", "-o", "decode", "decode.c", "-lipt"];
    let output = folder.run("gcc", &compiler);
    assert!(output.status.success(), "is libipt-dev there? {output:?}");
    folder
}

fn trace(folder: &Folder, options: &[&str], program: &[&str]) {
    let head = ["-R", BINARY, "trace", "-q", "-o", "run.evp"];
    let arguments = [&head[..], options, &["--"], program].concat();
    let output = folder.run("setarch", &arguments);
    // What the program says is compared elsewhere.
    assert_ne!(output.status.code(), Some(125), "{output:?}");
}

#[test]
#[ignore = "wide: 24 traces decoded take a minute; real programs are decoded in the gate"]
fn libipt_decodes_the_same_instructions() {
    let folder = with_decoder("pt-programs");
    for name in PROGRAMS {
        let words = program(name);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for (chaos, forms) in [(&[][..], &FORMS[..]), (&["--chaos", "3"], &FORMS[..1])] {
            trace(&folder, chaos, &words);
            assert!(check(&folder, name, forms) > 0, "{name}");
        }
    }
}

#[test]
fn libipt_decodes_real_programs() {
    let folder = with_decoder("pt-real");
    for (program, least) in [
        (&["/usr/bin/gcc", "--version"][..], 500_000),
        (
            &[
                "sqlite3",
                ":memory:",
                "select sum(value) from generate_series(1, 9)",
            ],
            500_000,
        ),
    ] {
        trace(&folder, &[], program);
        assert!(check(&folder, program[0], &FORMS) > least, "{program:?}");
    }
}

#[test]
fn a_folder_that_has_something_is_refused() {
    let folder = Folder::new("pt-folder");
    trace(&folder, &[], &["true"]);
    std::fs::create_dir(folder.file("packets")).unwrap();
    std::fs::write(folder.file("packets/mine"), "").unwrap();
    let error = folder.refused(BINARY, &["dump", "run.evp", "--pt", "packets"]);
    assert!(error.contains("'packets' is not empty"), "{error}");
}
