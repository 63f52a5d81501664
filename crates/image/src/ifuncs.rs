//! Functions that are chosen when the program starts: what an IFUNC may stand for.
//!
//! Problem: an IFUNC symbol (`STT_GNU_IFUNC`, gABI extension of GNU) stands at its *resolver*, which runs
//! once and returns the address that all calls of that name go to. Whoever asks for `memcpy` means what
//! was chosen, `__memcpy_avx512_unaligned_erms`, and not the resolver.
//!
//! Approach: a resolver takes the addresses of all that it chooses from, by `lea disp(%rip), r64` or,
//! in code for fixed addresses, by `mov $imm32, r32` or `mov $imm32, r64` (Intel SDM vol. 2, LEA and
//! MOV). The bytes of the resolver are searched for these forms at every offset; an address counts only
//! if a function begins exactly there. Each such function has the public name as one more name,
//! behind its own ones; the resolver is called `memcpy [resolver]`.
//!
//! Limits: a resolver that has another function choose, or takes addresses from a table, names nothing.
//! A function that several IFUNCs choose (glibc's memcpy and memmove) answers to all their names.

use crate::addr::{LinkAddr, to_file};
use crate::functions::{ExtentKind, Input, Source, Start};
use crate::names::{NameId, Names};
use crate::symbols::Ifunc;

/// A resolver is called by the public name and this.
pub(crate) const RESOLVER: &str = " [resolver]";

/// Longest resolver that is searched; glibc's are below 400 bytes.
const LONGEST: u64 = 4096;

/// Gives the functions that resolvers choose from their public names.
pub(crate) fn name_chosen(
    starts: &mut [Start],
    input: &Input<'_>,
    names: &Names,
    all: &mut Vec<NameId>,
) {
    let mut found: Vec<(usize, &Ifunc)> = Vec::new();
    for ifunc in &input.ifuncs {
        for addr in addresses_in(input, ifunc) {
            let begins = starts.binary_search_by_key(&addr, |start| start.addr);
            found.extend(begins.ok().map(|index| (index, ifunc)));
        }
    }
    found.sort_by(|(a, one), (b, other)| {
        let by_name = || names.get(one.name).cmp(names.get(other.name));
        (a, one.rank).cmp(&(b, other.rank)).then_with(by_name)
    });
    for chosen in found.chunk_by(|one, other| one.0 == other.0) {
        add_names(&mut starts[chosen[0].0], chosen, names, all);
    }
}

fn add_names(start: &mut Start, chosen: &[(usize, &Ifunc)], names: &Names, all: &mut Vec<NameId>) {
    let (first, last) = (start.names.0 as usize, start.names.1 as usize);
    let begin = all.len();
    all.extend_from_within(first..last);
    for (_, ifunc) in chosen {
        let text = names.get(ifunc.name);
        if !all[begin..].iter().any(|&name| names.get(name) == text) {
            all.push(ifunc.name);
        }
    }
    start.names = (begin as u32, all.len() as u32);
    start.name = start.name.or(all.get(begin).copied());
    if matches!(start.source, Source::Frame(_)) {
        start.kind = ExtentKind::Function;
    }
}

/// All addresses that a resolver's code seems to take.
fn addresses_in(input: &Input<'_>, ifunc: &Ifunc) -> Vec<u64> {
    let size = ifunc.size.min(LONGEST);
    let code = input.code.iter().find(|code| {
        let inside = ifunc.addr.checked_sub(code.start);
        inside.is_some_and(|inside| inside < code.bytes.len() as u64)
    });
    let Some(code) = code else {
        return Vec::new();
    };
    let into = (ifunc.addr - code.start) as usize;
    let present = &code.bytes[into..code.bytes.len().min(into + size as usize)];
    let left_out = to_file(input.segments, LinkAddr(ifunc.addr)).and_then(|start| {
        let end = start.0.saturating_add(present.len() as u64);
        input.holes?.fill(start.0..end)
    });
    taken(left_out.as_deref().unwrap_or(present), ifunc.addr)
}

fn taken(code: &[u8], start: u64) -> Vec<u64> {
    let at_each = (0..code.len()).filter_map(|at| {
        let word = |from: usize| -> Option<i64> {
            let bytes = code.get(at + from..at + from + 4)?.try_into().ok()?;
            Some(i64::from(i32::from_le_bytes(bytes)))
        };
        let relative = |length: i64, distance: i64| {
            let from = start.wrapping_add(at as u64);
            from.wrapping_add_signed(length + distance)
        };
        match code[at..] {
            // REX.W (with R), LEA, ModRM with mod 0 and rm 5.
            [0x48 | 0x4c, 0x8d, modrm, ..] if modrm & 0xc7 == 5 => Some(relative(7, word(3)?)),
            [0x48 | 0x49, 0xc7, 0xc0..=0xc7, ..] => Some(word(3)? as u64),
            [0xb8..=0xbf, ..] => Some(word(1)? as u64 & 0xffff_ffff),
            _ => None,
        }
    });
    at_each.collect()
}

#[cfg(test)]
mod tests {
    use super::taken;

    #[test]
    fn addresses_are_taken_in_three_ways() {
        let code = [
            &[0x48, 0x8d, 0x05, 0x10, 0, 0, 0][..], // lea 0x10(%rip), %rax
            &[0x4c, 0x8d, 0x0d, 0xf0, 0xff, 0xff, 0xff], // lea -0x10(%rip), %r9
            &[0xb8, 0x00, 0x10, 0x40, 0x00],        // mov $0x401000, %eax
            &[0x48, 0xc7, 0xc2, 0x00, 0x20, 0x40, 0x00], // mov $0x402000, %rdx
        ];
        let found = taken(&code.concat(), 0x1000);
        assert_eq!(found, [0x1017, 0xffe, 0x40_1000, 0x40_2000]);
    }
}
