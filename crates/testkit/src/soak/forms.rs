//! The instruction forms of random programs, as tables.
//!
//! A row is what is written, the flags it reads, those it defines and those it
//! leaves undefined (SDM volume 2, "Flags Affected"). A form may be several
//! instructions, separated by `;`, that must stay together. Placeholders:
//!
//! | | |
//! |---|---|
//! | `%q %d %w %b` | a general register of 64, 32, 16, 8 bits |
//! | `%P` | a 64-bit one that is not rbp |
//! | `%H %L` | ah, bh, ch, dh; al, bl, cl, dl |
//! | `%A %a %E %e` | two 64-bit registers of this form, and their lower halves |
//! | `%m` | memory that may be written |
//! | `%M` | memory that is only read |
//! | `%n` | the same, aligned to 64 bytes |
//! | `%p` | memory without an index register, for string instructions |
//! | `%i %u %I %Q` | a constant: signed 8, unsigned 8, signed 32, 64 bits |
//! | `%s %S` | a count of 2 to 31, of 2 to 63 |
//! | `%C` | a count of 1 to 60 |
//! | `%r %F` | a place in the red zone, a frame size: one of each in a form |
//! | `%c` | a condition |
//! | `%x %y %z %v` | xmm0-15, ymm0-15, zmm0-31, xmm0-31 |
//! | `%k` | k1-k7 |
//!
//! Invariant: no form leaves an address in a register other than r13, because
//! addresses differ between runs. Flags of sums with rsp count as undefined.

/// Features that a table of forms needs of the CPU, or of the kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing beyond x86-64.
    Nothing,
    /// BMI, ADX, POPCNT, MOVBE, SSE4.2.
    Bits,
    /// AVX, AVX2, FMA.
    Avx,
    /// AVX-512 F, BW, DQ, VL.
    Avx512,
    /// A program that handles its faults.
    Faults,
    /// Code that is not copied, because it refers to data by rip.
    Fixed,
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The instruction, with places for operands.
    pub text: &'static str,
    /// Flags whose values matter to it.
    pub reads: &'static str,
    /// Flags with a defined value afterwards.
    pub defines: &'static str,
    /// Flags with no defined value afterwards.
    pub undefines: &'static str,
}

/// A table of forms.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Features that it needs.
    pub needs: Needs,
    /// How often it is chosen, against the others.
    pub weight: usize,
    /// The rows.
    pub forms: &'static [Form],
}

const fn form(
    text: &'static str,
    reads: &'static str,
    defines: &'static str,
    undefines: &'static str,
) -> Form {
    Form {
        text,
        reads,
        defines,
        undefines,
    }
}

/// All flags: carry, parity, adjust, zero, sign, overflow.
pub const ALL: &str = "CPAZSO";
/// Flags that a condition can read.
const CC: &str = "CPZSO";

/// All tables.
pub const GROUPS: &[Group] = &[
    group(Needs::Nothing, 30, ARITHMETIC),
    group(Needs::Nothing, 12, SHIFTS),
    group(Needs::Nothing, 14, MOVES),
    group(Needs::Nothing, 10, CARRIED),
    group(Needs::Nothing, 9, STACK),
    group(Needs::Nothing, 5, STRINGS),
    group(Needs::Nothing, 3, X87),
    group(Needs::Nothing, 8, SSE),
    group(Needs::Nothing, 1, KERNEL),
    group(Needs::Fixed, 2, SHARED),
    group(Needs::Bits, 7, BITS),
    group(Needs::Avx, 8, AVX),
    group(Needs::Avx512, 8, AVX512),
    group(Needs::Faults, 8, FAULTS),
];

const fn group(needs: Needs, weight: usize, forms: &'static [Form]) -> Group {
    Group {
        needs,
        weight,
        forms,
    }
}

/// Instructions after which every flag is defined.
pub const DEFINERS: &[Form] = &[
    form("cmp %q, %q", "", ALL, ""),
    form("cmp %d, %I", "", ALL, ""),
    form("cmp %b, %b", "", ALL, ""),
    form("add %d, %d", "", ALL, ""),
    form("sub %q, %i", "", ALL, ""),
    form("sub %w, %w", "", ALL, ""),
    form("neg %q", "", ALL, ""),
    form("cmp qword ptr %M, %i", "", ALL, ""),
    form("add dword ptr %m, %d", "", ALL, ""),
    form("ucomisd %x, %x", "", ALL, ""),
];

