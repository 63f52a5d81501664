//! Which functions are counted: from `--funcs`, `--modules`, `--start-func` and
//! `--stop-func` to the tables that the engine asks for.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use image::{FuncExtent, Image, Images, Pattern, Selector, split_list};
use launch::Tables;
use wire::FuncEntry;

use crate::flags::Contexts;
use crate::libraries::{self, Walk};
use crate::{line_prefetch, program, vdso};

/// Names offered for an unknown one.
const NEAR: usize = 4;

pub fn selector(flags: &Contexts) -> Selector {
    let patterns = |lists: &[String]| -> Vec<Pattern> {
        lists
            .iter()
            .flat_map(|list| split_list(list))
            .map(Pattern::new)
            .collect()
    };
    Selector {
        functions: patterns(&flags.funcs),
        modules: match flags.main_image_only {
            true => main_image(&flags.target.command[0]),
            false => {
                let lists = flags.modules.iter().flat_map(|list| split_list(list));
                lists.map(Into::into).collect()
            }
        },
        start: flags
            .start_func
            .iter()
            .map(|name| Pattern::new(name))
            .collect(),
        stop: flags
            .stop_func
            .iter()
            .map(|name| Pattern::new(name))
            .collect(),
    }
}

/// The file whose code runs first, of a script its interpreter's; as it is mapped.
fn main_image(command: &OsStr) -> Vec<String> {
    // That there is none is said when it is to be run.
    let elf = program::check(command).map(|path| program::elf_of(&path));
    let path = elf.ok().and_then(|elf| elf.canonicalize().ok());
    path.map(|path| path.to_string_lossy().into_owned())
        .into_iter()
        .collect()
}

/// Programs whose work is to start another one, which may have the function.
const LAUNCHERS: &[&str] = &[
    "ash", "bash", "busybox", "c++", "cargo", "cc", "clang", "clang++", "cmake", "dash", "env",
    "g++", "gcc", "ksh", "make", "nice", "ninja", "nohup", "parallel", "setsid", "sh", "stdbuf",
    "sudo", "taskset", "time", "timeout", "xargs", "zsh",
];

/// Refuses names that no file the program starts with has. Left alone are names
/// with a module, which may be loaded later, and what starts other programs.
pub fn verify(images: &Images, selector: &Selector, path: &Path) -> Result<()> {
    let asked = selector
        .functions
        .iter()
        .chain(&selector.start)
        .chain(&selector.stop);
    let mut unknown: Vec<&Pattern> = asked.filter(|pattern| !has_module(pattern)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let elf = program::elf_of(path);
    if [path, &elf].into_iter().any(is_launcher) {
        return Ok(());
    }
    let closure = libraries::closure(images, &elf);
    for image in &closure.images {
        let known: Vec<&Pattern> = selector
            .known_in(image)
            .into_iter()
            .filter(|known| known.1)
            .map(|known| known.0)
            .collect();
        unknown.retain(|pattern| !known.contains(pattern));
    }
    match unknown.first() {
        Some(pattern) if closure.complete => {
            bail!(
                "{}",
                unknown_sentence(pattern.text(), &elf, &closure.images)
            )
        }
        _ => Ok(()),
    }
}

/// By name, a version at its end apart (`gcc-12`).
fn is_launcher(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '.'));
    LAUNCHERS.contains(&name)
}

fn has_module(pattern: &Pattern) -> bool {
    pattern
        .text()
        .split_once('!')
        .is_some_and(|(module, _)| !module.ends_with("operator"))
}

fn unknown_sentence(name: &str, program: &Path, images: &[Arc<Image>]) -> String {
    let libraries = match images.len().saturating_sub(1) {
        0 => String::new(),
        1 => " or the library it starts with".into(),
        n => format!(" or the {n} libraries it starts with"),
    };
    let mut near: Vec<String> = Vec::new();
    for candidate in images.iter().flat_map(|image| image.near_names(name)) {
        if near.len() < NEAR && !near.contains(&candidate) {
            near.push(candidate);
        }
    }
    let hint = match near.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; did you mean '{only}'?"),
        Some((last, others)) => format!("; did you mean '{}' or '{last}'?", others.join("', '")),
    };
    let stop = if hint.is_empty() { ";" } else { "" };
    format!(
        "no function is named '{name}' in '{}'{libraries}{hint}{stop} \
         to count it wherever it turns up later, write '*!{name}'",
        program.display()
    )
}

/// Answers the engine's question which functions a file holds.
pub struct Extents<'a> {
    images: &'a Arc<Images>,
    selector: &'a Selector,
    /// The vdso has been answered: the engine asks for it before any library.
    begun: bool,
    /// The files the program starts with, as far as they are not answered yet.
    walk: Option<Walk<'a>>,
    /// Images that were read, for their lines; `None`: nobody will ask for lines.
    answered: Option<Vec<Arc<Image>>>,
}

impl<'a> Extents<'a> {
    /// `lines`: whether there will be a report or a recording.
    pub fn new(
        images: &'a Arc<Images>,
        selector: &'a Selector,
        program: &Path,
        lines: bool,
    ) -> Extents<'a> {
        Extents {
            images,
            selector,
            begun: false,
            walk: Some(Walk::new(images, &program::elf_of(program))),
            answered: lines.then(Vec::new),
        }
    }
}

impl Tables for Extents<'_> {
    fn table(&mut self, path: &Path) -> Vec<FuncEntry> {
        let image = match path.as_os_str() == vdso::NAME {
            true => vdso::image().map(Arc::new),
            false => self.images.open(path).ok(),
        };
        let extents = image
            .map(|image| image.func_entries(self.selector))
            .unwrap_or_default();
        extents.into_iter().map(entry).collect()
    }

    fn expected(&mut self) -> Option<PathBuf> {
        if !std::mem::replace(&mut self.begun, true) {
            return Some(vdso::NAME.into());
        }
        let Some(image) = self.walk.as_mut()?.next() else {
            self.walk = None;
            if let Some(images) = self.answered.take() {
                line_prefetch::lines(images);
            }
            return None;
        };
        let path = image.path().to_owned();
        if let Some(answered) = &mut self.answered {
            answered.push(image);
        }
        Some(path)
    }
}

fn entry(extent: FuncExtent) -> FuncEntry {
    FuncEntry {
        start: extent.start.0,
        end: extent.end.0,
        owner: extent.owner.0,
        flags: extent.flags.0,
        reserved: 0,
    }
}
