//! A folder with an edited program and its edited libraries, and how it is started.
//!
//! | file | what |
//! |---|---|
//! | `bin/NAME` | the program |
//! | `lib/SONAME` | its libraries, and theirs |
//! | `dictionary` | of `--tool contexts`: what its numbers say |
//! | `original` | a symbolic link to the program that was edited |
//!
//! Each file looks for libraries in this folder first, by a path relative to its own, so the folder can be moved and the environment
//! says nothing of it. What could not be edited is not in it, and is found where it always was.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};
use edits::loops::Choice;
use flow::Program;
use image::{Image, Images};
use rayon::prelude::*;
use rewrite::{Edited, Refused};

use crate::counter_parts::Parts;
use crate::dictionaries;
use crate::exit_status::Ending;
use crate::flags::{Exec, Rewrite};
use crate::libraries::Walk;
use crate::output::reason;
use crate::rewrite::{Among, PERMISSIONS, edit, explain, has_dictionary};

pub const PROGRAMS: &str = "bin";
pub const LIBRARIES: &str = "lib";
const ORIGINAL: &str = "original";

/// A library that was not edited: its path, and why.
pub type Kept = (PathBuf, String);

/// Edits a program and its libraries into the folder that the options name.
pub fn make(flags: &Rewrite) -> Result<Ending> {
    let folder = &flags.output;
    if folder.symlink_metadata().is_ok() && !is_made_here(folder) {
        bail!(
            "'{}' exists already, and is no folder of `everypath rewrite --libs`",
            folder.display()
        );
    }
    let new = Unfinished::beside(folder);
    for (_, why) in new.fill(flags, false, None)? {
        say!("everypath: {why}; it is used as it is");
    }
    new.finish(folder)?;
    Ok(Ending::Exit(0))
}

/// Places of the program and of its libraries in the folder.
fn places(name: &OsStr, libraries: &[(OsString, &Image)]) -> Vec<PathBuf> {
    let program = [Path::new(PROGRAMS).join(name)].into_iter();
    let libraries = libraries.iter();
    let libraries = libraries.map(|(name, _)| Path::new(LIBRARIES).join(name));
    program.chain(libraries).collect()
}

/// Parts of the files of a folder, at `places` in it, in the memory of counters, if the tool counts.
fn parts(
    flags: &Rewrite,
    program: &Path,
    libraries: &[(OsString, &Image)],
    places: &[PathBuf],
) -> Result<Parts> {
    if edits::tool(&flags.tool).is_none_or(|tool| tool.counters == edits::Counters::None) {
        return Ok(Parts::default());
    }
    let folder = std::path::absolute(&flags.output)?;
    let image = Image::open(program).map_err(|error| anyhow!("{error}"))?;
    let images = [&image].into_iter();
    let images = images.chain(libraries.iter().map(|(_, image)| *image));
    let paths = places.iter().map(|place| folder.join(place));
    Parts::new(&images.zip(paths).collect::<Vec<_>>(), flags)
}

/// The names that libraries have in the folder; of two with one name the first. The dynamic linker, which the program names by
/// a path of its own, is none of them.
fn named(libraries: &[Arc<Image>]) -> Vec<(OsString, &Image)> {
    let mut named: Vec<(OsString, &Image)> = Vec::new();
    for library in libraries {
        let name = match (library.soname(), library.path().file_name()) {
            (Some(soname), _) => OsString::from(soname),
            (None, Some(name)) => name.to_owned(),
            (None, None) => continue,
        };
        let is_known = named.iter().any(|(known, _)| *known == name);
        if !is_known && !is_linker(&name) {
            named.push((name, library));
        }
    }
    named
}

/// Libraries that a program needs, and those that were named, with what these need.
fn libraries(flags: &Rewrite, program: &Path) -> Result<Vec<Arc<Image>>> {
    let images = Images::new();
    let mut libraries: Vec<_> = Walk::new(&images, program).skip(1).collect();
    for path in &flags.also {
        let also = Walk::new(&images, &std::path::absolute(path)?).collect::<Vec<_>>();
        if also.is_empty() {
            bail!("'{}' is no library", path.display());
        }
        libraries.extend(also);
    }
    Ok(libraries)
}

/// Paths of the libraries that are edited with a program.
pub fn library_paths(flags: &Rewrite) -> Result<Vec<PathBuf>> {
    let program = std::path::absolute(&flags.file)?;
    let libraries = libraries(flags, &program)?;
    let named = named(&libraries).into_iter();
    Ok(named.map(|(_, image)| image.path().to_owned()).collect())
}

/// Nests that are followed, by the file's absolute path; other libraries are not edited.
pub type Choices = BTreeMap<PathBuf, Choice>;

/// A folder that goes unless it has got its name.
pub struct Unfinished(PathBuf);

