//! One decoded instruction and the questions the translator asks about it.

use iced_x86::{
    Code, Decoder, DecoderError as IcedError, DecoderOptions, FlowControl, Instruction, Mnemonic,
    OpKind, Register,
};

use crate::{Cc, FarKind};

/// Longest x86 instruction.
pub const MAX_LEN: usize = 15;

/// Bytes that are kept of an instruction, a number that is copied at once.
pub(crate) const KEPT: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end before the instruction does.
    Truncated,
    /// No instruction this decoder knows; the CPU may know better.
    Unknown,
}

/// Control flow after an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    #[default]
    Next,
    Jump(u64),
    Cond(Cc, u64),
    /// `loop`, `loope`, `loopne`, `jrcxz`, `jecxz`: short forms only.
    CountJump(u64),
    Call(u64),
    IndirectJump,
    IndirectCall,
    /// Near return; the operand is what else it pops.
    Return(u16),
    Syscall,
    /// `int 0x80`
    Int80,
    /// `xbegin`; the target is where an abort goes.
    TransactionBegin(u64),
    /// A far branch that loads its target from memory or the stack.
    Far(FarKind),
    /// `hlt`, `sysret` and their like: run verbatim, they fault or leave.
    Odd,
    /// Raises an exception by definition: `int3`, `ud2`, `int n`.
    Trap,
}

/// Change of the stack pointer by an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackMove {
    /// Not at all, or by a constant.
    Constant,
    /// To a value not derived from it by a constant: `mov rsp, x`, `xchg`, `pop rsp`.
    Arbitrary,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Insn {
    pub(crate) raw: Instruction,
    /// Asked many times for each instruction.
    flow: Flow,
    displacement_at: u8,
    /// Its bytes, and some that follow.
    bytes: [u8; KEPT],
}

/// Decodes instructions from one piece of memory. To make the decoder takes as
/// long as to decode an instruction, so it is made once for many.
#[expect(missing_debug_implementations, reason = "the decoder has none")]
pub struct Reader<'a> {
    bytes: &'a [u8],
    start: u64,
    decoder: Decoder<'a>,
}

impl<'a> Reader<'a> {
    /// `bytes` lie at `start`.
    pub fn new(bytes: &'a [u8], start: u64) -> Reader<'a> {
        let options = DecoderOptions::NO_INVALID_CHECK | options_of_vendor();
        Reader {
            bytes,
            start,
            decoder: Decoder::with_ip(64, bytes, start, options),
        }
    }

    /// The instruction at `pc`, which is in the piece.
    pub fn decode(&mut self, pc: u64) -> Result<Insn, DecodeError> {
        let mut insn = Insn::default();
        self.decode_into(pc, &mut insn)?;
        Ok(insn)
    }

    /// As [`Self::decode`], without a copy. If it fails, `insn` is none to use.
    pub fn decode_into(&mut self, pc: u64, insn: &mut Insn) -> Result<(), DecodeError> {
        let at = pc.wrapping_sub(self.start) as usize;
        let here = self.bytes.get(at..).ok_or(DecodeError::Truncated)?;
        if at != self.decoder.position() || pc != self.decoder.ip() {
            self.decoder
                .set_position(at)
                .map_err(|_| DecodeError::Truncated)?;
            self.decoder.set_ip(pc);
        }
        let raw = &mut insn.raw;
        self.decoder.decode_out(raw);
        if raw.is_invalid() {
            return Err(match self.decoder.last_error() {
                IcedError::NoMoreBytes => DecodeError::Truncated,
                _ => DecodeError::Unknown,
            });
        }
        insn.displacement_at = match raw.is_ip_rel_memory_operand() {
            true => self.decoder.get_constant_offsets(raw).displacement_offset() as u8,
            false => 0,
        };
        match here.first_chunk() {
            Some(bytes) => insn.bytes = *bytes,
            // Fewer than 16.
            None => insn.bytes[..here.len()].copy_from_slice(here),
        }
        insn.flow = match insn.raw.flow_control() {
            FlowControl::Next => Flow::Next,
            other => insn.flow_of_branch(other),
        };
        Ok(())
    }
}

fn options_of_vendor() -> u32 {
    match crate::vendor::is_amd() {
        true => DecoderOptions::AMD,
        false => DecoderOptions::NONE,
    }
}

impl Insn {
    /// Decodes the instruction at the start of `bytes`, which lie at `pc`.
    pub fn decode(bytes: &[u8], pc: u64) -> Result<Insn, DecodeError> {
        Reader::new(bytes, pc).decode(pc)
    }