#[rustfmt::skip]
const ARITHMETIC: &[Form] = &[
    form("add %q, %q", "", ALL, ""),
    form("add %d, %I", "", ALL, ""),
    form("add %w, %w", "", ALL, ""),
    form("add %b, %u", "", ALL, ""),
    form("add %H, %L", "", ALL, ""),
    form("add %q, qword ptr %M", "", ALL, ""),
    form("add qword ptr %m, %q", "", ALL, ""),
    form("add byte ptr %m, %u", "", ALL, ""),
    form("sub %q, %q", "", ALL, ""),
    form("sub %d, dword ptr %M", "", ALL, ""),
    form("sub word ptr %m, %w", "", ALL, ""),
    form("sub %L, %H", "", ALL, ""),
    form("cmp %q, %i", "", ALL, ""),
    form("cmp %d, %d", "", ALL, ""),
    form("cmp dword ptr %M, %I", "", ALL, ""),
    form("cmp %b, byte ptr %M", "", ALL, ""),
    form("and %q, %q", "", CC, "A"),
    form("and %d, dword ptr %M", "", CC, "A"),
    form("or %q, %i", "", CC, "A"),
    form("or dword ptr %m, %d", "", CC, "A"),
    form("xor %d, %d", "", CC, "A"),
    form("xor %w, %w", "", CC, "A"),
    form("xor qword ptr %m, %q", "", CC, "A"),
    form("xor %a, %a", "", CC, "A"),
    form("test %q, %q", "", CC, "A"),
    form("test %b, %u", "", CC, "A"),
    form("test dword ptr %M, %I", "", CC, "A"),
    form("inc %q", "", "PAZSO", ""),
    form("inc dword ptr %m", "", "PAZSO", ""),
    form("dec %d", "", "PAZSO", ""),
    form("dec byte ptr %m", "", "PAZSO", ""),
    form("neg %q", "", ALL, ""),
    form("neg %w", "", ALL, ""),
    form("neg dword ptr %m", "", ALL, ""),
    form("not %q", "", "", ""),
    form("not byte ptr %m", "", "", ""),
    form("imul %q, %q", "", "CO", "PAZS"),
    form("imul %d, dword ptr %M, %I", "", "CO", "PAZS"),
    form("imul %q, %q, %i", "", "CO", "PAZS"),
    form("imul %q", "", "CO", "PAZS"),
    form("mul %d", "", "CO", "PAZS"),
    form("mul byte ptr %M", "", "CO", "PAZS"),
    form("xor edx, edx; mov r14, rcx; or rcx, 1; div rcx; mov rcx, r14", "", "", ALL),
    form("movzx eax, al; or bl, 1; div bl", "", "", ALL),
    form("xor edx, edx; shr eax, 1; or ebp, 3; shr ebp, 1; or ebp, 1; idiv ebp", "", "", ALL),
    form("xadd %q, %q", "", ALL, ""),
    form("xadd dword ptr %m, %d", "", ALL, ""),
    form("lock xadd qword ptr %m, %q", "", ALL, ""),
    form("lock add dword ptr %m, %I", "", ALL, ""),
    form("lock dec word ptr %m", "", "PAZSO", ""),
    form("lock neg qword ptr %m", "", ALL, ""),
    form("cmpxchg %q, %q", "", ALL, ""),
    form("cmpxchg byte ptr %m, %b", "", ALL, ""),
    form("lock cmpxchg qword ptr %m, %q", "", ALL, ""),
    form("lock cmpxchg8b qword ptr %n", "", "Z", ""),
    form("cmpxchg16b xmmword ptr %n", "", "Z", ""),
];

