//! The tree and the values of each thread as columns of numbers.
//!
//! | element | what |
//! |---|---|
//! | `data-levels` | per node by how much less than one it is deeper than the node before |
//! | `data-names` | per node its name, as in the table of `super::head` |
//! | `data-values-N` | of metric N, thread after thread (or before and after): how many values; then per value how far its node is from the one before, and the value |
//! | `data-inclusive-N` | the same of what nodes cost with all that they called, if whole contexts were folded |
//! | `data-functions-N` | the same of functions, by their names' numbers |
//!
//! Numbers are in base 128, lowest digit first, the top bit set in all but the
//! last. A column is one zlib stream (`DecompressionStream("deflate")` of the
//! browser), in base64 with lines of [`LINE`] bytes, each for itself decodable.

use std::io::{self, Write};

use analysis::merged::{OfThread, Value};
use flate2::Compression;
use flate2::write::ZlibEncoder;

/// Bytes per line of base64; a multiple of three, so that a line needs no other.
const LINE: usize = 48 << 10;

/// The nodes in preorder: depth and name of each.
pub fn tree(nodes: impl Iterator<Item = (u32, u64)>, out: &mut dyn Write) -> io::Result<()> {
    let mut levels = Numbers::default();
    let mut names = Numbers::default();
    let mut before = None;
    for (depth, name) in nodes {
        // A root after the first one is as a child of nothing.
        let deepest = before.map_or(0, |depth: u32| u64::from(depth) + 1);
        levels.push(deepest.saturating_sub(u64::from(depth)));
        names.push(name);
        before = Some(depth);
    }
    element("data-levels", &levels.0, out)?;
    element("data-names", &names.0, out)
}

/// The values of a metric: a list for each thread, in the order of the nodes.
pub fn values<'a>(
    metric: usize,
    lists: impl Iterator<Item = &'a [Value]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    lists_of(&format!("data-values-{metric}"), lists, out)
}

/// Writes the inclusive costs of nodes and functions.
pub fn inclusive(metric: usize, threads: &[OfThread], out: &mut dyn Write) -> io::Result<()> {
    let nodes = threads.iter().map(|thread| &*thread.inclusive[metric]);
    lists_of(&format!("data-inclusive-{metric}"), nodes, out)?;
    let functions = threads.iter().map(|thread| &*thread.of_functions[metric]);
    lists_of(&format!("data-functions-{metric}"), functions, out)
}

fn lists_of<'a>(
    id: &str,
    lists: impl Iterator<Item = &'a [Value]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut values = Numbers::default();
    for list in lists {
        values.push(list.len() as u64);
        let mut last = 0;
        for &(node, value) in list {
            values.push(u64::from(node - last));
            values.push(value);
            last = node;
        }
    }
    element(id, &values.0, out)
}

/// Bytes as an element that the browser does not look into.
pub fn element(id: &str, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let mut compressed = ZlibEncoder::new(Vec::new(), Compression::default());
    compressed.write_all(bytes)?;
    writeln!(out, "<script id=\"{id}\" type=\"text/plain\">")?;
    for line in compressed.finish()?.chunks(LINE) {
        writeln!(out, "{}", base64(line))?;
    }
    writeln!(out, "</script>")
}

#[derive(Default)]
struct Numbers(Vec<u8>);

impl Numbers {
    fn push(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            match digit <= group.len() {
                true => text.push(char::from(DIGITS[(bits >> (18 - 6 * digit)) as usize & 63])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let texts = ["", "f", "fo", "foo", "foob", "fooba", "foobar"].map(|t| base64(t.as_bytes()));
        let expected = [
            "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy",
        ];
        assert_eq!(texts, expected);
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
    }

    #[test]
    fn numbers_are_in_base_128() {
        let mut numbers = Numbers::default();
        for number in [0, 127, 128, 300, u64::MAX] {
            numbers.push(number);
        }
        assert_eq!(numbers.0[..6], [0, 127, 0x80, 1, 0xac, 2]);
        assert_eq!(numbers.0[6..], [&[0xff; 9][..], &[1]].concat());
    }
}