    /// Whether it is an invalid opcode for a field that does not say what it does: a prefix
    /// LOCK, or reserved bits of VEX and EVEX. Such a field is lost when it is encoded again.
    pub fn is_reserved(&self) -> bool {
        let mut strict = Decoder::with_ip(64, self.bytes(), self.pc(), options_of_vendor());
        strict.decode().is_invalid()
    }

    /// How many of its bytes are prefixes, REX included.
    #[inline]
    pub fn prefixes(&self) -> usize {
        let is_none = |byte: &u8| !matches!(byte, 0x26 | 0x2E | 0x36 | 0x3E | 0x40..=0x4F | 0x64..=0x67 | 0xF0 | 0xF2 | 0xF3);
        let bytes = self.bytes();
        bytes.iter().position(is_none).unwrap_or(bytes.len())
    }

    /// Its bytes, and some that follow.
    pub fn all_bytes(&self) -> &[u8; KEPT] {
        &self.bytes
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8; KEPT] {
        &mut self.bytes
    }

    /// Its bytes as decoded.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len()]
    }

    pub fn len(&self) -> usize {
        self.raw.len()
    }

    pub fn is_empty(&self) -> bool {
        false
    }

    pub fn pc(&self) -> u64 {
        self.raw.ip()
    }

    pub fn next_pc(&self) -> u64 {
        self.raw.next_ip()
    }

    #[inline]
    pub fn flow(&self) -> Flow {
        self.flow
    }

    fn flow_of_branch(&self, control: FlowControl) -> Flow {
        match control {
            FlowControl::Next => Flow::Next,
            // No branch can be locked: an invalid opcode.
            _ if self.raw.has_lock_prefix() => Flow::Trap,
            _ if let Some(kind) = self.far_kind() => Flow::Far(kind),
            FlowControl::UnconditionalBranch if self.raw.is_jmp_far() => Flow::Odd,
            FlowControl::UnconditionalBranch => Flow::Jump(self.raw.near_branch_target()),
            FlowControl::ConditionalBranch if self.raw.is_jcc_short_or_near() => Flow::Cond(
                Cc(self.raw.condition_code() as u8 - 1).by_manual(),
                self.raw.near_branch_target(),
            ),
            FlowControl::ConditionalBranch => Flow::CountJump(self.raw.near_branch_target()),
            FlowControl::Return if matches!(self.raw.mnemonic(), Mnemonic::Ret) => {
                Flow::Return(if self.raw.op_count() == 1 {
                    self.raw.immediate16()
                } else {
                    0
                })
            }
            FlowControl::Return => Flow::Odd,
            FlowControl::Call => match self.raw.code() {
                Code::Syscall => Flow::Syscall,
                _ if self.raw.is_call_near() => Flow::Call(self.raw.near_branch_target()),
                _ => Flow::Odd,
            },
            FlowControl::IndirectBranch if self.raw.is_jmp_near_indirect() => Flow::IndirectJump,
            FlowControl::IndirectCall if self.raw.is_call_near_indirect() => Flow::IndirectCall,
            FlowControl::Interrupt
                if self.raw.code() == Code::Int_imm8 && self.raw.immediate8() == 0x80 =>
            {
                Flow::Int80
            }
            FlowControl::Interrupt | FlowControl::Exception => Flow::Trap,
            FlowControl::XbeginXabortXend if self.raw.mnemonic() == Mnemonic::Xbegin => {
                Flow::TransactionBegin(self.raw.near_branch_target())
            }
            FlowControl::XbeginXabortXend => Flow::Next,
            _ => Flow::Odd,
        }
    }

    /// The address of a rip-relative memory operand and the position of its
    /// 32-bit displacement within the instruction.
    pub fn rip_relative(&self) -> Option<(u64, usize)> {
        (self.raw.is_ip_rel_memory_operand() && self.raw.memory_base() == Register::RIP).then(
            || {
                (
                    self.raw.ip_rel_memory_address(),
                    usize::from(self.displacement_at),
                )
            },
        )
    }

    /// Whether it is `lea`, which takes an address and reads nothing.
    pub fn is_lea(&self) -> bool {
        self.raw.mnemonic() == Mnemonic::Lea
    }

