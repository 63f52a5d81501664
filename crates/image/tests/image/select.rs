//! Functions that `--funcs`, `--modules`, `--start-func` and `--stop-func` choose.

use crate::common::compile;
use image::{ExtentFlags, Image, Pattern, Selector};

fn patterns(list: &[&str]) -> Vec<Pattern> {
    list.iter().map(|text| Pattern::new(text)).collect()
}

/// Readable names of the functions whose entry has all `bits`.
fn with(image: &Image, select: &Selector, bits: u32) -> Vec<String> {
    let entries = image.func_entries(select);
    let chosen = entries
        .iter()
        .filter(|entry| entry.flags.has(bits | ExtentFlags::ENTRY));
    chosen
        .map(|entry| image.symbolize(entry.start).name)
        .collect()
}

fn shapes() -> Image {
    let path = compile("g++", &["-O2"], "shapes.cc", "select-shapes");
    Image::open(path).expect("just compiled")
}

fn selected(image: &Image, list: &[&str]) -> Vec<String> {
    let select = Selector {
        functions: patterns(list),
        ..Selector::everything()
    };
    let mut names = with(image, &select, ExtentFlags::SELECTED);
    names.sort();
    names
}

#[test]
fn names_select_in_every_spelling() {
    let image = shapes();
    assert_eq!(selected(&image, &["main"]), ["main"]);
    for spelling in [
        "shapes::checked*",
        "_ZN6shapes7checked*",
        "select-shapes!shapes::checked",
        "select-*!*checked",
    ] {
        let found = selected(&image, &[spelling]);
        assert_eq!(found.len(), 1, "{spelling}: {found:?}");
        assert!(found[0].starts_with("shapes::checked("), "{found:?}");
    }
    let areas = selected(&image, &["shapes::Box<*>::area"]);
    assert_eq!(
        areas,
        [
            "shapes::Box<double>::area() const",
            "shapes::Box<int>::area() const"
        ]
    );
    assert_eq!(
        selected(&image, &["shapes::Box<int>::area() const"]),
        areas[1..]
    );
    assert_eq!(selected(&image, &["biggest<int>", "main"]).len(), 2);
    assert!(selected(&image, &["libc.so.6!main", "nothing"]).is_empty());
}

#[test]
fn modules_start_and_stop_are_marked() {
    let image = shapes();
    let select = Selector {
        functions: Vec::new(),
        modules: vec!["lib*".into()],
        start: patterns(&["main"]),
        stop: patterns(&["shapes::total"]),
    };
    assert!(with(&image, &select, ExtentFlags::SELECTED).is_empty());
    assert_eq!(with(&image, &select, ExtentFlags::START), ["main"]);
    assert_eq!(with(&image, &select, ExtentFlags::STOP).len(), 1);
    let select = Selector {
        modules: vec!["select-shapes".into()],
        ..Selector::everything()
    };
    let all = image.functions().iter();
    let all = all.filter(|extent| extent.kind == image::ExtentKind::Function);
    assert_eq!(
        with(&image, &select, ExtentFlags::SELECTED).len(),
        all.count()
    );
}

#[test]
fn parts_follow_their_function() {
    let image = shapes();
    let select = Selector {
        functions: patterns(&["main"]),
        ..Selector::everything()
    };
    let entries = image.func_entries(&select);
    let part = entries.iter().find(|entry| {
        entry.flags.has(ExtentFlags::PART) && image.symbolize(entry.start).name.contains("main")
    });
    let part = part.expect("gcc moves the handlers of main out of line");
    assert!(part.flags.has(ExtentFlags::SELECTED));
    assert!(!part.flags.has(ExtentFlags::ENTRY));
}

#[test]
fn unknown_names_have_neighbours() {
    let image = shapes();
    let select = Selector {
        functions: patterns(&["main", "mian", "other!main"]),
        ..Selector::everything()
    };
    let known: Vec<bool> = select
        .known_in(&image)
        .iter()
        .map(|known| known.1)
        .collect();
    assert_eq!(known, [true, false, false]);
    assert_eq!(
        image.near_names("mian").first().map(String::as_str),
        Some("main")
    );
    assert_eq!(image.near_names("shapes::totl"), ["shapes::total"]);
    assert_eq!(image.near_names("chekced"), ["shapes::checked"]);
    assert!(image.near_names("completely_different").is_empty());
}
