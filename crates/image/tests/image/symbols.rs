//! Every function other tools see is an extent here, under the same names.

use crate::common;

use std::path::{Path, PathBuf};

use crate::common::{Func, compile, frames, funcs, run, scratch, text};
use image::{ExtentFlags, ExtentKind, FileOffset, Image, LinkAddr, Selector};

fn at(image: &Image, addr: u64) -> FileOffset {
    image
        .file_offset(LinkAddr(addr))
        .unwrap_or_else(|| panic!("{addr:#x} of {} is in no segment", image.path().display()))
}

/// The name that an IFUNC symbol's own code has here: it chooses, and is not what is chosen.
fn resolver(symbol: &Func) -> String {
    format!("{} [resolver]", symbol.name)
}

/// Compares an image with the symbols `readelf` lists; returns how many.
fn agree(image: &Image, symbols: &[Func]) -> usize {
    for symbol in symbols {
        let start = image.file_offset(LinkAddr(symbol.addr));
        let found = start.and_then(|start| image.function_at(start));
        let (Some(start), Some(found)) = (start, found) else {
            // A label at the end of its section names no code.
            assert_eq!(symbol.size, 0, "{symbol:?} has no extent");
            continue;
        };
        if found.start != start && symbol.size == 0 && symbol.name.contains("etext") {
            continue;
        }
        assert_eq!(
            found.start, start,
            "{symbol:?} does not begin its extent {found:?}"
        );
        let aliases: Vec<&str> = image.aliases(found).collect();
        assert!(
            aliases.contains(&symbol.name.as_str()) || aliases.contains(&resolver(symbol).as_str()),
            "{symbol:?} is not among {aliases:?}"
        );
        let part = aliases.iter().all(|name| name.contains(".cold"));
        let kind = if part {
            ExtentKind::Part
        } else {
            ExtentKind::Function
        };
        assert_eq!(found.kind, kind, "{symbol:?}");
        ends_right(image, symbol, start);
    }
    disjoint(image);
    symbols.len()
}

/// All bytes of a sized symbol are its own, or those of a function inside it.
fn ends_right(image: &Image, symbol: &Func, start: FileOffset) {
    if symbol.size == 0 {
        return;
    }
    let last = FileOffset(start.0 + symbol.size - 1);
    let found = image.function_at(last).unwrap_or_else(|| {
        panic!("the last byte of {symbol:?} is in no extent");
    });
    let inner = found.owner >= start || found.kind == ExtentKind::Part;
    assert!(inner, "the last byte of {symbol:?} belongs to {found:?}");
}

fn disjoint(image: &Image) {
    for pair in image.functions().windows(2) {
        assert!(pair[0].start < pair[0].end, "{:?} is empty", pair[0]);
        assert!(pair[0].end <= pair[1].start, "{pair:?} overlap");
    }
    for extent in image.functions() {
        let owner = image
            .function_at(extent.owner)
            .expect("an owner is an extent");
        assert_eq!(owner.start, extent.owner, "{extent:?}");
        assert_ne!(owner.kind, ExtentKind::Part, "{extent:?}");
    }
}

fn open(path: &Path) -> Image {
    Image::open(path).unwrap_or_else(|error| panic!("{error}"))
}

fn cc1() -> PathBuf {
    PathBuf::from(run("gcc", &["-print-prog-name=cc1"]).trim())
}

fn libc() -> PathBuf {
    let path = run("gcc", &["-print-file-name=libc.so.6"]);
    std::fs::canonicalize(path.trim()).expect("libc.so.6 must exist")
}

/// The names shown for the functions one of whose names is `name`.
fn names_of(image: &Image, name: &str) -> Vec<String> {
    let all = image.functions().iter();
    let found = all.filter(|extent| image.aliases(extent).any(|alias| alias == name));
    found
        .map(|extent| image.name(extent.name.expect("named")).to_owned())
        .collect()
}

fn function<'i>(image: &'i Image, name: &str) -> &'i image::Function {
    let mut all = image.functions().iter();
    all.find(|extent| image.aliases(extent).any(|alias| alias == name))
        .unwrap_or_else(|| panic!("no function '{name}' in {}", image.path().display()))
}

#[test]
fn system_binaries_agree_with_readelf() {
    for (path, least) in [
        (libc(), 2000),
        (PathBuf::from("/usr/bin/python3"), 1000),
        (cc1(), 20_000),
        (PathBuf::from("/lib64/ld-linux-x86-64.so.2"), 20),
    ] {
        let image = open(&path);
        let mut symbols = funcs(&path);
        symbols.extend(image.debug_file().map(funcs).unwrap_or_default());
        assert!(agree(&image, &symbols) >= least, "{}", path.display());
    }
}

