//! Which function an out-of-line part belongs to.
//!
//! By name where there are names: `f.cold` belongs to the `f` of the same
//! compilation unit (several static functions may be called `f`; the local
//! symbols of a unit follow its FILE symbol), else to the global `f`. Without
//! names the part is entered by a relative jump (`e9` or `0f 8x` with a
//! 32-bit displacement) from its function: one pass over the bytes finds all
//! that hit a part exactly. Bytes that only look like such a jump are rare
//! enough: one in 2^32 per part. Last, the function before it.
//!
//! Limits: a part of a part is resolved one level deep.

use hashbrown::HashMap;

use crate::addr::{LinkAddr, to_file};
use crate::functions::{ExtentKind, Input, Start};
use crate::names::Names;

/// Endings compilers and post-link optimizers give to moved code, in the form
/// `f.cold`, `f.cold.3`.
const PART_ENDINGS: [&str; 3] = [".cold", ".warm", ".__part"];

/// The function's name in a part's name.
pub(crate) fn owner_name(name: &str) -> Option<&str> {
    let base = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let numbered = base.len() < name.len() && base.ends_with('.');
    let base = if numbered {
        &base[..base.len() - 1]
    } else {
        name
    };
    PART_ENDINGS
        .iter()
        .find_map(|ending| base.strip_suffix(ending))
        .filter(|owner| !owner.is_empty())
}

/// Fills `owner` of every start.
pub(crate) fn assign(starts: &mut [Start], input: &Input<'_>, names: &Names) {
    let by_name = owners_by_name(starts, input, names);
    let by_jump = owners_by_jump(starts, input, &by_name);
    let mut before = None;
    for index in 0..starts.len() as u32 {
        let start = &mut starts[index as usize];
        start.owner = index;
        if start.kind == ExtentKind::Function {
            before = Some(index);
            continue;
        }
        let found = by_name.get(&index).or_else(|| by_jump.get(&index));
        // A part before every function has no owner; it becomes a function
        // when the table is finished.
        start.owner = found.copied().or(before).unwrap_or(index);
    }
}

fn parts(starts: &[Start]) -> impl Iterator<Item = (u32, &Start)> {
    let numbered = starts.iter().enumerate();
    numbered
        .filter(|(_, start)| start.kind == ExtentKind::Part)
        .map(|(index, start)| (index as u32, start))
}

/// Part to owner, both as indices of starts.
fn owners_by_name(starts: &[Start], input: &Input<'_>, names: &Names) -> HashMap<u32, u32> {
    let wanted = |start: &Start| owner_name(names.get(start.name?));
    let mut candidates: HashMap<&str, Vec<(u32, u32)>> = parts(starts)
        .filter_map(|(_, start)| Some((wanted(start)?, Vec::new())))
        .collect();
    if candidates.is_empty() {
        return HashMap::new();
    }
    for symbol in &input.symbols {
        let Some(list) = candidates.get_mut(names.get(symbol.name)) else {
            continue;
        };
        if let Ok(index) = starts.binary_search_by_key(&symbol.addr, |start| start.addr)
            && starts[index].kind == ExtentKind::Function
        {
            list.push((symbol.unit, index as u32));
        }
    }
    let owner = |start: &Start| {
        let list = candidates.get(wanted(start)?)?;
        let of_unit = |unit| list.iter().find(|candidate| candidate.0 == unit);
        let found = of_unit(start.unit)
            .or_else(|| of_unit(0))
            .or(list.first())?;
        Some(found.1)
    };
    parts(starts)
        .filter_map(|(index, start)| Some((index, owner(start)?)))
        .collect()
}

/// Owners, by jumps, of the parts that have none yet.
fn owners_by_jump(
    starts: &[Start],
    input: &Input<'_>,
    known: &HashMap<u32, u32>,
) -> HashMap<u32, u32> {
    let open: Vec<(u64, u32)> = parts(starts)
        .filter(|(index, _)| !known.contains_key(index))
        .map(|(index, start)| (start.addr, index))
        .collect();
    let mut owners = HashMap::new();
    let (Some(&(lowest, _)), Some(&(highest, _))) = (open.first(), open.last()) else {
        return owners;
    };
    for code in &input.code {
        let left_out = to_file(input.segments, LinkAddr(code.start)).and_then(|start| {
            let end = start.0.saturating_add(code.bytes.len() as u64);
            input.holes?.fill(start.0..end)
        });
        let bytes = left_out.as_deref().unwrap_or(code.bytes);
        for (at, target) in jumps(bytes, code.start) {
            if target < lowest || target > highest {
                continue;
            }
            let Ok(part) = open.binary_search_by_key(&target, |&(addr, _)| addr) else {
                continue;
            };
            let source = starts.partition_point(|start| start.addr <= at);
            let Some(source) = source.checked_sub(1) else {
                continue;
            };
            if starts[source].kind == ExtentKind::Function {
                owners.entry(open[part].1).or_insert(source as u32);
            }
        }
    }
    owners
}

/// Bytes that look like `jmp rel32` or `jcc rel32` (Intel SDM vol. 2, JMP and Jcc):
/// address of the instruction and its target.
fn jumps(bytes: &[u8], start: u64) -> impl Iterator<Item = (u64, u64)> {
    memchr::memchr2_iter(0xe9, 0x0f, bytes).filter_map(move |at| {
        let displacement = match bytes.get(at..at + 6)? {
            [0xe9, rest @ .., _] => 5i64 + distance(rest),
            [0x0f, 0x80..=0x8f, rest @ ..] => 6i64 + distance(rest),
            _ => return None,
        };
        let from = start.wrapping_add(at as u64);
        Some((from, from.wrapping_add_signed(displacement)))
    })
}

fn distance(bytes: &[u8]) -> i64 {
    let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
    i64::from(i32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::{jumps, owner_name};

    #[test]
    fn endings_of_parts_are_known() {
        assert_eq!(owner_name("f.cold"), Some("f"));
        assert_eq!(owner_name("f.isra.0.cold.12"), Some("f.isra.0"));
        assert_eq!(owner_name("f.__part.2"), Some("f"));
        assert_eq!(owner_name("f.part.0"), None);
        assert_eq!(owner_name("f.constprop.0"), None);
        assert_eq!(owner_name(".cold"), None);
    }

    #[test]
    fn relative_jumps_are_found_with_their_targets() {
        let bytes = [
            0x90, 0xe9, 0x10, 0, 0, 0, 0x0f, 0x84, 0xf0, 0xff, 0xff, 0xff,
        ];
        let found: Vec<_> = jumps(&bytes, 0x1000).collect();
        assert_eq!(found, [(0x1001, 0x1016), (0x1006, 0xffc)]);
    }
}
