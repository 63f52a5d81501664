//! Values of operands that are accessed by elements: under a mask, and by gathers and scatters.
//!
//! Approach: the value is of all elements, whether they are accessed or not, so it has as many bytes
//! whatever the mask; the reader takes those that were accessed ([`super::Values`]). Loads,
//! stores, gathers, scatters, compress and expand have it in a register. For anything else that reads
//! (comparisons, arithmetic) it is loaded under the same mask, through a vector register that the
//! instruction does not name: elements that are masked out are not read, as they may be in memory that
//! is not there.
//!
//! Limits: not known are values of broadcasts under a mask, of conversions (where memory has other bytes than
//! the register), of operations on one element, and of MMX and implied operands.

use iced_x86::{EncodingKind, Instruction, Mnemonic};

use super::super::{Address, Kind, Mask, Operand, Pattern};
use super::{Origin, Place, Values, is_move, vector};

/// Elements in memory, loaded under a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    pub address: Address,
    /// Number of the mask register.
    pub opmask: u8,
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element: u8,
    /// Bytes of all elements: 16, 32 or 64.
    pub size: u8,
    /// Number of a vector register that the instruction does not name, from 16 on.
    pub through: u8,
}

/// Values of an operand of this pattern; its size is all elements'.
pub(super) fn of_operand(raw: &Instruction, operand: &Operand) -> Option<Values> {
    let count = match operand.pattern {
        Pattern::Elements(_, count) | Pattern::Packed(_, count) => count,
        Pattern::Vector(vector) => vector.elements,
        _ => return None,
    };
    let element = u8::try_from(operand.size).ok()?;
    let size = element.checked_mul(count).filter(|&size| size <= 64)?;
    let of = |read, written| Values {
        read,
        written,
        size,
    };
    let unknown = Origin::Unknown;
    match operand.kind {
        Kind::Read => {
            let loaded = vector(raw, 0).filter(|_| is_in_register(raw, operand.pattern));
            let place = loaded.map(Origin::Behind).or_else(|| {
                let read = under_mask(raw, operand, element, size)?;
                Some(Origin::Before(Place::Elements(read)))
            });
            place.map(|place| of(place, unknown))
        }
        Kind::Write if is_in_register(raw, operand.pattern) => {
            let source = vector(raw, raw.op_count().checked_sub(1)?)?;
            Some(of(unknown, Origin::Before(source)))
        }
        _ => None,
    }
}

/// Whether a vector register has the elements at their places: loaded, the first operand; stored, the last.
fn is_in_register(raw: &Instruction, pattern: Pattern) -> bool {
    let is_explicit = (0..raw.op_count()).any(|at| raw.op_kind(at) == iced_x86::OpKind::Memory);
    let moves = match pattern {
        Pattern::Elements(..) => is_move(raw.mnemonic()) || is_masked_move(raw.mnemonic()),
        _ => true,
    };
    is_explicit && moves
}

fn is_masked_move(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Vmaskmovps | M::Vmaskmovpd | M::Vpmaskmovd | M::Vpmaskmovq
    )
}

/// The elements of a form whose memory is as long as its registers.
fn under_mask(raw: &Instruction, operand: &Operand, element: u8, size: u8) -> Option<Elements> {
    let Pattern::Elements(Mask::Opmask(opmask), _) = operand.pattern else {
        return None;
    };
    let registers = (0..raw.op_count())
        .map(|at| raw.try_op_register(at).unwrap_or_default())
        .filter(|register| register.is_vector_register());
    let widest = registers.clone().map(|register| register.size()).max()?;
    let is_known = raw.encoding() == EncodingKind::EVEX
        && matches!(element, 1 | 2 | 4 | 8)
        && matches!(size, 16 | 32 | 64)
        && widest == usize::from(size);
    let is_named = |number: u8| registers.clone().any(|r| r.number() == usize::from(number));
    let through = (16..32).find(|&number| !is_named(number))?;
    is_known.then_some(Elements {
        address: operand.address,
        opmask,
        element,
        size,
        through,
    })
}
