//! The control flow of random programs: one function per kind of chunk.
//!
//! Invariant: every flag has a defined value where a chunk begins and where it
//! ends, the stack pointer is the same, and every loop ends.

use std::fmt::Write;

use super::generate::Maker;
use super::operands::{CONDITIONS, byte_register, register};
use super::source::Piece;

/// Cost of a write to code and its translation anew.
const REWRITE: usize = 60_000;
/// Deeper nesting of loops and branches is straight code.
const DEEPEST: usize = 3;

type Make = fn(&mut Maker, usize, usize) -> Option<Piece>;

/// Weight and kind. A kind that does not fit gives nothing, and another is taken.
#[rustfmt::skip]
const KINDS: &[(usize, Make)] = &[
    (24, straight),
    (12, skip),
    (8, diamond),
    (4, over_rubbish),
    (4, skip_if_zero_count),
    (6, loop_on_stack),
    (5, loop_instruction),
    (5, loop_tight),
    (10, call_direct),
    (9, call_indirect),
    (5, call_one_of_many),
    (6, jump_table),
    (5, call_copy),
    (4, rewrite_constant),
    (4, rewrite_operation),
    (4, rewrite_condition),
    (3, rewrite_call),
    (2, data_among_code),
];

/// A random chunk, executed `times` times.
pub(super) fn chunk(maker: &mut Maker, depth: usize, times: usize) -> Piece {
    let total: usize = KINDS.iter().map(|kind| kind.0).sum();
    loop {
        let mut left = maker.random.below(total);
        for &(weight, make) in KINDS {
            if left < weight {
                if let Some(piece) = make(maker, depth, times) {
                    return piece;
                }
                break;
            }
            left -= weight;
        }
    }
}

/// A few chunks within another.
fn within(maker: &mut Maker, depth: usize, times: usize) -> Vec<Piece> {
    if depth >= DEEPEST {
        return maker.straight(4, times);
    }
    let count = maker.random.range(1, 2);
    (0..count).map(|_| chunk(maker, depth + 1, times)).collect()
}

fn straight(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    let inner = maker.straight(10, times);
    Some(piece(String::new(), inner, String::new()))
}

fn piece(before: String, inner: Vec<Piece>, after: String) -> Piece {
    Piece {
        fixed: false,
        before,
        inner,
        after,
    }
}

fn condition(maker: &mut Maker) -> &'static str {
    maker.random.pick::<&str>(&CONDITIONS)
}

/// A branch forward.
fn skip(maker: &mut Maker, depth: usize, times: usize) -> Option<Piece> {
    let (label, condition) = (maker.label(), condition(maker));
    let inner = within(maker, depth, times);
    Some(piece(
        format!("j{condition} {label}"),
        inner,
        format!("{label}:"),
    ))
}

/// One of two ways.
fn diamond(maker: &mut Maker, depth: usize, times: usize) -> Option<Piece> {
    let (other, end) = (maker.label(), maker.label());
    let condition = condition(maker);
    let first = within(maker, depth, times);
    let second = within(maker, depth, times);
    let ways = vec![
        way(String::new(), first, format!("jmp {end}")),
        way(format!("{other}:"), second, String::new()),
    ];
    Some(piece(
        format!("j{condition} {other}"),
        ways,
        format!("{end}:"),
    ))
}

/// A part that other parts refer to.
fn way(before: String, inner: Vec<Piece>, after: String) -> Piece {
    Piece {
        fixed: true,
        ..piece(before, inner, after)
    }
}

/// A jump over bytes that are no code.
fn over_rubbish(maker: &mut Maker, depth: usize, times: usize) -> Option<Piece> {
    let label = maker.label();
    let length = *maker.random.pick(&[1, 3, 17, 130, 700]);
    let filler = *maker.random.pick(&["0x0f", "0xcc", "0x66", "0x00"]);
    let inner = within(maker, depth, times);
    let before = format!("jmp {label}; .skip {length}, {filler}; {label}:");
    Some(piece(before, inner, String::new()))
}

fn skip_if_zero_count(maker: &mut Maker, depth: usize, times: usize) -> Option<Piece> {
    // `jrcxz` reaches 127 bytes: what is far away is jumped to by another jump.
    let (taken, end) = (maker.label(), maker.label());
    let count = *maker.random.pick(&["0", "1", "0x100"]);
    let over = maker.label();
    let before =
        format!("mov ecx, {count}; jrcxz {taken}; jmp {over}; {taken}: jmp {end}; {over}:");
    let inner = within(maker, depth, times);
    Some(piece(before, inner, format!("{end}:")))
}