/// Files are opened without their code and constants; nothing may miss them.
#[test]
fn what_is_left_out_of_a_file_changes_nothing() {
    let said = |image: &Image| {
        let function = |function: &image::Function| {
            let names: Vec<&str> = image.aliases(function).collect();
            format!("{function:?} {names:?}")
        };
        let functions: Vec<String> = image.functions().iter().map(function).collect();
        let kind = (image.kind(), image.entry(), image.size());
        let rest = (image.build_id(), image.interpreter(), image.needed());
        (functions, format!("{kind:?} {rest:?}"))
    };
    for path in [cc1(), libc(), "/bin/bash".into(), "/usr/bin/node".into()] {
        let whole = Image::from_bytes(std::fs::read(&path).unwrap(), &path).unwrap();
        let (opened, whole) = (said(&open(&path)), said(&whole));
        assert_eq!(opened.1, whole.1, "{}", path.display());
        assert_eq!(opened.0.len(), whole.0.len(), "{}", path.display());
        for (opened, whole) in opened.0.iter().zip(&whole.0) {
            assert_eq!(opened, whole, "{}", path.display());
        }
    }
}

#[test]
fn programs_of_every_kind_agree_with_readelf() {
    for (compiler, flags, source, name) in [
        ("gcc", &["-O2"][..], "plain.c", "plain"),
        ("gcc", &["-O2", "-no-pie"], "plain.c", "plain-fixed"),
        ("gcc", &["-O2", "-static"], "plain.c", "plain-static"),
        (
            "gcc",
            &["-O2", "-static-pie"],
            "plain.c",
            "plain-static-pie",
        ),
        ("musl-gcc", &["-O2"], "plain.c", "plain-musl"),
        (
            "musl-gcc",
            &["-O2", "-static"],
            "plain.c",
            "plain-musl-static",
        ),
        ("g++", &["-O2"], "shapes.cc", "shapes"),
        ("g++", &["-O2", "-static"], "shapes.cc", "shapes-static"),
        ("rustc", &["-O"], "small.rs", "small-rust"),
        (
            "rustc",
            &["-Csymbol-mangling-version=v0"],
            "small.rs",
            "small-rust-v0",
        ),
    ] {
        let path = compile(compiler, flags, source, name);
        let image = open(&path);
        assert!(agree(&image, &funcs(&path)) > 10, "{name}");
        function(&image, "main");
        let start = function(&image, "_start");
        assert_eq!(start.start, at(&image, image.entry().0), "{name}");
        assert_eq!(start.kind, ExtentKind::Function, "{name}");
    }
}

#[test]
fn go_programs_agree_with_readelf() {
    let path = scratch("small-go");
    run(
        "go",
        &["build", "-o", text(&path), &common::source("small.go")],
    );
    let image = open(&path);
    assert!(agree(&image, &funcs(&path)) > 1000);
    assert!(image.is_static());
    let fib = function(&image, "main.fib");
    assert_eq!(image.symbolize(fib.start).name, "main.fib");
    assert_eq!(names_of(&image, "main.(*counter).add").len(), 1);
}

/// Go's own table has what the symbol table and DWARF of the same program have.
#[test]
fn stripped_go_programs_have_names_and_lines() {
    let source = common::source("small.go");
    for mode in ["-buildmode=exe", "-buildmode=pie"] {
        let (whole, bare) = (scratch("go-whole"), scratch("go-bare"));
        let build =
            |out: &Path, flags| run("go", &["build", mode, flags, "-o", text(out), &source]);
        build(&whole, "-ldflags=");
        build(&bare, "-ldflags=-s -w");
        let symbols = funcs(&whole);
        assert!(
            funcs(&bare)
                .iter()
                .all(|symbol| !symbol.name.starts_with("main."))
        );
        let (whole, bare) = (open(&whole), open(&bare));
        let mut named = 0;
        // Assembly and the C start-up code are in the symbol table alone.
        let of_go =
            |symbol: &&Func| symbol.name.starts_with("main.") || symbol.name.starts_with("fmt.");
        for symbol in symbols.iter().filter(of_go) {
            let at = at(&bare, symbol.addr);
            let found = bare.function_at(at).expect("a function");
            assert_eq!(found.start, at, "{symbol:?}");
            assert_eq!(bare.name(found.name.expect("a name")), symbol.name);
            named += 1;
            for offset in 0..symbol.size {
                let at = FileOffset(at.0 + offset);
                assert_eq!(
                    bare.line_at(at),
                    whole.line_at(at),
                    "{symbol:?}+{offset:#x}"
                );
            }
        }
        assert!(named > 40, "{named}");
        let lines = bare.line_table();
        let main = lines
            .files
            .iter()
            .position(|file| file.ends_with("/small.go"));
        let main = main.expect("the program's own file") as u32;
        let own = lines.ranges.iter().filter(|range| range.file == main);
        let own: std::collections::BTreeSet<u32> = own.map(|range| range.line).collect();
        assert!(
            [8, 12, 13, 15, 19, 20]
                .iter()
                .all(|line| own.contains(line)),
            "{own:?}"
        );
    }
}

