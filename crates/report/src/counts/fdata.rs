//! A profile for llvm-bolt, as `perf2bolt` makes one of hardware samples; but exact.
//!
//! ```text
//! 1 main 82 1 main 50 0 299998         branch at main+0x82, taken to main+0x50
//! 1 work/1 1c 1 work/1 1e 0 100        went on behind the branch
//! 1 main 13 0 [unknown] 0 0 1          a call of what is in no function here
//! 0 [unknown] 0 1 work/1 0 0 7         entered by what is not known
//! ```
//!
//! Fields: is it a symbol, its name, hexadecimal offset; the same of where it goes;
//! mispredictions (0: not known), executions. Names are those of llvm-bolt: a local
//! symbol is NAME/N, the Nth of its name.
//!
//! Limits: of one file. A count beyond 2^63 - 1 is refused: the reader's numbers are
//! signed.

use std::io::{self, Write};
use std::ops::Range;

use analysis::counts::transfers::{self, Text, Transfer};
use image::{FileOffset, Image, LinkAddr, LinkerSymbol};

use super::Report;

pub(super) fn write(report: &Report<'_>, out: &mut dyn Write) -> io::Result<()> {
    let (section, unit, image) = report.only_module()?;
    let symbols = symbols(image);
    if symbols.is_empty() {
        return Err(io::Error::other(bare(image)));
    }
    let functions: Vec<Range<u64>> = symbols.iter().map(extent).collect();
    let text = Text {
        read: &|addr| image.bytes_from(LinkAddr(addr)),
        functions: &functions,
    };
    let to_link = |offset| Some(image.link_addr(FileOffset(offset))?.0);
    for transfer in transfers::of(&section.counts, unit, &text, to_link) {
        write_transfer(&transfer, &symbols, out)?;
    }
    Ok(())
}

pub(super) fn refusal(image: &Image) -> Option<String> {
    image.linker_symbols().is_empty().then(|| bare(image))
}

fn bare(image: &Image) -> String {
    let path = image.path().display();
    format!("'{path}' has no symbol table, by which llvm-bolt knows functions")
}

fn write_transfer(
    transfer: &Transfer,
    symbols: &[LinkerSymbol],
    out: &mut dyn Write,
) -> io::Result<()> {
    let to = place(transfer.to, symbols);
    let from = transfer.from.and_then(|from| place(from, symbols));
    if from.is_none() && to.is_none() {
        return Ok(());
    }
    if i64::try_from(transfer.count).is_err() {
        let message = format!(
            "{} executions of one branch are more than llvm-bolt reads, which is 2^63 - 1",
            transfer.count
        );
        return Err(io::Error::other(message));
    }
    let shown = |place: Option<(String, u64)>| match place {
        Some((name, offset)) => format!("1 {name} {offset:x}"),
        None => "0 [unknown] 0".to_owned(),
    };
    writeln!(out, "{} {} 0 {}", shown(from), shown(to), transfer.count)
}

fn extent(symbol: &LinkerSymbol) -> Range<u64> {
    symbol.addr.0..symbol.addr.0.saturating_add(symbol.size)
}

/// One for each address.
fn symbols(image: &Image) -> Vec<LinkerSymbol> {
    let mut symbols = image.linker_symbols();
    symbols.dedup_by_key(|symbol| symbol.addr);
    symbols
}

/// Name and offset of the function that holds an address.
fn place(addr: u64, symbols: &[LinkerSymbol]) -> Option<(String, u64)> {
    let after = symbols.partition_point(|symbol| symbol.addr.0 <= addr);
    let symbol = &symbols[after.checked_sub(1)?];
    extent(symbol)
        .contains(&addr)
        .then(|| (escaped(symbol), addr - symbol.addr.0))
}

fn escaped(symbol: &LinkerSymbol) -> String {
    let name = symbol.name.replace('\\', "\\\\").replace(' ', "\\ ");
    match symbol.nth {
        Some(nth) => format!("{name}/{nth}"),
        None => name,
    }
}