fn loop_on_stack(maker: &mut Maker, depth: usize, times: usize) -> Option<Piece> {
    let label = maker.label();
    let count = maker.random.range(2, 9);
    let inner = within(maker, depth, times * count);
    let end = match maker.random.below(2) {
        0 => format!("dec qword ptr [rsp]; jnz {label}; lea rsp, [rsp + 8]"),
        _ => format!("sub dword ptr [rsp], 1; ja {label}; pop r14"),
    };
    Some(piece(format!("push {count}; {label}:"), inner, end))
}

fn loop_instruction(maker: &mut Maker, depth: usize, times: usize) -> Option<Piece> {
    let (label, end, next) = (maker.label(), maker.label(), maker.label());
    let count = maker.random.range(2, 9);
    let kind = *maker.random.pick(&["loop", "loope", "loopne"]);
    let inner = within(maker, depth, times * count);
    // Its reach is 127 bytes as well.
    let after = format!("pop rcx; {kind} {next}; jmp {end}; {next}: jmp {label}; {end}:");
    Some(piece(
        format!("mov ecx, {count}; {label}: push rcx"),
        inner,
        after,
    ))
}

/// A loop of a few instructions that may be one block.
fn loop_tight(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    let label = maker.label();
    let count = maker.random.range(2, 200);
    let inner = maker.straight(3, times * count);
    let end = format!("dec r12d; jnz {label}");
    Some(piece(format!("mov r12d, {count}; {label}:"), inner, end))
}

fn arguments(maker: &mut Maker, callee: usize) -> String {
    let count = maker.known[callee].map_or(0, |known| known.arguments);
    (0..count)
        .map(|_| format!("push {}; ", register(&mut maker.random)))
        .collect()
}

fn call_direct(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    if maker.place.copied {
        return None;
    }
    let callee = maker.callee(times, |_| true)?;
    let text = arguments(maker, callee) + &format!("call f{callee}");
    Some(Piece::leaf(text))
}

fn call_indirect(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    if maker.place.copied {
        return None;
    }
    let callee = maker.callee(times, |_| true)?;
    let arguments = arguments(maker, callee);
    let offset = callee * 8;
    let call = match maker.random.below(6) {
        0 => format!("lea r13, [rip + f{callee}]; call r13"),
        1 => format!("call qword ptr [rip + functions + {offset}]"),
        2 => format!("lea r13, [rip + functions]; call qword ptr [r13 + {offset}]"),
        3 if arguments.is_empty() => {
            format!(
                "lea r13, [rip + f{callee}]; push r13; call qword ptr [rsp]; lea rsp, [rsp + 8]"
            )
        }
        4 => format!("lea r13, [rip + 7f]; push r13; jmp f{callee}; 7:"),
        _ => format!("mov r13, [rip + functions + {offset}]; call r13"),
    };
    Some(Piece::leaf(arguments + &call))
}

/// An indirect call whose target depends on data.
fn call_one_of_many(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    if maker.place.copied {
        return None;
    }
    let mut callees = Vec::new();
    for _ in 0..4 {
        callees.push(maker.callee(times, |known| known.arguments == 0)?);
    }
    let table = maker.label();
    let words: Vec<String> = callees.iter().map(|callee| format!("f{callee}")).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(
        maker.data,
        "        .data\n        .balign 8\n{table}: .rept 64\n        .quad {}\n        .endr",
        words.join(", ")
    );
    let register = byte_register(&mut maker.random);
    Some(Piece::leaf(format!(
        "movzx r14d, {register}; lea r13, [rip + {table}]; call qword ptr [r13 + r14 * 8]"
    )))
}

fn jump_table(maker: &mut Maker, depth: usize, times: usize) -> Option<Piece> {
    if maker.place.copied {
        return None;
    }
    let (table, end) = (maker.label(), maker.label());
    let ways = *maker.random.pick(&[2, 4, 8]);
    let labels: Vec<String> = (0..ways).map(|_| maker.label()).collect();
    let (index, jump, entries) = if maker.random.percent(50) {
        let entries: Vec<String> = labels
            .iter()
            .map(|label| format!("{label} - {table}"))
            .collect();
        (
            ".long",
            "movsxd r14, dword ptr [r13 + r14 * 4]; lea r13, [r13 + r14]; mov r14d, 0; jmp r13",
            entries,
        )
    } else {
        (".quad", "jmp qword ptr [r13 + r14 * 8]", labels.clone())
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        maker.data,
        "        .data\n        .balign 8\n{table}: .rept {}\n        {index} {}\n        .endr",
        256 / ways,
        entries.join(", ")
    );
    let register = byte_register(&mut maker.random);
    let mut parts = Vec::new();
    for label in labels {
        let inner = within(maker, depth + 1, times);
        parts.push(way(format!("{label}:"), inner, format!("jmp {end}")));
    }
    Some(piece(
        format!("movzx r14d, {register}; lea r13, [rip + {table}]; {jump}"),
        parts,
        format!("{end}:"),
    ))
}