#[test]
fn c_start_up_functions_are_right() {
    let image = open(&compile("gcc", &["-O2"], "plain.c", "plain-crt"));
    for name in [
        "_init",
        "_fini",
        "_start",
        "deregister_tm_clones",
        "register_tm_clones",
        "__do_global_dtors_aux",
        "frame_dummy",
        "before_main",
        "after_main",
    ] {
        let found = function(&image, name);
        assert_eq!(found.kind, ExtentKind::Function, "{name}");
        assert_eq!(image.symbolize(found.start).name, name);
    }
    let plts = image
        .functions()
        .iter()
        .filter(|extent| extent.kind == ExtentKind::Plt);
    assert!(plts.count() >= 1);
}

#[test]
fn one_address_shows_the_name_a_person_would_use() {
    let image = open(&compile("gcc", &["-O2"], "plain.c", "plain-alias"));
    assert_eq!(names_of(&image, "__real_work"), ["work"]);
    let libc = open(&libc());
    assert_eq!(names_of(&libc, "_IO_puts"), ["puts"]);
    assert_eq!(names_of(&libc, "__write"), ["write"]);
}

#[test]
fn hand_written_assembly_keeps_its_functions() {
    let path = compile("gcc", &["-nostdlib", "-static"], "bare.s", "bare");
    let image = open(&path);
    let starts: Vec<&str> = image
        .functions()
        .iter()
        .map(|extent| image.name(extent.name.expect("all are named")))
        .collect();
    assert_eq!(starts, ["_start", "untyped", "typed", "global_tail"]);
    assert_eq!(function(&image, "typed").size(), 6);
    assert_eq!(function(&image, "untyped").size(), 6);
}

#[test]
fn a_stripped_program_has_all_its_unwind_ranges() {
    let full = compile("g++", &["-O2"], "shapes.cc", "shapes-full");
    let path = scratch("shapes-stripped");
    run("strip", &["-o", text(&path), text(&full)]);
    let (image, named) = (open(&path), open(&full));
    let plt = |offset| {
        image
            .function_at(offset)
            .is_some_and(|e| e.kind == ExtentKind::Plt)
    };
    for (start, end) in frames(&path) {
        let start = at(&image, start);
        if plt(start) {
            continue;
        }
        let found = image.function_at(start).expect("an extent");
        assert_eq!(found.start, start);
        assert_eq!(found.end, at(&image, end - 1).next());
    }
    for name in ["_start", "_init", "_fini"] {
        assert_eq!(function(&image, name).start, function(&named, name).start);
    }
    disjoint(&image);
    owners_agree(&image, &named, 1);
}

trait Next {
    fn next(self) -> Self;
}

impl Next for FileOffset {
    fn next(self) -> FileOffset {
        FileOffset(self.0 + 1)
    }
}

/// Unnamed parts belong to the function that names say.
fn owners_agree(stripped: &Image, named: &Image, least: usize) {
    let parts = stripped.functions().iter();
    let parts = parts.filter(|extent| extent.kind == ExtentKind::Part);
    let mut right = 0;
    let mut wrong = Vec::new();
    for part in parts {
        let Some(known) = named.function_at(part.start) else {
            continue;
        };
        if known.owner == part.owner {
            right += 1;
        } else {
            wrong.push((part.start, part.owner, known.owner));
        }
    }
    assert!(right >= least, "only {right} parts");
    // Entered through another part, or by a table.
    assert!(
        wrong.len() * 20 <= right,
        "{right} right, wrong: {wrong:x?}"
    );
}

#[test]
fn parts_of_a_stripped_libc_find_their_functions() {
    let path = scratch("libc-stripped.so.6");
    let libc = libc();
    run(
        "objcopy",
        &[
            "-R",
            ".note.gnu.build-id",
            "-R",
            ".gnu_debuglink",
            text(&libc),
            text(&path),
        ],
    );
    let named = open(&libc);
    assert!(
        named.debug_file().is_some(),
        "this test needs libc's symbols: install libc6-dbg"
    );
    owners_agree(&open(&path), &named, 60);
}

