//! Values in registers and stack slots, as far as jump tables need them: constants, entries of tables,
//! bounds of numbers.
//!
//! A number has an identity, which its copies share, so that a comparison of one bounds all. Where ways
//! meet, what differs becomes a new number with the larger bounds.

/// Widths of which bounds are kept, in bytes.
const WIDTHS: [u8; 4] = [1, 2, 4, 8];

/// Bounds of the low 1, 2, 4 and 8 bytes, as unsigned numbers.
type Most = [u64; 4];

const UNBOUNDED: Most = [0xFF, 0xFFFF, 0xFFFF_FFFF, u64::MAX];

/// A value of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Constant(u64),
    /// The stack pointer where the frame with this number was made, plus so many bytes.
    Frame(u64, i64),
    /// The low `part` bytes of the number with this identity.
    Number {
        id: u64,
        part: u8,
        most: Most,
        /// Bounds that are of comparisons: a bit each.
        guarded: u8,
    },
    /// The address of an element of a table.
    Element(Table),
    /// An element of a table.
    Entry(Table),
    /// `base` plus an element of a table.
    Target {
        base: u64,
        table: Table,
    },
}

/// A table that is indexed by a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    pub address: u64,
    /// Bytes from one element to the next, and of an element.
    pub stride: u8,
    pub width: u8,
    /// Elements are extended with their sign.
    pub is_signed: bool,
    /// Largest index.
    pub most: u64,
    /// The largest index is known by a comparison.
    pub is_guarded: bool,
}

impl Table {
    /// The element's address plus `by`.
    pub(crate) fn moved(self, by: u64) -> Value {
        Value::Element(Table {
            address: self.address.wrapping_add(by),
            ..self
        })
    }
}

impl Value {
    pub(crate) fn fresh(id: u64) -> Value {
        Value::Number {
            id,
            part: 8,
            most: UNBOUNDED,
            guarded: 0,
        }
    }

    pub(crate) fn bounded(id: u64, most: u64) -> Value {
        let bounds = UNBOUNDED.map(|bound| bound.min(most));
        Value::Number {
            id,
            part: 8,
            most: bounds,
            guarded: 0,
        }
    }

    /// The low bytes of a new number.
    pub(crate) fn loaded(id: u64, width: u8) -> Value {
        Value::Number {
            id,
            part: width,
            most: UNBOUNDED.map(|bound| bound.min(mask(width))),
            guarded: 0,
        }
    }

    /// Its low bytes, extended with zeros.
    pub(crate) fn low(self, width: u8, id: u64) -> Value {
        match self {
            _ if width == 8 => self,
            Value::Constant(value) => Value::Constant(value & mask(width)),
            Value::Number {
                id,
                part,
                most,
                guarded,
            } => {
                let place = place_of(width);
                let bound = most[place].min(most[3]);
                let is_guarded = guarded & (1 << place | 1 << 3) != 0;
                Value::Number {
                    id,
                    part: part.min(width),
                    most: most.map(|most| most.min(bound)),
                    guarded: if is_guarded { 0xF } else { 0 },
                }
            }
            // Scaled numbers with a bound are small, too.
            Value::Element(table) if table.address == 0 && table.most < 1 << 24 => self,
            // Offsets of tables are small.
            Value::Entry(table) if width >= table.width => self,
            _ => Value::loaded(id, width),
        }
    }
}

pub(crate) fn mask(width: u8) -> u64 {
    match width {
        8.. => u64::MAX,
        _ => (1 << (8 * u32::from(width))) - 1,
    }
}

fn place_of(width: u8) -> usize {
    WIDTHS.iter().position(|&known| known >= width).unwrap_or(3)
}

/// A comparison of a number with a constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compared {
    pub id: u64,
    pub part: u8,
    pub width: u8,
    pub right: u64,
}

impl Value {
    /// The compared number is no more than `bound`.
    pub(crate) fn refine(&mut self, compared: Compared, bound: u64) {
        let Value::Number {
            id,
            part,
            most,
            guarded,
        } = self
        else {
            return;
        };
        if *id != compared.id {
            return;
        }
        // The compared bytes are the low ones of the number, as many as both have.
        let width = compared.width.min(compared.part);
        if *part < width {
            return;
        }
        let first = place_of(width);
        // A number that is no larger is its low bytes.
        let is_low = *part == width || most[3] <= mask(width);
        for (place, most) in most.iter_mut().enumerate() {
            if place == first || place > first && is_low {
                *most = (*most).min(bound);
                *guarded |= 1 << place;
            }
        }
    }
}

pub(crate) fn element(address: u64, stride: u8, most: u64, is_guarded: bool) -> Value {
    Value::Element(Table {
        address,
        stride,
        width: stride,
        is_signed: false,
        most,
        is_guarded,
    })
}

pub(crate) fn extended(value: u64, width: u8) -> u64 {
    match width {
        1 => value as u8 as i8 as i64 as u64,
        2 => value as u16 as i16 as i64 as u64,
        4 => value as u32 as i32 as i64 as u64,
        _ => value,
    }
}

pub(crate) fn sum(one: Value, two: Value, id: u64) -> Value {
    match (one, two) {
        (Value::Constant(one), Value::Constant(two)) => Value::Constant(one.wrapping_add(two)),
        (Value::Constant(base), Value::Entry(table))
        | (Value::Entry(table), Value::Constant(base)) => Value::Target { base, table },
        (Value::Constant(base), Value::Element(table))
        | (Value::Element(table), Value::Constant(base)) => table.moved(base),
        (Value::Constant(base), Value::Number { most, guarded, .. })
        | (Value::Number { most, guarded, .. }, Value::Constant(base)) => {
            element(base, 1, most[3], guarded & 1 << 3 != 0)
        }
        _ => Value::fresh(id),
    }
}

/// A value that is one or the other.
pub(crate) fn join(one: Value, two: Value, id: u64, widens: bool) -> Value {
    match (one, two) {
        _ if one == two => one,
        (
            Value::Number {
                id: first,
                part,
                most,
                guarded,
            },
            Value::Number {
                id: second,
                part: other_part,
                most: other_most,
                guarded: other_guarded,
            },
        ) => {
            let same = first == second && part == other_part;
            let grows = other_most.iter().zip(&most).any(|(other, own)| other > own);
            let most = match widens && grows {
                true => UNBOUNDED,
                false => std::array::from_fn(|at| most[at].max(other_most[at])),
            };
            Value::Number {
                id: if same { first } else { id },
                part: if same { part } else { 8 },
                most,
                guarded: guarded & other_guarded,
            }
        }
        (Value::Entry(first), Value::Entry(second)) => match joined(first, second, widens) {
            Some(table) => Value::Entry(table),
            None => Value::fresh(id),
        },
        (
            Value::Target { base, table },
            Value::Target {
                base: other,
                table: second,
            },
        ) if base == other => match joined(table, second, widens) {
            Some(table) => Value::Target { base, table },
            None => Value::fresh(id),
        },
        _ => Value::fresh(id),
    }
}

/// A table with the larger of two bounds.
fn joined(one: Table, two: Table, widens: bool) -> Option<Table> {
    let same = Table {
        most: one.most,
        is_guarded: one.is_guarded,
        ..two
    };
    (same == one).then_some(Table {
        most: match widens && two.most > one.most {
            true => u64::MAX,
            false => one.most.max(two.most),
        },
        is_guarded: one.is_guarded && two.is_guarded,
        ..one
    })
}
