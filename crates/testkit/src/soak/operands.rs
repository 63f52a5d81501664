//! Fills the placeholders of a form with random operands.

use super::random::Random;

/// General registers of random code: r12 counts in tight loops, r13 holds
/// addresses, r14 is the index of memory operands, r15 the arena.
const REGISTERS: [[&str; 4]; 11] = [
    ["rax", "eax", "ax", "al"],
    ["rcx", "ecx", "cx", "cl"],
    ["rdx", "edx", "dx", "dl"],
    ["rbx", "ebx", "bx", "bl"],
    ["rsi", "esi", "si", "sil"],
    ["rdi", "edi", "di", "dil"],
    ["r8", "r8d", "r8w", "r8b"],
    ["r9", "r9d", "r9w", "r9b"],
    ["r10", "r10d", "r10w", "r10b"],
    ["r11", "r11d", "r11w", "r11b"],
    ["rbp", "ebp", "bp", "bpl"],
];
const HIGH: [&str; 4] = ["ah", "bh", "ch", "dh"];
const LOW: [&str; 4] = ["al", "bl", "cl", "dl"];

/// The conditions of jcc, setcc and cmovcc.
pub const CONDITIONS: [&str; 16] = [
    "o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g",
];

/// Bytes of the work area that a displacement reaches; an index adds as much.
const REACH: usize = 0x7c0;

/// Restrictions on the operands at a place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// The code is copied: no data by rip.
    pub copied: bool,
    /// Threads share the program's data: nothing is written by rip.
    pub threads: bool,
}

/// A random 64-bit register.
pub fn register(random: &mut Random) -> &'static str {
    random.pick(&REGISTERS)[0]
}

/// A random 8-bit register.
pub fn byte_register(random: &mut Random) -> &'static str {
    random.pick(&REGISTERS)[3]
}

/// `text` with every placeholder filled, after what its operands need.
pub fn fill(text: &str, place: Place, random: &mut Random) -> String {
    let first = random.below(REGISTERS.len());
    let second = (first + random.range(1, REGISTERS.len() - 1)) % REGISTERS.len();
    let red_zone = random.range(1, 16) * 8;
    let frame = random.range(1, 20) * 16;
    let mut before = String::new();
    let mut filled = String::new();
    let mut parts = text.split('%');
    filled.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let kind = part.chars().next().unwrap_or_default();
        let word = match kind {
            'q' => random.pick(&REGISTERS)[0].to_owned(),
            'd' => random.pick(&REGISTERS)[1].to_owned(),
            'w' => random.pick(&REGISTERS)[2].to_owned(),
            'b' => random.pick(&REGISTERS)[3].to_owned(),
            'P' => random.pick(&REGISTERS[..10])[0].to_owned(),
            'H' => (*random.pick(&HIGH)).to_owned(),
            'L' => (*random.pick(&LOW)).to_owned(),
            'A' => REGISTERS[first][0].to_owned(),
            'a' => REGISTERS[first][1].to_owned(),
            'E' => REGISTERS[second][0].to_owned(),
            'm' | 'M' => memory(kind == 'm', place, &mut before, random),
            'n' => format!("[r15 + WORK + {}]", random.below(REACH / 64) * 64),
            'p' => format!("[r15 + WORK + {}]", 0x200 + random.below(0x400)),
            'i' => (random.below(256) as i32 - 128).to_string(),
            'u' => random.below(256).to_string(),
            'I' => (random.bits() as i32 >> random.below(31)).to_string(),
            'Q' => format!("{:#x}", random.bits() >> random.below(31)),
            's' => random.range(2, 31).to_string(),
            'S' => random.range(2, 63).to_string(),
            'C' => random.range(1, 60).to_string(),
            'r' => red_zone.to_string(),
            'F' => frame.to_string(),
            'c' => (*random.pick(&CONDITIONS)).to_owned(),
            'x' => format!("xmm{}", random.below(16)),
            'y' => format!("ymm{}", random.below(16)),
            'z' => format!("zmm{}", random.below(32)),
            'v' => format!("xmm{}", random.below(32)),
            'k' => format!("k{}", random.range(1, 7)),
            other => unreachable!("no placeholder %{other} in `{text}`"),
        };
        filled.push_str(&word);
        filled.push_str(&part[kind.len_utf8()..]);
    }
    before + &filled
}

/// A memory operand; an index register is loaded in `before`, without flags.
fn memory(written: bool, place: Place, before: &mut String, random: &mut Random) -> String {
    let displacement = random.below(REACH);
    match random.below(10) {
        0 | 1 if !written && !place.copied => format!("[rip + constants + {displacement}]"),
        2 if !place.copied && !place.threads => {
            format!("[rip + scratch + {}]", displacement % 0x1c0)
        }
        // One index per form: several operands may share it.
        3..=5 => {
            if before.is_empty() {
                *before = format!("movzx r14d, {}; ", byte_register(random));
            }
            let scale = random.pick(&[1, 2, 4, 8]);
            format!("[r15 + r14 * {scale} + WORK + {displacement}]")
        }
        _ => format!("[r15 + WORK + {displacement}]"),
    }
}
