//! Dictionaries on disk: what is read is what was written, and other bytes are refused without harm.

use arbtest::arbitrary::{Result, Unstructured};
use arbtest::arbtest;
use placement::dictionary::{File, Function, Insn, Logged, SITE_OF_TRAP, Site, decode, encode};

/// A number with many or few digits.
fn number(u: &mut Unstructured<'_>) -> Result<u64> {
    let shift = u.int_in_range(0..=63)?;
    Ok(u.arbitrary::<u64>()? >> shift)
}

fn list<T>(
    u: &mut Unstructured<'_>,
    mut one: impl FnMut(&mut Unstructured<'_>) -> Result<T>,
) -> Result<Vec<T>> {
    (0..u.int_in_range(0..=4)?).map(|_| one(u)).collect()
}

fn file(u: &mut Unstructured<'_>) -> Result<File> {
    let functions = u.int_in_range(1..=5u32)?;
    let function = |u: &mut Unstructured<'_>| u.int_in_range(0..=functions - 1);
    let sources = list(u, |u| Ok(format!("source {}", number(u)?)))?;
    let sites = list(u, |u| {
        Ok(Site {
            at: number(u)?,
            caller: function(u)?,
            kind: u.int_in_range(0..=SITE_OF_TRAP)?,
            source: u.int_in_range(0..=sources.len() as u32)?,
            line: u.arbitrary()?,
        })
    })?;
    let edges = match sites.len() as u32 {
        0 => Vec::new(),
        sites => list(u, |u| {
            Ok((u.int_in_range(0..=sites - 1)?, function(u)?, number(u)?))
        })?,
    };
    let sorted = |u: &mut Unstructured<'_>| {
        let mut all = list(u, number)?;
        all.sort_unstable();
        Ok(all)
    };
    let start = number(u)?;
    Ok(File {
        original: format!("/bin/{}", number(u)?),
        name: format!("{}", number(u)?),
        by_function: u.arbitrary()?,
        size: number(u)?,
        hash: u.arbitrary()?,
        start: number(u)?,
        base: number(u)?,
        most: number(u)?,
        functions: (0..functions)
            .map(|_| {
                Ok(Function {
                    entry: number(u)?,
                    others: list(u, number)?,
                    name: "x".repeat(u.int_in_range(0..=9)?),
                    is_moved: u.arbitrary()?,
                    tails: list(u, function)?,
                    ranges: list(u, |u| Ok((number(u)?, number(u)?)))?,
                })
            })
            .collect::<Result<_>>()?,
        sites,
        edges,
        sources,
        exits: sorted(u)?,
        restored: sorted(u)?,
        returns: sorted(u)?,
        logged: list(u, |u| {
            Ok(Logged {
                function: function(u)?,
                word: "x".repeat(u.int_in_range(0..=3)?),
                is_left: u.arbitrary()?,
            })
        })?,
        added: (start, start.wrapping_add(number(u)?)),
        code: list(u, |u| {
            Ok(Insn {
                front: number(u)?,
                new: number(u)?,
                old: number(u)?,
            })
        })?,
    })
}

#[test]
fn a_dictionary_is_read_as_it_was_written() {
    arbtest(|u| {
        let files = list(u, file)?;
        assert_eq!(decode(&encode(&files)), Some(files));
        Ok(())
    })
    .budget_ms(500);
}

#[test]
fn damaged_dictionaries_are_no_harm() {
    arbtest(|u| {
        let mut bytes = encode(&list(u, file)?);
        if u.arbitrary()? {
            bytes.truncate(u.int_in_range(0..=bytes.len())?);
        }
        for _ in 0..u.int_in_range(0..=3)? {
            let at = u.int_in_range(0..=bytes.len().max(1) - 1)?;
            if let Some(byte) = bytes.get_mut(at) {
                *byte = u.arbitrary()?;
            }
        }
        if let Some(files) = decode(&bytes) {
            for file in files {
                let functions = file.functions.len() as u32;
                assert!(file.sites.iter().all(|site| site.caller < functions));
                let sites = file.sites.len() as u32;
                let mut edges = file.edges.iter();
                assert!(edges.all(|edge| edge.0 < sites && edge.1 < functions));
            }
        }
        Ok(())
    })
    .budget_ms(500);
}