    /// The constant of four or eight bytes that `mov` or `push` copies, as 64 bits.
    pub fn constant(&self) -> Option<u64> {
        matches!(self.raw.mnemonic(), Mnemonic::Mov | Mnemonic::Push).then_some(())?;
        let kinds = (0..self.raw.op_count()).map(|at| (at, self.raw.op_kind(at)));
        let is_wide = |kind: OpKind| {
            let wide = [
                OpKind::Immediate32,
                OpKind::Immediate64,
                OpKind::Immediate32to64,
            ];
            wide.contains(&kind)
        };
        let mut wide = kinds.filter(|(_, kind)| is_wide(*kind));
        wide.next().map(|(at, _)| self.raw.immediate(at))
    }

    /// The displacement of a memory operand without a base, which is an address of at most 31 bits, and its position within
    /// the instruction.
    pub fn absolute(&self) -> Option<(u32, usize)> {
        let raw = &self.raw;
        let has_memory = (0..raw.op_count()).any(|at| raw.op_kind(at) == OpKind::Memory);
        let is_constant = has_memory
            && raw.memory_base() == Register::None
            && !raw.is_vsib()
            && raw.memory_index().size() != 4;
        let bytes = &self.bytes[..self.len()];
        let mut decoder = Decoder::with_ip(64, bytes, self.pc(), DecoderOptions::NONE);
        let _ = decoder.decode();
        let constants = decoder.get_constant_offsets(raw);
        let value = u32::try_from(raw.memory_displacement64()).ok()?;
        (is_constant && constants.displacement_size() == 4 && value >> 31 == 0)
            .then(|| (value, constants.displacement_offset()))
    }

    /// The address of a memory operand relative to `eip` (67-prefixed), which is cut to 32 bits:
    /// no displacement leads there from another place.
    pub fn eip_relative(&self) -> Option<u64> {
        (self.raw.memory_base() == Register::EIP).then(|| self.raw.ip_rel_memory_address())
    }

    /// The address of a memory operand relative to either.
    pub fn relative_target(&self) -> Option<u64> {
        let is_relative = self.raw.is_ip_rel_memory_operand();
        is_relative.then(|| self.raw.ip_rel_memory_address())
    }

    /// Whether a segment's base counts in its memory operand.
    pub fn has_segment_base(&self) -> bool {
        matches!(self.raw.segment_prefix(), Register::FS | Register::GS)
    }

    /// Whether it may touch memory (and so fault).
    pub fn may_access_memory(&self) -> bool {
        self.raw.is_stack_instruction()
            || (0..self.raw.op_count()).any(|i| {
                !matches!(
                    self.raw.op_kind(i),
                    OpKind::Register
                        | OpKind::Immediate8
                        | OpKind::Immediate8to16
                        | OpKind::Immediate8to32
                        | OpKind::Immediate8to64
                        | OpKind::Immediate16
                        | OpKind::Immediate32
                        | OpKind::Immediate32to64
                        | OpKind::Immediate64
                )
            })
    }

    /// Whether it gives another result when run a second time, or cannot be
    /// followed by the trap flag: clocks, random numbers, what the processor
    /// says about itself, and whatever enters the kernel or changes the
    /// privilege or the stack segment.
    pub fn is_unrepeatable(&self) -> bool {
        let odd = matches!(
            self.flow(),
            Flow::Syscall
                | Flow::Int80
                | Flow::TransactionBegin(_)
                | Flow::Far(_)
                | Flow::Odd
                | Flow::Trap
        );
        let to_ss =
            self.raw.op0_kind() == OpKind::Register && self.raw.op0_register() == Register::SS;
        odd || to_ss
            || matches!(
                self.raw.mnemonic(),
                Mnemonic::Cpuid
                    | Mnemonic::Rdtsc
                    | Mnemonic::Rdtscp
                    | Mnemonic::Rdpmc
                    | Mnemonic::Rdpru
                    | Mnemonic::Rdpid
                    | Mnemonic::Rdrand
                    | Mnemonic::Rdseed
                    | Mnemonic::Xgetbv
                    | Mnemonic::Sgdt
                    | Mnemonic::Sidt
                    | Mnemonic::Sldt
                    | Mnemonic::Str
                    | Mnemonic::Smsw
                    | Mnemonic::Lsl
                    | Mnemonic::Lar
                    | Mnemonic::Umwait
                    | Mnemonic::Tpause
                    | Mnemonic::Lss
            )
    }

