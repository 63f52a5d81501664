//! Unwind tables to evidence.
//!
//! A function is entered with the return address on top of the stack, so the
//! rule for the canonical frame address at its first byte is `rsp + 8`. A
//! range that begins with anything else is entered by a jump from code that
//! already has a frame: an out-of-line part. Signal trampolines and code
//! without a caller (`rip` undefined) are told apart too.

use gimli::{
    BaseAddresses, CallFrameInstruction, CieOrFde, CommonInformationEntry, EhFrame, EndianSlice,
    LittleEndian, UnwindSection, X86_64,
};
use hashbrown::HashMap;
use object::read::elf::{ProgramHeader, SectionHeader};
use object::{LittleEndian as LE, ReadRef, elf};

use crate::elf::Elf;

type Bytes<'d> = EndianSlice<'d, LittleEndian>;
type Cie<'d> = CommonInformationEntry<Bytes<'d>>;

/// Meaning of the first byte of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// CFA = rsp + 8.
    Call,
    /// CFA = rsp + 8 and no return address: only the kernel arrives here.
    NoCaller,
    /// CFA = rsp + 24: as pushed by the first PLT entry for the lazy resolver.
    LazyBinding,
    /// Any other rule.
    Inner,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    pub(crate) start: Start,
}

/// The canonical frame address as far as it matters here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cfa {
    Rsp(i64),
    Other,
}

#[derive(Clone, Copy)]
struct Row {
    cfa: Cfa,
    no_caller: bool,
}

/// All ranges of `.eh_frame`, up to the first entry that cannot be read.
pub(crate) fn read<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Vec<Frame> {
    let Some((addr, bytes)) = locate(elf) else {
        return Vec::new();
    };
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    let mut bases = BaseAddresses::default().set_eh_frame(addr);
    if let Some(text) = elf.section(b".text") {
        bases = bases.set_text(text.sh_addr(LE));
    }
    let mut cies: HashMap<usize, (Cie<'d>, Row)> = HashMap::new();
    let mut frames = Vec::with_capacity(bytes.len() / 48);
    let mut entries = section.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let offset = partial.cie_offset().0;
        if let hashbrown::hash_map::Entry::Vacant(slot) = cies.entry(offset) {
            let Ok(cie) = section.cie_from_offset(&bases, partial.cie_offset()) else {
                continue;
            };
            let fresh = Row {
                cfa: Cfa::Other,
                no_caller: false,
            };
            let row = first_row(fresh, cie.instructions(&section, &bases));
            slot.insert((cie, row));
        }
        let Some((cie, row)) = cies.get(&offset) else {
            continue;
        };
        let Ok(fde) = partial.parse(|_, _, _| Ok(cie.clone())) else {
            continue;
        };
        if fde.is_signal_trampoline() || fde.len() == 0 {
            continue;
        }
        frames.push(Frame {
            addr: fde.initial_address(),
            len: fde.len(),
            start: classify(first_row(*row, fde.instructions(&section, &bases))),
        });
    }
    frames
}

fn classify(row: Row) -> Start {
    match row.cfa {
        Cfa::Rsp(8) if row.no_caller => Start::NoCaller,
        Cfa::Rsp(8) => Start::Call,
        Cfa::Rsp(24) => Start::LazyBinding,
        _ => Start::Inner,
    }
}

/// Runs the instructions that describe the first byte.
fn first_row<'d>(mut row: Row, mut program: gimli::CallFrameInstructionIter<'_, Bytes<'d>>) -> Row {
    while let Ok(Some(instruction)) = program.next() {
        match instruction {
            CallFrameInstruction::DefCfa { register, offset } => {
                row.cfa = if register == X86_64::RSP {
                    Cfa::Rsp(offset as i64)
                } else {
                    Cfa::Other
                };
            }
            CallFrameInstruction::DefCfaOffset { offset } => {
                if let Cfa::Rsp(old) = &mut row.cfa {
                    *old = offset as i64;
                }
            }
            CallFrameInstruction::DefCfaRegister { register } if register != X86_64::RSP => {
                row.cfa = Cfa::Other;
            }
            CallFrameInstruction::DefCfaExpression { .. }
            | CallFrameInstruction::DefCfaSf { .. }
            | CallFrameInstruction::DefCfaOffsetSf { .. } => row.cfa = Cfa::Other,
            CallFrameInstruction::Undefined { register } if register == X86_64::RA => {
                row.no_caller = true;
            }
            CallFrameInstruction::AdvanceLoc { .. } | CallFrameInstruction::SetLoc { .. } => break,
            _ => {}
        }
    }
    row
}

/// Address and bytes of `.eh_frame`, by section or through its header.
pub(crate) fn locate<'d, R: ReadRef<'d>>(elf: &Elf<'d, R>) -> Option<(u64, &'d [u8])> {
    if let Some(section) = elf.section(b".eh_frame") {
        let bytes = section.data(LE, elf.data).ok()?;
        return (!bytes.is_empty()).then(|| (section.sh_addr(LE), bytes));
    }
    let program = elf.program(elf::PT_GNU_EH_FRAME)?;
    let bytes = program.data(LE, elf.data).ok()?;
    let addr = program.p_vaddr(LE);
    let bases = BaseAddresses::default().set_eh_frame_hdr(addr);
    let header = gimli::EhFrameHdr::new(bytes, LittleEndian)
        .parse(&bases, 8)
        .ok()?;
    let start = header.eh_frame_ptr().direct().ok()?;
    Some((start, elf.bytes_from(start)?))
}
