//! Plans on disk: what is written is read, and other bytes are refused or give another plan.

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use placement::plan::{
    File, Function, Kind, Left, PlannedEdge, Site, Tool, Uncounted, end_of, start_of,
};

const KINDS: [Kind; 4] = [Kind::Falls, Kind::Taken, Kind::Case, Kind::Abandoned];

fn function(u: &mut Unstructured<'_>) -> Result<Function> {
    let mut function = Function {
        entry: u.int_in_range(0..=1 << 40)?,
        first: u.int_in_range(0..=1 << 20)?,
        ..Function::default()
    };
    let blocks = u.int_in_range(1..=6u32)?;
    let mut at = function.entry;
    for block in 0..blocks {
        // Parts of a function may be before its entry.
        at = at
            .wrapping_add(u.int_in_range(0..=1 << 20)?)
            .wrapping_sub(1 << 19)
            & ((1 << 41) - 1);
        let len = u.int_in_range(1..=300)?;
        function.blocks.push((at, len));
        at += u64::from(len);
        function.edges.push(PlannedEdge {
            from: start_of(block),
            to: end_of(block),
            kind: Kind::Block,
            has_counter: u.arbitrary()?,
        });
    }
    function.tables = u.int_in_range(0..=1)?;
    for _ in 0..u.int_in_range(0..=8)? {
        function.edges.push(PlannedEdge {
            from: u.int_in_range(0..=end_of(blocks - 1))?,
            to: u.int_in_range(0..=end_of(blocks - 1))?,
            kind: *u.choose(&KINDS)?,
            has_counter: u.arbitrary()?,
        });
    }
    for _ in 0..u.int_in_range(0..=2)? {
        function.sites.push(Site {
            block: u.int_in_range(0..=blocks - 1)?,
            number: u.arbitrary()?,
        });
    }
    Ok(function)
}

fn uncounted(u: &mut Unstructured<'_>) -> Result<Uncounted> {
    let mut uncounted = Uncounted {
        reasons: vec!["G7, an address".into(), String::new()],
        outside: u.arbitrary()?,
        of: u.arbitrary()?,
        ..Uncounted::default()
    };
    for _ in 0..u.int_in_range(0..=3)? {
        uncounted.functions.push(Left {
            entry: u.arbitrary()?,
            bytes: u.arbitrary()?,
            reason: u.arbitrary()?,
        });
    }
    Ok(uncounted)
}

fn file(u: &mut Unstructured<'_>) -> Result<File> {
    let mut functions = Vec::new();
    for _ in 0..u.int_in_range(0..=3)? {
        functions.push(function(u)?);
    }
    Ok(File {
        tool: *u.choose(&[Tool::Edges, Tool::Blocks, Tool::Coverage])?,
        original: "/usr/bin/päth".into(),
        size: u.arbitrary()?,
        hash: u.arbitrary()?,
        main: u.arbitrary()?,
        shared_bits: u.int_in_range(0..=20)?,
        functions,
        uncounted: uncounted(u)?,
    })
}

#[test]
fn what_is_written_is_read() {
    arbtest(|u| {
        let file = file(u)?;
        assert_eq!(File::decode(&file.encode()), Some(file));
        Ok(())
    });
}

/// Every prefix and every change gives a plan whose edges are between its nodes, or none; nothing panics.
#[test]
fn damaged_plans_are_refused_or_sound() {
    arbtest(|u| {
        let mut bytes = file(u)?.encode();
        match u.arbitrary()? {
            true => {
                let length = u.int_in_range(0..=bytes.len() - 1)?;
                bytes.truncate(length);
                assert_eq!(File::decode(&bytes), None);
            }
            false => {
                let at = u.int_in_range(0..=bytes.len() - 1)?;
                bytes[at] ^= u.int_in_range(1..=255u8)?;
                let Some(file) = File::decode(&bytes) else {
                    return Ok(());
                };
                for function in &file.functions {
                    let (graph, chords) = function.graph();
                    assert!(chords.len() <= graph.edges.len());
                    let _ = placement::solve(&graph, &chords, |_| u64::MAX);
                }
            }
        }
        Ok(())
    });
}
