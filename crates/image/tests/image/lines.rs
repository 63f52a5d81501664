//! Names, files and lines as binutils gives them.

use std::path::Path;

use crate::common::{compile, run, scratch, text};
use image::{ExtentKind, FileOffset, Image, Images, fallback_name};

fn open(path: &Path) -> Image {
    Image::open(path).unwrap_or_else(|error| panic!("{error}"))
}

/// Some bytes of code: the first and one in the middle of many functions.
fn samples(image: &Image, most: usize) -> Vec<FileOffset> {
    let functions = image.functions().iter();
    let functions = functions.filter(|extent| extent.kind != ExtentKind::Plt);
    let step = image.functions().len() / most + 1;
    let both =
        |extent: &image::Function| [extent.start, FileOffset(extent.start.0 + extent.size() / 2)];
    functions.step_by(step).flat_map(both).collect()
}

/// Share of samples, in percent, whose file and line `addr2line` confirms.
fn agreement(image: &Image, dwarf: &Path, most: usize) -> usize {
    let samples = samples(image, most);
    let addrs: Vec<String> = samples
        .iter()
        .map(|&offset| format!("{:x}", image.link_addr(offset).expect("mapped").0))
        .collect();
    let mut args = vec!["-e", text(dwarf)];
    args.extend(addrs.iter().map(String::as_str));
    let answer = run("addr2line", &args);
    let same = samples.iter().zip(answer.lines()).filter(|(offset, line)| {
        let symbol = image.symbolize(**offset);
        let theirs = line.split(" (").next().unwrap_or(line);
        let (file, number) = theirs.rsplit_once(':').expect("file:line");
        let number: Option<u32> = number.parse().ok().filter(|&number| number != 0);
        let ours = symbol.line.filter(|&number| number != 0);
        let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        ours == number && (number.is_none() || symbol.file.as_deref().map(base) == Some(base(file)))
    });
    same.count() * 100 / samples.len()
}

#[test]
fn lines_of_a_template_program_are_those_of_addr2line() {
    let path = compile("g++", &["-O2", "-g"], "shapes.cc", "lines-shapes");
    assert!(agreement(&open(&path), &path, 1000) >= 97);
}

#[test]
fn lines_of_libc_come_from_its_debug_file() {
    let libc = run("gcc", &["-print-file-name=libc.so.6"]);
    let image = open(libc.trim().as_ref());
    let debug = image.debug_file().expect("this test needs libc6-dbg");
    let agreement = agreement(&image, debug, 300);
    // addr2line and the crate differ on code that many lines share.
    assert!(agreement >= 90, "{agreement} of 100");
}

#[test]
fn lines_of_a_rust_program_are_those_of_addr2line() {
    let path = compile("rustc", &["-g"], "small.rs", "lines-rust");
    assert!(agreement(&open(&path), &path, 300) >= 95);
}

#[test]
fn a_debug_link_leads_to_the_debug_file() {
    let path = compile(
        "g++",
        &["-O2", "-g", "-Wl,--build-id=none"],
        "shapes.cc",
        "linked",
    );
    let debug = scratch("linked.debug");
    run("objcopy", &["--only-keep-debug", text(&path), text(&debug)]);
    run("objcopy", &["--compress-debug-sections=zlib", text(&debug)]);
    let expected = open(&path);
    let stripped = scratch("linked-stripped");
    let link = format!("--add-gnu-debuglink={}", text(&debug));
    run(
        "objcopy",
        &["--strip-all", &link, text(&path), text(&stripped)],
    );
    let image = open(&stripped);
    assert_eq!(image.debug_file(), Some(debug.as_path()));
    assert_eq!(image.functions().len(), expected.functions().len());
    for offset in samples(&expected, 100) {
        assert_eq!(image.symbolize(offset), expected.symbolize(offset));
    }
    // A debug file of another build is refused.
    std::fs::copy(&path, &debug).expect("writable");
    assert_eq!(open(&stripped).debug_file(), None);
}