impl Unfinished {
    pub fn beside(folder: &Path) -> Unfinished {
        let mut new = folder.as_os_str().to_owned();
        new.push(format!(".new-{}", std::process::id()));
        Unfinished(PathBuf::from(new))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the edited files; gives the libraries that could not be edited. `beside`: as [`Among::beside`].
    pub fn fill(
        &self,
        flags: &Rewrite,
        beside: bool,
        choices: Option<&Choices>,
    ) -> Result<Vec<Kept>> {
        let cannot = |error: std::io::Error| cannot_write(&flags.output, &error);
        let program = std::path::absolute(&flags.file)?;
        let Some(name) = program.file_name() else {
            bail!("'{}' is no program", flags.file.display());
        };
        for inner in ["", PROGRAMS, LIBRARIES] {
            fs::create_dir(self.0.join(inner)).map_err(cannot)?;
        }
        symlink(&program, self.0.join(ORIGINAL)).map_err(cannot)?;
        let libraries = libraries(flags, &program)?;
        let mut named = named(&libraries);
        let is_chosen = |path: &Path| choices.is_none_or(|choices| choices.contains_key(path));
        named.retain(|(_, library)| is_chosen(library.path()));
        let places = places(name, &named);
        let parts = parts(flags, &program, &named, &places)?;
        // Writes the file of a number, which is 0 for the program, and 1 for the first library.
        let dictionary = Mutex::new(BTreeMap::new());
        let write = |from: &Path, number: usize, search| -> Result<Made> {
            let loops = choices.map(|choices| choices.get(from).context("no nests are chosen"));
            let to = self.0.join(&places[number]);
            let among = Among {
                libraries: search,
                part: parts.of(number),
                base: parts.base_of(number),
                beside,
                loops: loops.transpose()?,
            };
            let (edited, functions) = edit(flags, from, among)?;
            fs::write(&to, &edited.bytes).map_err(cannot)?;
            if has_dictionary(flags) {
                let own = dictionaries::of(&edited, from, &to)?;
                let mut all = dictionary.lock().unwrap_or_else(PoisonError::into_inner);
                all.insert(number, own);
            }
            let mode = fs::metadata(from).map_err(cannot)?.permissions().mode();
            fs::set_permissions(&to, Permissions::from_mode(mode & PERMISSIONS)).map_err(cannot)?;
            Ok(flags.explain.then_some((edited, functions)))
        };
        // A program without libraries looks for none.
        let search = (!named.is_empty()).then_some("$ORIGIN/../lib");
        show(&program, write(&program, 0, search)?);
        // All processors edit; what they say comes in the order of the libraries.
        let paths = named.par_iter().map(|(_, library)| library.path());
        let write_one = |(number, path)| (path, write(path, 1 + number, Some("$ORIGIN")));
        let made = flow::with_processors(|| paths.enumerate().map(write_one).collect::<Vec<_>>());
        let kept = shown(made)?;
        if has_dictionary(flags) {
            let all = dictionary.into_inner();
            let all = all.unwrap_or_else(PoisonError::into_inner);
            let files: Vec<_> = all.into_values().collect();
            dictionaries::write(&self.0.join(dictionaries::ENDING), &files)?;
        }
        Ok(kept)
    }

    /// Gives it its name, in the place of one that was made before.
    pub fn finish(self, folder: &Path) -> Result<()> {
        let cannot = |error: std::io::Error| cannot_write(folder, &error);
        if folder.exists() {
            fs::remove_dir_all(folder).map_err(cannot)?;
        }
        fs::rename(&self.0, folder).map_err(cannot)
    }
}

fn cannot_write(folder: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow!("cannot write '{}': {}", folder.display(), reason(error))
}

/// A file that was edited, as far as it is to be shown.
type Made = Option<(Edited, Program)>;

/// Says what was added to libraries, if that is wanted; gives those that could not be edited.
fn shown(made: Vec<(&Path, Result<Made>)>) -> Result<Vec<Kept>> {
    let mut kept = Vec::new();
    for (path, made) in made {
        match made {
            Ok(made) => show(path, made),
            // It would write to the register by which the others find their counters.
            Err(error) if error.downcast_ref() == Some(&Refused::UsesGs) => return Err(error),
            Err(error) => kept.push((path.to_owned(), format!("{error:#}"))),
        }
    }
    Ok(kept)
}

/// Says what was added to a file, if that is wanted.
fn show(from: &Path, made: Made) {
    if let Some((edited, functions)) = made {
        say!("everypath: {}", from.display());
        explain(&edited, &functions);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // After it was renamed, there is none of this name.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn is_linker(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("ld-linux") || name.starts_with("ld-musl")
}

fn is_made_here(folder: &Path) -> bool {
    folder.join(PROGRAMS).is_dir() && fs::read_link(folder.join(ORIGINAL)).is_ok()
}

/// Starts the program of such a folder in the place of this process.
pub fn exec(flags: &Exec) -> Result<Ending> {
    let shown = flags.folder.display();
    if !is_made_here(&flags.folder) {
        bail!("'{shown}' is no folder of `everypath rewrite --libs`");
    }
    let original = fs::read_link(flags.folder.join(ORIGINAL))?;
    let name = original.file_name().context("the original has a name")?;
    let program = std::path::absolute(flags.folder.join(PROGRAMS).join(name))?;
    // Programs find their own files by the name that they are called by.
    let mut command = Command::new(&program);
    command.arg0(&original).args(&flags.arguments);
    launch::restore_signals(&mut command);
    let error = command.exec();
    bail!("cannot start '{}': {}", program.display(), reason(&error));
}
