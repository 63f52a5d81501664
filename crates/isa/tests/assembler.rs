//! Each form of the assembler, with each register, decoded by iced: it is the instruction that its name says, and fills its bytes.

use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};
use isa::asm::Short;
use isa::{Asm, Cc, Reg};

/// The address of code, and a target of branches and displacements relative to it.
const ORIGIN: u64 = 0x1000_0000;
const TARGET: u64 = 0x1000_0300;
/// A displacement of 32 bits, and one of 8.
const FAR: i32 = 0x1234_5678;
const NEAR: i8 = -0x12;

const R32: [&str; 16] = [
    "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d",
    "r13d", "r14d", "r15d",
];
const R16: [&str; 16] = [
    "ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8w", "r9w", "r10w", "r11w", "r12w", "r13w",
    "r14w", "r15w",
];
const R8: [&str; 16] = [
    "al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b",
    "r13b", "r14b", "r15b",
];

fn r32(reg: Reg) -> &'static str {
    R32[reg as usize]
}

fn r16(reg: Reg) -> &'static str {
    R16[reg as usize]
}

fn r8(reg: Reg) -> &'static str {
    R8[reg as usize]
}

/// Instructions of code, as text.
fn decoded(emit: impl FnOnce(&mut Asm<'_>)) -> String {
    let mut bytes = [0; 64];
    let mut asm = Asm::new(&mut bytes, ORIGIN);
    emit(&mut asm);
    assert!(!asm.overflowed());
    let len = asm.len();
    let mut formatter = IntelFormatter::new();
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_leading_zeros(false);
    options.set_small_hex_numbers_in_decimal(false);
    options.set_branch_leading_zeros(false);
    options.set_displacement_leading_zeros(false);
    options.set_rip_relative_addresses(false);
    options.set_show_branch_size(false);
    options.set_memory_size_options(iced_x86::MemorySizeOptions::Always);
    let mut texts = Vec::new();
    for insn in Decoder::with_ip(64, &bytes[..len], ORIGIN, DecoderOptions::NONE).iter() {
        assert!(!insn.is_invalid(), "{:02x?}", &bytes[..len]);
        let mut text = String::new();
        formatter.format(&insn, &mut text);
        texts.push(text);
    }
    texts.join("; ")
}

fn assert_is(emit: impl FnOnce(&mut Asm<'_>), expected: &str) {
    assert_eq!(decoded(emit), expected);
}

/// Each pair of registers.
fn pairs() -> impl Iterator<Item = (Reg, Reg)> {
    Reg::ALL
        .into_iter()
        .flat_map(|a| Reg::ALL.into_iter().map(move |b| (a, b)))
}

/// A displacement as the formatter writes it.
fn plus(disp: i32) -> String {
    match disp {
        0 => String::new(),
        1.. => format!("+{disp:#x}"),
        _ => format!("-{:#x}", disp.unsigned_abs()),
    }
}

#[test]
fn forms_without_registers() {
    assert_is(
        |asm| asm.mov_gs_imm32(FAR, 7),
        "mov dword ptr gs:[0x12345678],0x7",
    );
    assert_is(
        |asm| asm.mov_gs_imm64(FAR, -7),
        "mov qword ptr gs:[0x12345678],0xfffffffffffffff9",
    );
    assert_is(
        |asm| asm.mov_gs_imm8(FAR, 7),
        "mov byte ptr gs:[0x12345678],0x7",
    );
    assert_is(|asm| asm.inc_gs8(FAR), "inc byte ptr gs:[0x12345678]");
    assert_is(
        |asm| asm.cmp_gs_imm8(FAR, 7),
        "cmp byte ptr gs:[0x12345678],0x7",
    );
    assert_is(
        |asm| asm.add_gs_imm(FAR, -7),
        "add qword ptr gs:[0x12345678],0xfffffffffffffff9",
    );
    assert_is(
        |asm| asm.add_gs_imm(FAR, 700),
        "add qword ptr gs:[0x12345678],0x2bc",
    );
    assert_is(|asm| asm.inc_gs(FAR), "inc qword ptr gs:[0x12345678]");
    assert_is(|asm| asm.dec_gs(FAR), "dec qword ptr gs:[0x12345678]");
    assert_is(|asm| asm.lahf(), "lahf");
    assert_is(|asm| asm.sahf(), "sahf");
    assert_is(|asm| asm.seto_al(), "seto al");
    assert_is(|asm| asm.add_al_imm(0x7f), "add al,0x7f");
    assert_is(|asm| asm.lfence(), "lfence");
    assert_is(|asm| asm.rdtsc(), "rdtsc");
    assert_is(|asm| asm.push_imm16(0x1234), "data16 push 0x1234");
    assert_is(|asm| asm.push_imm32(-2), "push 0xfffffffffffffffe");
    assert_is(|asm| asm.xbegin_xabort(), "xbegin 0x10000009; xabort 0x0");
    assert_is(
        |asm| asm.push_mem_rip(TARGET),
        "push qword ptr [0x10000300]",
    );
    assert_is(|asm| asm.jmp_mem_rip(TARGET), "jmp qword ptr [0x10000300]");
    assert_is(
        |asm| asm.cmp_mem_rip_imm8(TARGET, 0),
        "cmp dword ptr [0x10000300],0x0",
    );
    assert_is(
        |asm| assert_eq!(asm.jmp(TARGET), ORIGIN + 1),
        "jmp 0x10000300",
    );
    assert_is(|asm| asm.jmp_near(ORIGIN + 9), "jmp 0x10000009");
    for count in 1..40 {
        let text = decoded(|asm| {
            asm.nop(count);
            assert_eq!(asm.len(), count);
        });
        let mut texts = text.split("; ");
        assert!(
            texts.all(|text| text.contains("nop") || text == "xchg ax,ax"),
            "{text}"
        );
    }
    for skip in 0..8 {
        for start in 0..8 {
            let mut bytes = [0; 64];
            let mut asm = Asm::new(&mut bytes, ORIGIN + start);
            asm.align_displacement(skip);
            let at = asm.here() + skip;
            assert_eq!(at / 8, (at + 3) / 8);
        }
    }
}

#[test]
fn branches_by_conditions() {
    let names = [
        "jo", "jno", "jb", "jae", "je", "jne", "jbe", "ja", "js", "jns", "jp", "jnp", "jl", "jge",
        "jle", "jg",
    ];
    for (cc, name) in (0..).map(Cc).zip(names) {
        assert_is(
            |asm| assert_eq!(asm.jcc(cc, TARGET), ORIGIN + 2),
            &format!("{name} 0x10000300"),
        );
        assert_is(
            |asm| asm.jcc_near(cc, ORIGIN - 5),
            &format!("{name} 0xffffffb"),
        );
        assert_eq!(cc.inverted().inverted(), cc);
        let inverted = names[usize::from(cc.inverted().0)];
        let opposite = |name: &str| match name.strip_prefix("jn") {
            Some(rest) => format!("j{rest}"),
            None => format!("jn{}", &name[1..]),
        };
        let same = [
            ("jnb", "jae"),
            ("jnbe", "ja"),
            ("jnl", "jge"),
            ("jnle", "jg"),
        ];
        let opposite = opposite(name);
        let known = same.iter().find(|(long, _)| *long == opposite);
        let is_same = known.map_or(opposite.as_str(), |(_, short)| short) == inverted
            || same
                .iter()
                .any(|(long, short)| *short == name && long[2..] == inverted[1..]);
        assert!(is_same, "{name} and {inverted}");
    }
    let forward = |jump: fn(&mut Asm<'_>) -> Short| {
        decoded(|asm| {
            let jump = jump(asm);
            asm.lfence();
            asm.bind(jump);
        })
    };
    assert_eq!(forward(|asm| asm.jrcxz()), "jrcxz 0x10000005; lfence");
    assert_eq!(forward(|asm| asm.jmp_short()), "jmp 0x10000005; lfence");
    assert_eq!(forward(|asm| asm.jcc_short(Cc(2))), "jb 0x10000005; lfence");
}

#[test]
fn forms_with_one_register() {
    for a in Reg::ALL {
        let name = a.name();
        let gs = "gs:[0x12345678]";
        assert_is(
            |asm| asm.mov_gs_r(FAR, a),
            &format!("mov qword ptr {gs},{name}"),
        );
        assert_is(
            |asm| asm.mov_r_gs(a, FAR),
            &format!("mov {name},qword ptr {gs}"),
        );
        assert_is(
            |asm| asm.mov_r_fs(a, FAR),
            &format!("mov {name},qword ptr fs:[0x12345678]"),
        );
        assert_is(
            |asm| asm.cmp_r_gs(a, FAR),
            &format!("cmp {name},qword ptr {gs}"),
        );
        assert_is(
            |asm| asm.imul_r_gs(a, FAR),
            &format!("imul {name},qword ptr {gs}"),
        );
        assert_is(
            |asm| asm.add_r_gs(a, FAR),
            &format!("add {name},qword ptr {gs}"),
        );
        assert_is(
            |asm| asm.add_r_fs(a, FAR),
            &format!("add {name},qword ptr fs:[0x12345678]"),
        );
        assert_is(
            |asm| asm.xadd_gs_r(FAR, a),
            &format!("xadd qword ptr {gs},{name}"),
        );
        assert_is(
            |asm| asm.mov_r32_gs(a, FAR),
            &format!("mov {},dword ptr {gs}", r32(a)),
        );
        assert_is(|asm| asm.mov_r_es(a), &format!("mov {},es", r32(a)));
        assert_is(|asm| asm.mov_es_r(a), &format!("mov es,{}", r16(a)));
        assert_is(|asm| asm.rdfsbase(a), &format!("rdfsbase {name}"));
        assert_is(|asm| asm.wrfsbase(a), &format!("wrfsbase {name}"));
        assert_is(|asm| asm.mov_r_imm(a, 5), &format!("mov {},0x5", r32(a)));
        assert_is(
            |asm| asm.mov_r_imm(a, !4),
            &format!("mov {name},0xfffffffffffffffb"),
        );
        let long = format!("mov {name},0x123456789abcdef0");
        assert_is(|asm| asm.mov_r_imm(a, 0x1234_5678_9abc_def0), &long);
        assert_is(
            |asm| asm.mov_r_rip(a, TARGET),
            &format!("mov {name},qword ptr [0x10000300]"),
        );
        assert_is(
            |asm| asm.lea_rip(a, TARGET),
            &format!("lea {name},[0x10000300]"),
        );
        assert_is(|asm| asm.not(a), &format!("not {name}"));
        assert_is(|asm| asm.bswap(a), &format!("bswap {name}"));
        assert_is(|asm| asm.pop(a), &format!("pop {name}"));
        for (disp, text) in [(0, String::new()), (NEAR, plus(NEAR.into()))] {
            let at = format!("[{name}{text}]");
            assert_is(
                |asm| asm.mov_mem_imm8(a, disp, 7),
                &format!("mov byte ptr {at},0x7"),
            );
            assert_is(
                |asm| asm.mov_mem_imm16(a, disp, 7),
                &format!("mov word ptr {at},0x7"),
            );
            assert_is(
                |asm| asm.mov_mem_imm32(a, disp, 7),
                &format!("mov dword ptr {at},0x7"),
            );
        }
        if a != Reg::Rsp {
            assert_is(
                |asm| asm.jmp_table(a, 0x1000),
                &format!("jmp qword ptr [{name}*8+0x1000]"),
            );
        }
    }
}

#[test]
fn forms_with_two_registers() {
    for (a, b) in pairs() {
        let (name, base) = (a.name(), b.name());
        assert_is(|asm| asm.mov_r_r(a, b), &format!("mov {name},{base}"));
        assert_is(
            |asm| asm.mov_r32_r32(a, b),
            &format!("mov {},{}", r32(a), r32(b)),
        );
        assert_is(
            |asm| asm.movzx_r32_r16(a, b),
            &format!("movzx {},{}", r32(a), r16(b)),
        );
        assert_is(
            |asm| asm.movzx_r32_r8(a, b),
            &format!("movzx {},{}", r32(a), r8(b)),
        );
        assert_is(|asm| asm.rorx(a, b, 9), &format!("rorx {name},{base},0x9"));
        assert_is(
            |asm| asm.mov_r32_mem(a, b),
            &format!("mov {},dword ptr [{base}]", r32(a)),
        );
        assert_is(
            |asm| asm.xchg_mem_r32(a, b),
            &format!("xchg dword ptr [{name}],{}", r32(b)),
        );
        assert_is(
            |asm| asm.movzx_r32_mem16(a, b),
            &format!("movzx {},word ptr [{base}]", r32(a)),
        );
        for disp in [0, i32::from(NEAR), 0x70, FAR] {
            let at = format!("[{base}{}]", plus(disp));
            assert_is(
                |asm| asm.mov_r_mem(a, b, disp),
                &format!("mov {name},qword ptr {at}"),
            );
            assert_is(
                |asm| asm.mov_mem_r(b, disp, a),
                &format!("mov qword ptr {at},{name}"),
            );
            assert_is(|asm| asm.lea(a, b, disp), &format!("lea {name},{at}"));
            let r = r32(a);
            assert_is(
                |asm| asm.mov_r_gs_mem(a, b, disp),
                &format!("mov {name},qword ptr gs:{at}"),
            );
            assert_is(
                |asm| asm.mov_gs_mem_r(b, disp, a),
                &format!("mov qword ptr gs:{at},{name}"),
            );
            assert_is(
                |asm| asm.mov_gs_mem_r8(b, disp, a),
                &format!("mov byte ptr gs:{at},{}", r8(a)),
            );
            assert_is(
                |asm| asm.mov_gs_mem_imm8(b, disp, 7),
                &format!("mov byte ptr gs:{at},0x7"),
            );
            assert_is(
                |asm| asm.mov_gs_mem_imm16(b, disp, 7),
                &format!("mov word ptr gs:{at},0x7"),
            );
            assert_is(
                |asm| asm.mov_gs_mem_imm32(b, disp, 7),
                &format!("mov dword ptr gs:{at},0x7"),
            );
            assert_is(
                |asm| asm.mov_r32_gs_mem(a, b, disp),
                &format!("mov {r},dword ptr gs:{at}"),
            );
            if let Ok(disp) = i8::try_from(disp) {
                assert_is(
                    |asm| asm.mov_mem_r32(b, disp, a),
                    &format!("mov dword ptr {at},{r}"),
                );
                let word = format!("mov word ptr {at},{}", r16(a));
                assert_is(|asm| asm.mov_mem_r16(b, disp, a), &word);
            }
            if let Ok(disp) = u8::try_from(disp) {
                for (size, text) in [
                    (1, format!("movzx {r},byte ptr {at}")),
                    (2, format!("movzx {r},word ptr {at}")),
                    (4, format!("mov {r},dword ptr {at}")),
                    (8, format!("mov {name},qword ptr {at}")),
                ] {
                    assert_is(|asm| asm.mov_r_mem_sized(a, b, disp, size), &text);
                }
            }
        }
        if b as u8 & 7 != 4 {
            let text = format!("lea {},[{base}+0x12345678]", r32(a));
            assert_is(|asm| asm.lea32(a, b, 0x1234_5678), &text);
        }
        if b != Reg::Rsp {
            let text = format!("mov {},dword ptr gs:[{base}*4+0x12345678]", r32(a));
            assert_is(|asm| asm.mov_r32_gs_index4(a, b, FAR), &text);
        }
    }
}

#[test]
fn forms_with_a_base_and_an_index() {
    for (a, b) in pairs() {
        for index in Reg::ALL.into_iter().filter(|index| *index != Reg::Rsp) {
            let (name, r) = (a.name(), r32(a));
            let at = format!("[{}+{}-0x12]", b.name(), index.name());
            assert_is(
                |asm| asm.lea_sum(a, b, index, NEAR),
                &format!("lea {name},{at}"),
            );
            assert_is(
                |asm| asm.lea_sum32(a, b, index, NEAR),
                &format!("lea {r},{at}"),
            );
            assert_is(
                |asm| asm.mov_r32_sum(a, b, index, NEAR),
                &format!("mov {r},dword ptr {at}"),
            );
            let scaled = format!("{}*8", index.name());
            let any = |base, index, short| decoded(|asm| asm.lea_any(a, base, index, FAR, short));
            let of = |inside: String| format!("lea {name},[{inside}+0x12345678]");
            let index = Some((index, 8));
            assert_eq!(
                any(Some(b), index, false),
                of(format!("{}+{scaled}", b.name()))
            );
            assert_eq!(any(None, index, false), of(scaled.clone()));
            assert_eq!(any(Some(b), None, false), of(b.name().to_owned()));
            for (is_thread, segment) in [(false, ""), (true, "fs:")] {
                let base = b.name();
                let text = format!("mov {name},qword ptr {segment}[{base}+{scaled}+0x12345678]");
                let address = (Some(b), index, FAR);
                assert_is(|asm| asm.mov_r_any(a, is_thread, address), &text);
            }
            if let Some((short, _)) = index {
                let text = of(format!("{}+{}*8", r32(b), r32(short)));
                assert_eq!(any(Some(b), index, true), text);
            }
        }
    }
}

#[test]
fn forms_with_vectors() {
    for a in Reg::ALL {
        let (name, r) = (a.name(), r32(a));
        for mask in 0..8 {
            assert_is(
                |asm| asm.mov_r_opmask(a, mask, false),
                &format!("kmovq {name},k{mask}"),
            );
            assert_is(
                |asm| asm.mov_r_opmask(a, mask, true),
                &format!("kmovw {r},k{mask}"),
            );
            assert_is(
                |asm| asm.mov_r_mmx_signs(a, mask),
                &format!("pmovmskb {r},mm{mask}"),
            );
        }
        for v in 0..32u8 {
            if v < 16 {
                assert_is(
                    |asm| asm.mov_r_signs(a, v, 1),
                    &format!("pmovmskb {r},xmm{v}"),
                );
                assert_is(
                    |asm| asm.mov_r_signs(a, v, 4),
                    &format!("vmovmskps {r},ymm{v}"),
                );
                assert_is(
                    |asm| asm.mov_r_signs(a, v, 8),
                    &format!("vmovmskpd {r},ymm{v}"),
                );
                let at = format!("[{name}+0x12345678]");
                let movups = format!("movups xmmword ptr {at},xmm{v}");
                assert_is(|asm| asm.mov_mem_xmm(a, FAR, v), &movups);
                let movdqu = format!("vmovdqu ymmword ptr {at},ymm{v}");
                assert_is(|asm| asm.mov_mem_vector(a, FAR, v, false), &movdqu);
            }
            let wide = format!("vmovdqu64 zmmword ptr [{name}+0x12345678],zmm{v}");
            assert_is(|asm| asm.mov_mem_vector(a, FAR, v, true), &wide);
            for (size, vector) in [(16, "xmm"), (32, "ymm"), (64, "zmm")] {
                for element in [1, 2, 4, 8] {
                    let bits = element * 8;
                    let text =
                        format!("vmovdqu{bits} {vector}{v}{{k3}}{{z}},{vector}word ptr [{name}]");
                    let masked = |asm: &mut Asm<'_>| {
                        asm.mov_vector_mem_masked(v, a, 3, [element, size]);
                    };
                    assert_is(masked, &text);
                }
            }
        }
    }
    for v in 0..32u8 {
        let gs = "zmmword ptr gs:[0x12345678]";
        assert_is(
            |asm| asm.mov_gs_vector(FAR, v),
            &format!("vmovdqu64 {gs},zmm{v}"),
        );
        assert_is(
            |asm| asm.mov_vector_gs(v, FAR),
            &format!("vmovdqu64 zmm{v},{gs}"),
        );
    }
}

/// Operands without an encoding: nothing that would be executed.
#[test]
fn impossible_operands_are_refused() {
    type Form = (&'static str, fn(&mut Asm<'_>));
    let forms: [Form; 8] = [
        ("lea_sum", |asm| {
            asm.lea_sum(Reg::Rax, Reg::Rax, Reg::Rsp, 0)
        }),
        ("lea_sum32", |asm| {
            asm.lea_sum32(Reg::Rax, Reg::Rax, Reg::Rsp, 0)
        }),
        ("mov_r32_sum", |asm| {
            asm.mov_r32_sum(Reg::Rax, Reg::Rax, Reg::Rsp, 0)
        }),
        ("lea_any", |asm| {
            asm.lea_any(Reg::Rax, None, Some((Reg::Rsp, 1)), 0, false)
        }),
        ("mov_r32_gs_index4", |asm| {
            asm.mov_r32_gs_index4(Reg::Rax, Reg::Rsp, 0)
        }),
        ("jmp_table", |asm| asm.jmp_table(Reg::Rsp, 0)),
        ("lea32", |asm| asm.lea32(Reg::Rax, Reg::R12, 0)),
        ("mov_mem_xmm", |asm| asm.mov_mem_xmm(Reg::Rax, 0, 16)),
    ];
    for (name, form) in forms {
        let emit = move || {
            let mut bytes = [0; 64];
            let mut asm = Asm::new(&mut bytes, ORIGIN);
            form(&mut asm);
            asm.overflowed()
        };
        // With debug assertions it is a panic.
        assert!(std::panic::catch_unwind(emit).unwrap_or(true), "{name}");
    }
}