#[test]
fn a_file_without_section_headers_is_read_through_its_segments() {
    let full = compile("gcc", &["-O2", "-rdynamic"], "plain.c", "plain-rdynamic");
    let mut bytes = std::fs::read(&full).expect("just compiled");
    // e_shoff, e_shnum and e_shstrndx of the 64-bit header.
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
    let image = Image::parse(&bytes).expect("the kernel would run it");
    for name in ["main", "guarded", "_start"] {
        assert_eq!(
            function(&image, name).start,
            function(&open(&full), name).start
        );
    }
    for (start, _) in frames(&full) {
        let start = at(&image, start);
        assert!(image.function_at(start).is_some());
    }
}

#[test]
fn the_lazy_resolver_is_mute_with_and_without_names() {
    let linker = PathBuf::from("/lib64/ld-linux-x86-64.so.2");
    let path = scratch("ld-stripped.so.2");
    run(
        "objcopy",
        &[
            "-R",
            ".note.gnu.build-id",
            "-R",
            ".gnu_debuglink",
            text(&linker),
            text(&path),
        ],
    );
    for path in [linker, path] {
        let entries = open(&path).func_entries(&Selector::everything());
        let mute = entries
            .iter()
            .filter(|entry| entry.flags.has(ExtentFlags::MUTE));
        let mute = mute.filter(|entry| entry.flags.has(ExtentFlags::ENTRY));
        assert!(mute.count() >= 3, "{}", path.display());
    }
}

#[test]
fn headers_agree_with_readelf() {
    for path in [libc(), cc1(), PathBuf::from("/usr/bin/python3")] {
        let image = open(&path);
        let notes = run("readelf", &["-nW", text(&path)]);
        let id = image.build_id().expect("Debian builds have ids");
        let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(notes.contains(&hex), "{hex}");
        let dynamic = run("readelf", &["-dW", text(&path)]);
        let needed = dynamic.matches("(NEEDED)").count();
        assert_eq!(image.needed().len(), needed);
        for name in image.needed() {
            assert!(dynamic.contains(&format!("[{name}]")));
        }
        assert_eq!(image.interpreter(), Some("/lib64/ld-linux-x86-64.so.2"));
        assert!(!image.is_static());
        assert_eq!(image.missing_bytes(), 0);
    }
}

#[test]
fn the_vdso_is_an_image() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let line = maps.lines().find(|line| line.ends_with("[vdso]"));
    let range = line.expect("this kernel maps a vdso").split(' ').next();
    let (start, end) = range
        .and_then(|range| range.split_once('-'))
        .expect("a range");
    let hex = |text| u64::from_str_radix(text, 16).expect("hex");
    let mut bytes = vec![0; (hex(end) - hex(start)) as usize];
    let memory = std::fs::File::open("/proc/self/mem").expect("procfs");
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, hex(start)).expect("readable");
    let image = Image::parse(&bytes).expect("the vdso is ELF");
    let time = function(&image, "__vdso_clock_gettime");
    assert_eq!(image.symbolize(time.start).name, "clock_gettime");
    assert!(image.build_id().is_some());
}

/// The symbols of a stripped file that keeps them compressed inside, as Fedora's do; and a damaged one has none.
#[test]
fn symbols_inside_the_file_are_found() {
    let whole = compile("gcc", &["-O1"], "plain.c", "inside-whole");
    let symbols = funcs(&whole);
    let [inner, packed, stripped, with, damaged] = [
        "inside-inner",
        "inside-inner.xz",
        "inside-stripped",
        "inside-with",
        "inside-damaged",
    ]
    .map(scratch);
    let debug = "--only-keep-debug";
    run("objcopy", &[debug, text(&whole), text(&inner)]);
    run("xz", &["-kf", text(&inner)]);
    run("strip", &["-o", text(&stripped), text(&whole)]);
    let add = |data: &Path, to: &Path| {
        let section = format!(".gnu_debugdata={}", text(data));
        let options = ["--add-section", &section, text(&stripped), text(to)];
        run("objcopy", &options);
        Image::open(to).unwrap()
    };
    agree(&add(&packed, &with), &symbols);
    let mut bytes = std::fs::read(&packed).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..].fill(0xaa);
    std::fs::write(&packed, bytes).unwrap();
    let image = add(&packed, &damaged);
    let known = |symbol: &&Func| {
        let found = image.function_at(at(&image, symbol.addr));
        found.is_some_and(|found| image.aliases(found).any(|name| name == symbol.name))
    };
    let local = symbols.iter().filter(known).count();
    assert!(local < symbols.len() / 2, "{local} of {}", symbols.len());
}