#[rustfmt::skip]
const SHIFTS: &[Form] = &[
    form("shl %q, 1", "", CC, "A"),
    form("shl %d, %s", "", "CPZS", "OA"),
    form("shl %q, cl", "", "", "OA"),
    form("shl byte ptr %m, cl", "", "", "COA"),
    form("shr %q, %S", "", "CPZS", "OA"),
    form("shr dword ptr %m, 1", "", CC, "A"),
    form("shr %w, cl", "", "", "COA"),
    form("sar %q, %S", "", "CPZS", "OA"),
    form("sar %d, cl", "", "", "OA"),
    form("sar qword ptr %m, 1", "", CC, "A"),
    form("rol %q, %S", "", "C", "O"),
    form("rol %d, 1", "", "CO", ""),
    form("rol %w, cl", "", "", "O"),
    form("ror %d, %s", "", "C", "O"),
    form("ror %b, cl", "", "", "O"),
    form("ror qword ptr %m, 1", "", "CO", ""),
    form("rcl %q, 1", "C", "CO", ""),
    form("rcl %d, %s", "C", "C", "O"),
    form("rcl %w, cl", "C", "C", "O"),
    form("rcr %q, cl", "C", "C", "O"),
    form("rcr byte ptr %m, 1", "C", "CO", ""),
    form("shld %q, %q, %S", "", "CPZS", "OA"),
    form("shld %d, %d, cl", "", "", "OA"),
    form("shrd %q, %q, cl", "", "", "OA"),
    form("shrd dword ptr %m, %d, %s", "", "CPZS", "OA"),
    form("bt %q, %q", "", "C", "OSAP"),
    form("bts %d, %s", "", "C", "OSAP"),
    form("btr %q, %q", "", "C", "OSAP"),
    form("btc dword ptr %m, %s", "", "C", "OSAP"),
    form("movzx r14d, %b; bt qword ptr [r15 + WORK + 64], r14", "", "C", "OSAP"),
    form("movzx r14d, %b; lock bts qword ptr [r15 + WORK + 256], r14", "", "C", "OSAP"),
    form("or %A, 16; bsf %q, %A", "", "Z", "CPASO"),
    form("or %A, 4096; bsr %q, %A", "", "Z", "CPASO"),
];

#[rustfmt::skip]
const MOVES: &[Form] = &[
    form("mov %q, %q", "", "", ""),
    form("mov %d, %d", "", "", ""),
    form("mov %d, %I", "", "", ""),
    form("movabs %q, %Q", "", "", ""),
    form("mov %H, %L", "", "", ""),
    form("mov %w, %w", "", "", ""),
    form("mov %q, qword ptr %M", "", "", ""),
    form("mov qword ptr %m, %q", "", "", ""),
    form("mov byte ptr %m, %b", "", "", ""),
    form("mov dword ptr %m, %I", "", "", ""),
    form("movzx %d, %b", "", "", ""),
    form("movzx %q, word ptr %M", "", "", ""),
    form("movsx %q, %w", "", "", ""),
    form("movsxd %q, dword ptr %M", "", "", ""),
    form("lea %q, [%q + %q * 4 + %I]", "", "", ""),
    form("lea %d, [%q + %q * 2]", "", "", ""),
    form("lea %w, [%q + %I]", "", "", ""),
    form("xchg %q, %q", "", "", ""),
    form("xchg %d, dword ptr %m", "", "", ""),
    form("xchg byte ptr %m, %b", "", "", ""),
    form("bswap %q", "", "", ""),
    form("bswap %d", "", "", ""),
    form("cdqe", "", "", ""),
    form("cqo", "", "", ""),
    form("cwd", "", "", ""),
    form("xchg rax, %q", "", "", ""),
    form("lea rbx, %p; xlatb; mov ebx, %I", "", "", ""),
    form("nop", "", "", ""),
    form("movnti qword ptr %m, %q", "", "", ""),
    form("prefetcht0 byte ptr %M", "", "", ""),
    form("mfence", "", "", ""),
    form("pause", "", "", ""),
];

#[rustfmt::skip]
const CARRIED: &[Form] = &[
    form("adc %q, %q", "C", ALL, ""),
    form("adc %b, %u", "C", ALL, ""),
    form("adc dword ptr %m, %d", "C", ALL, ""),
    form("lock adc qword ptr %m, %i", "C", ALL, ""),
    form("sbb %q, %q", "C", ALL, ""),
    form("sbb %a, %a", "C", ALL, ""),
    form("sbb %q, qword ptr %M", "C", ALL, ""),
    form("set%c %b", CC, "", ""),
    form("set%c byte ptr %m", CC, "", ""),
    form("cmov%c %q, %q", CC, "", ""),
    form("cmov%c %d, dword ptr %M", CC, "", ""),
    form("cmov%c %w, %w", CC, "", ""),
    form("lahf", "CPAZS", "", ""),
    form("sahf", "", "CPAZS", ""),
    form("stc", "", "C", ""),
    form("clc", "", "C", ""),
    form("cmc", "C", "C", ""),
    form("pushfq; pop %A; and %A, 0xcd5", ALL, CC, "A"),
    form("push %q; and qword ptr [rsp], 0x8d5; popfq", "", ALL, ""),
    form("pushfw; and word ptr [rsp], 0xcd5; popfw", ALL, ALL, ""),
    form("std; pushfq; cld; pop %A; and %A, 0xcd5", ALL, CC, "A"),
];