/// Copies a function to the thread's own page and calls it there.
fn call_copy(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    if maker.place.copied || !maker.affords(REWRITE * times) {
        return None;
    }
    let callee = maker.callee(times, |known| known.copied)?;
    // Few places, so that one copy lies over another; some across pages.
    let place = *maker.random.pick(&[0, 0x10, 0x40, 0x7f0, 0xff8, 0x1fe1]);
    let arguments = arguments(maker, callee);
    let (open, close) = match maker.shape.protects {
        true => ("protect 3; ", "; protect 5"),
        false => ("", ""),
    };
    Some(Piece::leaf(format!(
        "{open}push rsi; push rdi; push rcx; lea rsi, [rip + f{callee}]; mov rdi, [r15 + SLOT_CODE]; \
         lea rdi, [rdi + {place}]\n        .att_syntax\n        movl $f{callee}_end - f{callee}, %ecx\n        \
         .intel_syntax noprefix\n        rep movsb; pop rcx; pop rdi; pop rsi{close}\n        \
         {arguments}mov r13, [r15 + SLOT_CODE]; lea r13, [r13 + {place}]; call r13"
    )))
}

/// Whether this function may write to code, `times` times.
fn rewrites(maker: &mut Maker, times: usize) -> bool {
    maker.shape.writable && !maker.place.copied && maker.affords(REWRITE * times)
}

/// Writes a constant into an instruction further on.
fn rewrite_constant(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    if !rewrites(maker, times) {
        return None;
    }
    let label = maker.label();
    let opcode = 0xb8 + *maker.random.pick(&[0, 1, 2, 3, 5, 6, 7]);
    let source = *maker.random.pick(&["eax", "ecx", "esi", "r8d", "r11d"]);
    let inner = match maker.random.percent(50) {
        true => maker.straight(4, times),
        false => Vec::new(),
    };
    Some(piece(
        format!("mov dword ptr [rip + {label} + 1], {source}"),
        inner,
        format!("{label}: .byte {opcode:#x}; .long 0x12345678"),
    ))
}

/// Makes a subtraction of an addition, and back.
fn rewrite_operation(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    if !rewrites(maker, times) {
        return None;
    }
    let label = maker.label();
    Some(Piece::leaf(format!(
        "xor byte ptr [rip + {label}], 0x28; {label}: .byte 0x01, 0xc8"
    )))
}

/// Turns a condition round.
fn rewrite_condition(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    if !rewrites(maker, times) {
        return None;
    }
    let (label, end) = (maker.label(), maker.label());
    let definer = maker.definer();
    let inner = maker.straight(4, times);
    Some(piece(
        format!(
            "xor byte ptr [rip + {label} + 1], 1; {definer}; {label}: .byte 0x0f, {:#x}; .long {end} - {label} - 6",
            0x80 + maker.random.below(16)
        ),
        inner,
        format!("{end}:"),
    ))
}

/// Sends a call elsewhere.
fn rewrite_call(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    if !rewrites(maker, times) {
        return None;
    }
    let first = maker.callee(times, |known| known.arguments == 0)?;
    let second = maker.callee(times, |known| known.arguments == 0)?;
    let (label, condition) = (maker.label(), condition(maker));
    Some(Piece::leaf(format!(
        "j{condition} {label}\n        .att_syntax\n        movl $f{second} - {label} - 5, {label} + 1(%rip)\n        \
         .intel_syntax noprefix\n{label}: .byte 0xe8; .long f{first} - {label} - 5"
    )))
}

/// A counter in the page of the code that counts.
fn data_among_code(maker: &mut Maker, _: usize, times: usize) -> Option<Piece> {
    if !rewrites(maker, times) {
        return None;
    }
    let (label, end) = (maker.label(), maker.label());
    let register = register(&mut maker.random);
    Some(Piece::leaf(format!(
        "add {register}, [rip + {label}]; inc qword ptr [rip + {label}]; jmp {end}; {label}: .quad 5; {end}:"
    )))
}

/// The function calls itself in the middle of `body`, up to a depth.
pub(super) fn recursion(maker: &mut Maker, body: Vec<Piece>) -> Piece {
    let depth = maker.random.range(2, 12);
    if !maker.affords(maker.cost * (depth - 1)) {
        return piece(String::new(), body, String::new());
    }
    let label = maker.label();
    let call = piece(
        format!(
            "cmp qword ptr [r15 + SLOT_DEPTH], {depth}; jae {label}; call f{}",
            maker.current
        ),
        Vec::new(),
        format!("{label}:"),
    );
    let mut inner = body;
    let place = maker.random.below(inner.len() + 1);
    inner.insert(place, call);
    let count = |sign: char| {
        format!("mov r13, [r15 + SLOT_DEPTH]; lea r13, [r13 {sign} 1]; mov [r15 + SLOT_DEPTH], r13")
    };
    piece(count('+'), inner, count('-'))
}
