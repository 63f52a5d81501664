//! `rewrite --tool opmix`: instructions by mnemonic, held against the counters of `edges` with objdump's disassembly.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::Command;

use testkit::folder::Folder;

use crate::BINARY;
use crate::counted::{counters, edit, run};

const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) static int pick(int n) {
    switch (n % 7) { case 0: return n / 3; case 1: return n * 5; case 2: return n ^ 99; case 3: return -n; case 5: return n << 3; }
    return n & 31;
}
__attribute__((noinline)) static double mean(const double *all, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += all[i] > 0.5 ? all[i] : -all[i];
    return sum / n;
}
int main(int argc, char **argv) {
    char text[64];
    double all[50];
    int sum = 0;
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 1000; i++) sum += pick(i * argc) + text[i % 64];
    for (int i = 0; i < 50; i++) all[i] = pick(i) / 9.0;
    printf("%d %.3f\n", sum, mean(all, 50));
    return 0;
}
"#;

/// Executions by mnemonic.
type Mix = BTreeMap<String, u64>;

/// Mnemonics by address.
fn disassembled(folder: &Folder, program: &str) -> HashMap<u64, String> {
    let words = ["-d", "-w", "-M", "intel", "--no-show-raw-insn", program];
    let output = Command::new("objdump")
        .args(words)
        .current_dir(folder.path())
        .output();
    let text = String::from_utf8(output.expect("objdump is installed").stdout).expect("text");
    let prefixes = [
        "rep", "repz", "repnz", "lock", "notrack", "bnd", "data16", "cs",
    ];
    let lines = text.lines().filter_map(|line| {
        let (at, insn) = line.trim().split_once(":\t")?;
        let mut words = insn.split_whitespace();
        let mnemonic = words.find(|word| !prefixes.contains(word))?;
        // objdump has the size of string instructions with the operands.
        let is_string = ["movs", "stos", "cmps", "scas", "lods"].contains(&mnemonic);
        let size = words
            .next()
            .filter(|_| is_string)
            .map_or("", |size| match size {
                "BYTE" => "b",
                "WORD" => "w",
                "DWORD" => "d",
                _ => "q",
            });
        Some((
            u64::from_str_radix(at, 16).ok()?,
            format!("{mnemonic}{size}"),
        ))
    });
    lines.collect()
}

/// Rows of a report as comma separated values, without their head.
fn csv(folder: &Folder, file: &str) -> Vec<Vec<String>> {
    let output = folder.run(BINARY, &["report", file, "--format", "csv"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8(output.stdout).expect("text");
    let rows = text.lines().skip(1);
    rows.map(|row| {
        row.split(',')
            .map(|field| field.trim_matches('"').to_owned())
            .collect()
    })
    .collect()
}

/// Counts by `edges` of each function, or of all (``), with mnemonics of objdump.
fn expected(folder: &Folder, program: &str, file: &str, apart: bool) -> BTreeMap<String, Mix> {
    let mnemonics = disassembled(folder, program);
    let mut mixes: BTreeMap<String, Mix> = BTreeMap::new();
    for row in csv(folder, file) {
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let start = u64::from_str_radix(&row[1][2..], 16).expect("an offset");
        let (bytes, executed) = (number(&row[2]), number(&row[4]));
        let name = if apart { row[5].clone() } else { String::new() };
        let mix = mixes.entry(name).or_default();
        for at in start..start + bytes {
            if let Some(mnemonic) = mnemonics.get(&at) {
                *mix.entry(mnemonic.clone()).or_default() += executed;
            }
        }
    }
    for mix in mixes.values_mut() {
        mix.retain(|_, count| *count > 0);
    }
    mixes.retain(|_, mix| !mix.is_empty());
    mixes
}

/// Counts by `opmix`.
fn mixes(folder: &Folder, file: &str, apart: bool) -> BTreeMap<String, Mix> {
    let mut mixes: BTreeMap<String, Mix> = BTreeMap::new();
    for row in csv(folder, file) {
        let name = if apart { row[0].clone() } else { String::new() };
        let mix = mixes.entry(name).or_default();
        *mix.entry(row[2].clone()).or_default() += row[3].parse::<u64>().expect("a number");
    }
    mixes
}

/// Runs a program that was edited with both tools, and compares.
fn compare(folder: &Folder, program: &str, arguments: &[&str], apart: bool) {
    let files = ["edges", "opmix"].map(|tool| {
        let inside = edit(folder, program, tool);
        let output = run(folder, &inside, program, arguments);
        assert!(output.status.success(), "{output:?}");
        counters(folder, &inside).remove(0)
    });
    let expected = expected(folder, program, &files[0], apart);
    assert!(!expected.is_empty());
    assert_eq!(mixes(folder, &files[1], apart), expected);
}

#[test]
fn mnemonics_are_those_of_objdump() {
    let folder = Folder::new("opmix");
    folder.program(&["-O2"], "program", PROGRAM);
    compare(&folder, "program", &[], true);
    // A table for people, and other commands say what the file is.
    let file = counters(&folder, "program.opmix").remove(0);
    let output = folder.run(BINARY, &["report", &file, "--top", "1"]);
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(
        text.contains("instructions of 3 functions")
            && text.contains("not that of libraries")
            && text.contains("2  functions more: --top"),
        "{text}"
    );
    let said = folder.refused(BINARY, &["report", &file, "--format", "json"]);
    assert!(said.contains("--format csv"), "{said}");
    let said = folder.refused(BINARY, &["diff", &file, &file]);
    assert!(said.contains("only `report` shows"), "{said}");
}

#[test]
fn a_real_program_has_the_mnemonics_of_objdump() {
    let folder = Folder::new("opmix-gzip");
    fs::copy("/usr/bin/gzip", folder.file("gzip")).expect("gzip is installed");
    fs::write(folder.file("input"), PROGRAM.repeat(100)).expect("room");
    let input = folder.file("input");
    let input = input.to_str().expect("text");
    compare(&folder, "gzip", &["-c", input], false);
}