#[test]
fn demangled_names_are_those_of_binutils() {
    // Without parameters, which the demangler crate abbreviates (std::string)
    // and sometimes gets wrong.
    let (mut wrong, mut all) = (Vec::new(), 0);
    for (compiler, flags, from, name) in [("g++", &["-O2"][..], "shapes.cc", "names-shapes")] {
        let path = compile(compiler, flags, from, name);
        let image = open(&path);
        let raw: Vec<String> = image
            .functions()
            .iter()
            .filter_map(|extent| Some(image.name(extent.name?).to_owned()))
            // Clones (`.cold`, `_ZGTt`) have no parameters to leave out.
            .filter(|name| {
                name.starts_with("_Z") && !name.contains('.') && !name.starts_with("_ZGT")
            })
            .collect();
        let list = scratch(&format!("{name}.txt"));
        std::fs::write(&list, raw.join("\n")).expect("writable");
        let theirs = run("c++filt", &["-p", &format!("@{}", text(&list))]);
        all += raw.len();
        for (raw, theirs) in raw.iter().zip(theirs.lines()) {
            let ours = image::demangle_short(raw).unwrap_or_else(|| raw.clone());
            // Theirs may begin with a return type.
            if !theirs.ends_with(&ours) {
                wrong.push((raw.clone(), ours, theirs.to_owned()));
            }
        }
    }
    assert!(
        wrong.len() * 50 <= all,
        "{} of {all}: {wrong:#?}",
        wrong.len()
    );
}

#[test]
fn code_without_a_name_is_called_by_its_module() {
    let full = compile("gcc", &["-O2"], "plain.c", "nameless-full");
    let path = scratch("nameless");
    run("strip", &["-o", text(&path), text(&full)]);
    let (image, named) = (open(&path), open(&full));
    let main = named
        .functions()
        .iter()
        .find(|extent| named.aliases(extent).any(|name| name == "main"));
    let start = main.expect("main").start;
    let symbol = image.symbolize(FileOffset(start.0 + 3));
    assert_eq!(symbol.name, fallback_name(&path, start));
    assert_eq!(symbol.name, format!("nameless+{:#x}", start.0));
    assert_eq!((symbol.offset, symbol.raw_name), (3, None));
}

#[test]
fn one_file_is_opened_once_until_it_changes() {
    let first = compile("gcc", &["-O2"], "plain.c", "cached");
    let images = Images::new();
    let one = images.open(&first).expect("compiled");
    let two = images.open(&first).expect("compiled");
    assert!(std::ptr::eq(&*one, &*two));
    let other = compile("gcc", &["-nostdlib", "-static"], "bare.s", "cached-other");
    std::fs::copy(other, &first).expect("writable");
    let three = images.open(&first).expect("replaced");
    assert!(!std::ptr::eq(&*one, &*three));
    assert!(images.open("/nonexistent").is_err());
}

/// The end of a function may have a row at the address of the next one, as those of glibc's malloc have.
#[test]
fn a_function_has_its_own_first_line() {
    const TEXT: &str = r#"
        .file 1 "two.c"
        .text
        .globl first, second
        .type first, @function
first:  .loc 1 10 1 view -0
        nop
        .loc 1 11 3 is_stmt 1 view .LVU1
        ret
        .loc 1 12 3 is_stmt 1 view .LVU2
        .size first, .-first
        .type second, @function
second: .loc 1 20 1 is_stmt 1 view -0
        .loc 1 7 3 is_stmt 1 view .LVU3
        ret
        .size second, .-second
        .section .note.GNU-stack,"",@progbits
"#;
    let source = scratch("two.s");
    std::fs::write(&source, TEXT).unwrap();
    let library = compile("gcc", &["-shared"], text(&source), "two.so");
    let image = open(&library);
    let start = |name: &str| {
        let found = image.functions().iter();
        let mut found = found.filter(|function| image.aliases(function).any(|alias| alias == name));
        found.next().expect(name).start
    };
    for (name, line) in [("first", 10), ("second", 20)] {
        let at = start(name);
        let found = image.declarations(&[at]);
        assert_eq!(found[&at].1, line, "{name}");
    }
    // What is executed there is another matter.
    assert_eq!(image.line_at(start("second")).1, Some(7));
}