    /// Addresses that it loads from or stores to, given the general registers in the order of
    /// their encoding: its memory operand, and the stack. Addresses by fs or gs, or by a vector
    /// of them, are left out.
    pub fn addresses(&self, regs: &[u64; 16]) -> [Option<u64>; 2] {
        let by_segment = matches!(self.raw.memory_segment(), Register::FS | Register::GS);
        let touches = !matches!(self.raw.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
        let operand = (0..self.raw.op_count())
            .find(|&i| touches && !by_segment && self.raw.op_kind(i) == OpKind::Memory);
        let operand = operand.and_then(|operand| {
            self.raw.virtual_address(operand, 0, |register, _, _| {
                if register.is_segment_register() {
                    return Some(0);
                }
                let general = register.is_gpr().then(|| register.full_register().number());
                regs.get(general?).copied()
            })
        });
        let grows = self.raw.stack_pointer_increment().min(0);
        let stack = regs[4].wrapping_add_signed(i64::from(grows));
        [operand, self.raw.is_stack_instruction().then_some(stack)]
    }

    /// The general register, by the order of its encoding, that says where an indirect branch goes.
    pub fn branch_register(&self) -> Option<usize> {
        let register = self.raw.op0_register();
        let is_register = self.raw.op0_kind() == OpKind::Register && register.is_gpr64();
        is_register.then(|| register.number())
    }

    /// `pushf`: what it stores shows the trap flag.
    pub fn is_push_flags(&self) -> bool {
        matches!(self.raw.mnemonic(), Mnemonic::Pushf | Mnemonic::Pushfq)
    }

    /// `popf`: may set the trap flag.
    pub fn is_pop_flags(&self) -> bool {
        matches!(self.raw.mnemonic(), Mnemonic::Popf | Mnemonic::Popfq)
    }

    /// Whether it may write to memory other than by a push: what is written is
    /// the first operand.
    pub fn may_store(&self) -> bool {
        let reads_only = matches!(
            self.raw.mnemonic(),
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Bt | Mnemonic::Push | Mnemonic::Nop
        );
        let kind = self.raw.op0_kind();
        let is_memory = kind == OpKind::Memory
            || matches!(
                kind,
                OpKind::MemoryESDI
                    | OpKind::MemoryESEDI
                    | OpKind::MemoryESRDI
                    | OpKind::MemorySegDI
                    | OpKind::MemorySegEDI
                    | OpKind::MemorySegRDI
            );
        self.raw.op_count() > 0 && is_memory && !reads_only
    }

    /// A call, an indirect jump or a return with an operand of 16 bits, which it pushes or pops.
    pub fn is_16_bit_branch(&self) -> bool {
        matches!(
            self.raw.code(),
            Code::Call_rel16 | Code::Call_rm16 | Code::Jmp_rm16 | Code::Retnw | Code::Retnw_imm16
        )
    }

    /// `pop` of a register.
    pub fn is_pop(&self) -> bool {
        self.raw.mnemonic() == Mnemonic::Pop && self.raw.op0_kind() == OpKind::Register
    }

    /// By how much an instruction that is no branch moves the stack pointer;
    /// `None`: by what only running it tells.
    pub fn stack_delta(&self) -> Option<i32> {
        let to_rsp = |i: u32| {
            i < self.raw.op_count()
                && self.raw.op_kind(i) == OpKind::Register
                && self.raw.op_register(i).full_register() == Register::RSP
        };
        let raw = &self.raw;
        match raw.mnemonic() {
            Mnemonic::Push => Some(raw.stack_pointer_increment()),
            Mnemonic::Pop if !to_rsp(0) => Some(raw.stack_pointer_increment()),
            Mnemonic::Pushfq | Mnemonic::Popfq => Some(raw.stack_pointer_increment()),
            Mnemonic::Add | Mnemonic::Sub if to_rsp(0) => {
                let by = match raw.op1_kind() {
                    OpKind::Immediate8to64 => i32::try_from(raw.immediate8to64()).ok()?,
                    OpKind::Immediate32to64 => i32::try_from(raw.immediate32to64()).ok()?,
                    _ => return None,
                };
                let wide = raw.op0_register() == Register::RSP;
                let sign = if raw.mnemonic() == Mnemonic::Add {
                    1
                } else {
                    -1
                };
                wide.then_some(by * sign)
            }
            Mnemonic::Lea if to_rsp(0) => {
                let plain = raw.op0_register() == Register::RSP
                    && raw.memory_base() == Register::RSP
                    && raw.memory_index() == Register::None;
                let by = raw.memory_displacement64() as i64;
                plain.then(|| i32::try_from(by).ok()).flatten()
            }
            Mnemonic::Cmp | Mnemonic::Test => Some(0),
            _ if raw.is_stack_instruction() => None,
            // Second operands that are written, too: `xchg`, `xadd`.
            Mnemonic::Xchg | Mnemonic::Xadd if to_rsp(1) => None,
            _ if to_rsp(0) => None,
            _ => Some(0),
        }
    }

    #[inline]
    pub fn stack_move(&self) -> StackMove {
        let names = [self.raw.op0_register(), self.raw.op1_register()];
        match names.contains(&Register::RSP) {
            true => self.move_of_stack(),
            false => StackMove::Constant,
        }
    }

    fn move_of_stack(&self) -> StackMove {
        match self.raw.mnemonic() {
            // `mov rsp, rbp` and `leave` end a frame by the book: they go back
            // to a value that the same activation held.
            Mnemonic::Mov
                if self.raw.op0_register() == Register::RSP
                    && self.raw.op1_register() == Register::RBP =>
            {
                StackMove::Constant
            }
            Mnemonic::Mov
            | Mnemonic::Pop
            | Mnemonic::Cmove
            | Mnemonic::Cmovne
            | Mnemonic::Cmova
            | Mnemonic::Cmovb
                if self.raw.op0_register() == Register::RSP =>
            {
                StackMove::Arbitrary
            }
            Mnemonic::Xchg
                if self.raw.op0_register() == Register::RSP
                    || self.raw.op1_register() == Register::RSP =>
            {
                StackMove::Arbitrary
            }
            // Slices of a stack are switched so (greenlet).
            Mnemonic::Add if self.adds_to_stack() => StackMove::Arbitrary,
            _ => StackMove::Constant,
        }
    }

    /// Whether it is a push, a pop, a call, a return or another one that accesses the top of the stack.
    pub fn is_stack_instruction(&self) -> bool {
        self.raw.is_stack_instruction()
    }

    /// `add rsp, reg`
    pub fn adds_to_stack(&self) -> bool {
        self.raw.mnemonic() == Mnemonic::Add
            && self.raw.op0_register() == Register::RSP
            && self.raw.op1_kind() == OpKind::Register
    }

    /// Whether fetching stops here by hand: `cpuid`-like serialisation does not count.
    pub fn is_nop(&self) -> bool {
        matches!(self.raw.mnemonic(), Mnemonic::Nop | Mnemonic::Endbr64)
    }

    /// eax after these instructions, if the last one that changes it sets it to a constant. Branches change nothing.
    pub fn known_eax(insns: &[Insn]) -> Option<u32> {
        let changes = |insn: &&Insn| insn.flow() == Flow::Next && insn.may_write_rax();
        insns.iter().rfind(changes)?.constant_eax()
    }

    /// `mov eax/rax, imm`: the value it leaves in eax.
    pub fn constant_eax(&self) -> Option<u32> {
        match self.raw.code() {
            Code::Mov_r32_imm32 if self.raw.op0_register() == Register::EAX => {
                Some(self.raw.immediate32())
            }
            Code::Mov_rm64_imm32 if self.raw.op0_register() == Register::RAX => {
                Some(self.raw.immediate32to64() as u32)
            }
            Code::Xor_r32_rm32 | Code::Xor_rm32_r32
                if self.raw.op0_register() == Register::EAX
                    && self.raw.op1_register() == Register::EAX =>
            {
                Some(0)
            }
            _ => None,
        }
    }

    /// Whether it may change eax.
    pub fn may_write_rax(&self) -> bool {
        let writes_operand = |i: u32| {
            self.raw.op_kind(i) == OpKind::Register
                && self.raw.op_register(i).full_register() == Register::RAX
        };
        match self.raw.mnemonic() {
            // Common forms that name their only written register first.
            Mnemonic::Mov
            | Mnemonic::Lea
            | Mnemonic::Movsxd
            | Mnemonic::Movzx
            | Mnemonic::Pop
            | Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::Xor
            | Mnemonic::And
            | Mnemonic::Or => writes_operand(0),
            Mnemonic::Test | Mnemonic::Cmp | Mnemonic::Push | Mnemonic::Nop | Mnemonic::Endbr64 => {
                false
            }
            _ => true,
        }
    }
}

impl Cc {
    /// The decoder numbers conditions o, no, b, ae, e, ne, be, a, s, ns, p,
    /// np, l, ge, le, g: the manual's order already.
    const fn by_manual(self) -> Cc {
        self
    }
}