#[rustfmt::skip]
const STACK: &[Form] = &[
    form("push %q; pop %q", "", "", ""),
    form("push %q; push %q; pop %q; pop %q", "", "", ""),
    form("push %i; pop %q", "", "", ""),
    form("push %I; xor %q, [rsp]; lea rsp, [rsp + 8]", "", CC, "A"),
    form("push qword ptr %M; pop qword ptr %m", "", "", ""),
    form("push %w; pop %w", "", "", ""),
    form("push %q; push %q; pop qword ptr [rsp]; pop %q", "", "", ""),
    form("push %q; push qword ptr [rsp]; pop %q; pop %q", "", "", ""),
    form("push rsp; pop r13", "", "", ""),
    form("mov r13, rsp; push r13; pop rsp", "", "", ""),
    form("mov [rsp - %r], %q; mov %q, [rsp - %r]", "", "", ""),
    form("mov [rsp - %r], %q; add %q, [rsp - %r]", "", ALL, ""),
    form("movups [rsp - 128], %x; movups %x, [rsp - 128]", "", "", ""),
    form("sub rsp, %F; mov [rsp + 8], %q; adc %q, [rsp + 8]; add rsp, %F", "", "", ALL),
    form("lea rsp, [rsp - %F]; mov [rsp], %q; pop %q; lea rsp, [rsp + %F - 8]", "", "", ""),
    form("mov r13, rsp; and rsp, -64; push %q; pop %q; mov rsp, r13", "", "", ALL),
    form("mov r13, rsp; lea rsp, [r15 + STACK_TWO]; push %q; push %i; pop %q; pop %q; mov rsp, r13", "", "", ""),
    form("lea r13, [r15 + STACK_TWO]; xchg rsp, r13; push %q; pop %q; xchg rsp, r13", "", "", ""),
    form("enter %F, 0; mov [rbp - 8], %P; add %P, [rbp - 8]; leave", "", ALL, ""),
    form("enter %F, 1; mov [rbp - 16], %P; sub %P, [rbp - 16]; leave", "", ALL, ""),
    form("push rbp; mov rbp, rsp; push %P; mov %P, [rbp - 8]; leave", "", "", ""),
    form("call 7f; 7: pop r13", "", "", ""),
    form("call 7f; jmp 8f; 7: ret; 8:", "", "", ""),
    form("lea r13, [rip + 7f]; push r13; ret; 7:", "", "", ""),
    form("push %q; lea r13, [rip + 7f]; push r13; ret 8; 7:", "", "", ""),
];

#[rustfmt::skip]
const STRINGS: &[Form] = &[
    form("lea rsi, %p; lea rdi, %p; mov ecx, %C; rep movsb; mov esi, %I; mov edi, %I", "", "", ""),
    form("lea rsi, %p; lea rdi, %p; mov ecx, %C; rep movsq; sub rsi, r15; sub rdi, r15", "", ALL, ""),
    form("lea rsi, %p; lea rdi, %p; movsd; sub rsi, r15; sub rdi, r15", "", ALL, ""),
    form("lea rdi, %p; mov ecx, %C; rep stosd; sub rdi, r15", "", ALL, ""),
    form("lea rdi, %p; stosw; sub rdi, r15", "", ALL, ""),
    form("lea rsi, %p; lodsb; sub rsi, r15", "", ALL, ""),
    form("lea rsi, %p; mov ecx, %C; rep lodsq; mov esi, %I", "", "", ""),
    form("lea rsi, %p; lea rdi, %p; mov ecx, %C; repe cmpsb; mov esi, %I; mov edi, %I", "", ALL, ""),
    form("lea rsi, %p; lea rdi, %p; mov ecx, %C; repne cmpsd; mov esi, %I; mov edi, %I", "", ALL, ""),
    form("lea rdi, %p; mov ecx, %C; repne scasb; mov edi, %I", "", ALL, ""),
    form("lea rdi, %p; mov ecx, %C; repe scasw; sub rdi, r15", "", ALL, ""),
    form("lea rdi, %p; xor ecx, ecx; rep stosb; sub rdi, r15", "", ALL, ""),
    form("std; lea rsi, %p; lea rdi, %p; mov ecx, 30; rep movsq; cld; mov esi, %I; mov edi, %I", "", "", ""),
    form("std; lea rdi, %p; mov ecx, %C; repne scasb; cld; mov edi, %I", "", ALL, ""),
    form("lea rdi, %p; maskmovdqu %x, %x; mov edi, %I", "", "", ""),
];

#[rustfmt::skip]
const X87: &[Form] = &[
    form("fild qword ptr %M; fild dword ptr %M; faddp; fistp qword ptr %m", "", "", ""),
    form("fld qword ptr %M; fmul qword ptr %M; fstp qword ptr %m", "", "", ""),
    form("fld1; fldpi; fdivp; fsqrt; fchs; fstp tbyte ptr %m", "", "", ""),
    form("fild word ptr %M; fldl2e; fxch; fsubrp; frndint; fstp dword ptr %m", "", "", ""),
    form("fild qword ptr %M; fild qword ptr %M; fcomip st, st(1); fstp st(0)", "", "CPZ", "OSA"),
    form("fild qword ptr %M; fld1; fcmovb st, st(1); fstp tbyte ptr %m; fstp st(0)", "C", "", ""),
    form("fld1; fld st(0); faddp; fst qword ptr %m; fstp st(0)", "", "", ""),
    form("fldz; ftst; fnstsw ax; and eax, 0x4500; fstp st(0)", "", CC, "A"),
    form("movq mm3, %q; paddw mm3, mm3; pxor mm3, qword ptr %M; movq %q, mm3; emms", "", "", ""),
    form("fnstcw word ptr [rsp - 16]; fldcw word ptr [rsp - 16]; movzx %d, word ptr [rsp - 16]", "", "", ""),
];

#[rustfmt::skip]
const SSE: &[Form] = &[
    form("paddd %x, %x", "", "", ""),
    form("psubq %x, xmmword ptr %n", "", "", ""),
    form("pxor %x, %x", "", "", ""),
    form("pshufd %x, %x, %u", "", "", ""),
    form("punpcklbw %x, %x", "", "", ""),
    form("pmuludq %x, %x", "", "", ""),
    form("psrlq %x, %s", "", "", ""),
    form("palignr %x, %x, 5", "", "", ""),
    form("pshufb %x, %x", "", "", ""),
    form("movdqa xmmword ptr %n, %x", "", "", ""),
    form("movups %x, xmmword ptr %M", "", "", ""),
    form("movups xmmword ptr %m, %x", "", "", ""),
    form("movntdq xmmword ptr %n, %x", "", "", ""),
    form("movq %q, %x", "", "", ""),
    form("movd %x, %d", "", "", ""),
    form("movhlps %x, %x", "", "", ""),
    form("pmovmskb %d, %x", "", "", ""),
    form("addps %x, %x", "", "", ""),
    form("mulsd %x, qword ptr %M", "", "", ""),
    form("divss %x, %x", "", "", ""),
    form("sqrtpd %x, %x", "", "", ""),
    form("cvtsi2sd %x, %q", "", "", ""),
    form("cvttsd2si %q, %x", "", "", ""),
    form("ucomiss %x, %x", "", ALL, ""),
    form("comisd %x, qword ptr %M", "", ALL, ""),
    form("cmpltps %x, %x", "", "", ""),
    form("mov dword ptr [rsp - 8], 0x3f80; ldmxcsr [rsp - 8]; addsd %x, %x; stmxcsr [rsp - 8]; mov %d, [rsp - 8]", "", "", ""),
    form("mov dword ptr [rsp - 8], 0x1f80; ldmxcsr [rsp - 8]", "", "", ""),
];

#[rustfmt::skip]
const KERNEL: &[Form] = &[
    form("mov eax, 39; lea r13, [rip + 7f]; syscall; 7: sub rcx, r13; mov eax, %I; and r11d, 0xcd5", ALL, CC, "A"),
    form("mov eax, 9999; syscall; mov ecx, %I; and r11d, 0xcd5", ALL, CC, "A"),
    form("mov eax, 24; syscall; mov ecx, %I; mov r11d, %I", "", "", ""),
];

/// With threads, their flags depend on what the others did.
#[rustfmt::skip]
const SHARED: &[Form] = &[
    form("lock add qword ptr [rip + shared], %I", "", "", ALL),
    form("lock inc dword ptr [rip + shared + 4]", "", "", ALL),
    form("lock dec qword ptr [rip + shared]", "", "", ALL),
];

#[rustfmt::skip]
const BITS: &[Form] = &[
    form("andn %q, %q, %q", "", "CZSO", "AP"),
    form("bextr %q, %q, %q", "", "CZO", "APS"),
    form("blsr %q, %q", "", "CZSO", "AP"),
    form("blsi %d, dword ptr %M", "", "CZSO", "AP"),
    form("blsmsk %q, %q", "", "CZSO", "AP"),
    form("bzhi %q, %q, %q", "", "CZSO", "AP"),
    form("pdep %q, %q, %q", "", "", ""),
    form("pext %d, %d, dword ptr %M", "", "", ""),
    form("mulx %A, %E, %q", "", "", ""),
    form("rorx %q, %q, %S", "", "", ""),
    form("sarx %q, %q, %q", "", "", ""),
    form("shlx %d, dword ptr %M, %d", "", "", ""),
    form("shrx %q, %q, %q", "", "", ""),
    form("adcx %q, %q", "C", "C", ""),
    form("adox %q, %q", "O", "O", ""),
    form("popcnt %q, %q", "", ALL, ""),
    form("lzcnt %d, %d", "", "CZ", "PASO"),
    form("tzcnt %q, qword ptr %M", "", "CZ", "PASO"),
    form("movbe %d, dword ptr %M", "", "", ""),
    form("movbe qword ptr %m, %q", "", "", ""),
    form("crc32 %d, %b", "", "", ""),
    form("crc32 %q, qword ptr %M", "", "", ""),
    form("ptest %x, %x", "", ALL, ""),
    form("pcmpestri %x, %x, 12", "", ALL, ""),
    form("aesenc %x, %x", "", "", ""),
    form("pclmulqdq %x, %x, 1", "", "", ""),
    form("pinsrq %x, %q, 1", "", "", ""),
    form("pextrd %d, %x, 2", "", "", ""),
    form("blendvps %x, %x, xmm0", "", "", ""),
];

#[rustfmt::skip]
const AVX: &[Form] = &[
    form("vpaddd %y, %y, %y", "", "", ""),
    form("vpxor %y, %y, ymmword ptr %M", "", "", ""),
    form("vpmullw %x, %x, %x", "", "", ""),
    form("vmovdqu %y, ymmword ptr %M", "", "", ""),
    form("vmovdqu ymmword ptr %m, %y", "", "", ""),
    form("vmovdqa ymmword ptr %n, %y", "", "", ""),
    form("vpermq %y, %y, %u", "", "", ""),
    form("vperm2i128 %y, %y, %y, 0x21", "", "", ""),
    form("vpbroadcastb %y, %x", "", "", ""),
    form("vextracti128 %x, %y, 1", "", "", ""),
    form("vfmadd213ps %y, %y, %y", "", "", ""),
    form("vaddpd %y, %y, %y", "", "", ""),
    form("vdivss %x, %x, %x", "", "", ""),
    form("vptest %y, %y", "", ALL, ""),
    form("vpmovmskb %d, %y", "", "", ""),
    form("vzeroupper", "", "", ""),
    form("vzeroall", "", "", ""),
    form("vmovq %x, %q", "", "", ""),
    form("vpsllvd %y, %y, %y", "", "", ""),
    form("vpsrld ymm1, %y, 24; vpcmpeqd ymm2, ymm2, ymm2; vpgatherdd ymm0, [r15 + ymm1 * 4 + WORK], ymm2; vpxor ymm1, ymm1, ymm1", "", "", ""),
    form("vpmaskmovd ymmword ptr %m, %y, %y", "", "", ""),
    form("vmovups [rsp - 96], %y; vmovups %y, [rsp - 96]", "", "", ""),
];

#[rustfmt::skip]
const AVX512: &[Form] = &[
    form("vpaddd %z, %z, %z", "", "", ""),
    form("vpaddq %z{%k}, %z, %z", "", "", ""),
    form("vpaddb %z{%k}{z}, %z, zmmword ptr %M", "", "", ""),
    form("vmovdqu64 zmmword ptr %m, %z", "", "", ""),
    form("vmovdqu8 zmmword ptr %m{%k}, %z", "", "", ""),
    form("vmovdqu32 %z, zmmword ptr %M", "", "", ""),
    form("vpternlogd %z, %z, %z, %u", "", "", ""),
    form("vpcmpud %k, %z, %z, 1", "", "", ""),
    form("vpcmpeqb %k{%k}, %z, %z", "", "", ""),
    form("kmovq %k, %q", "", "", ""),
    form("kmovd %d, %k", "", "", ""),
    form("kandq %k, %k, %k", "", "", ""),
    form("kxnorw %k, %k, %k", "", "", ""),
    form("kortestq %k, %k", "", ALL, ""),
    form("vpxord %v, %v, %v", "", "", ""),
    form("vpbroadcastq %z, %q", "", "", ""),
    form("vpermd %z, %z, %z", "", "", ""),
    form("vpcompressd %z{%k}, %z", "", "", ""),
    form("vaddps %z, %z, dword ptr %M{1to16}", "", "", ""),
    form("vmulpd %z{%k}, %z, %z, {rz-sae}", "", "", ""),
    form("vpsrld zmm1, %z, 24; kmovw k1, ecx; vpscatterdd [r15 + zmm1 * 4 + WORK]{k1}, %z; vpxorq zmm1, zmm1, zmm1", "", "", ""),
    form("vpsrld zmm18, %z, 24; kmovw k2, edx; vpgatherdd zmm20{k2}, [r15 + zmm18 * 4 + WORK]", "", "", ""),
];

/// Each puts into r13 where to go on: the handler jumps there.
#[rustfmt::skip]
const FAULTS: &[Form] = &[
    form("lea r13, [rip + 7f]; ud2; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; int3; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; .byte 0xcd, 3; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; hlt; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; cli; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; in al, dx; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; int 0x21; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; .byte 0xf0, 0x90; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; div dword ptr [r15 + SLOT_ZERO]; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; idiv qword ptr [r15 + SLOT_ZERO]; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; mov %q, [r15 + GUARD]; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; mov [r15 + GUARD - 3], %q; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; add [r15 + GUARD + 8], %d; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; xchg [r15 + GUARD + 8], %q; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; push qword ptr [r15 + GUARD]; 7:", ALL, "", ""),
    form("push %q; lea r13, [rip + 7f]; pop qword ptr [r15 + GUARD]; 7: pop %q", ALL, "", ""),
    form("lea r13, [rip + 7f]; call qword ptr [r15 + GUARD]; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; jmp qword ptr [r15 + GUARD]; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; call qword ptr [r15 + SLOT_BAD]; 7: lea rsp, [rsp + 8]", ALL, "", ""),
    form("lea r13, [rip + 7f]; jmp qword ptr [r15 + SLOT_BAD]; 7:", ALL, "", ""),
    form("push 0x10; lea r13, [rip + 7f]; ret; 7:", ALL, "", ""),
    form("mov eax, 0x20; lea r13, [rip + 7f]; jmp rax; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; movaps %x, [r15 + WORK + 1]; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; movups [r15 + GUARD - 7], %x; 7:", ALL, "", ""),
    form("movabs rbp, 0x8000000000000000; lea r13, [rip + 7f]; mov rax, [rbp]; 7:", ALL, "", ""),
    form("movabs rcx, 0x8000000000000000; lea r13, [rip + 7f]; add [rcx], rdx; 7:", ALL, "", ""),
    form("lea rdi, [r15 + GUARD - %C]; mov ecx, 100; lea r13, [rip + 7f]; rep stosb; 7: mov edi, %I", ALL, "", ""),
    form("lea rdi, %p; lea rsi, [r15 + GUARD - %C]; mov ecx, 80; lea r13, [rip + 7f]; rep movsb; 7: sub rsi, r15; sub rdi, r15", ALL, ALL, ""),
    form("lea rdi, [r15 + GUARD - 40]; mov ecx, 9; lea r13, [rip + 7f]; repne scasq; 7: sub rdi, r15", ALL, ALL, ""),
    form("lea r13, [rip + 7f]; mov rsi, ds:[0x18]; 7:", ALL, "", ""),
    form("lea r13, [rip + 7f]; cmpxchg [r15 + GUARD], %q; 7:", ALL, "", ""),
];
