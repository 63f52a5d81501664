//! A folder with an edited program and its edited libraries, and how it is started.
//!
//! | file | what |
//! |---|---|
//! | `bin/NAME` | the program |
//! | `lib/SONAME` | its libraries, and theirs |
//! | `original` | a symbolic link to the program that was edited |
//!
//! Each file looks for libraries in this folder first, by a path relative to its own, so the folder can be moved and the environment
//! says nothing of it. What could not be edited is not in it, and is found where it always was.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use flow::Program;
use image::{Image, Images};
use rayon::prelude::*;
use rewrite::Edited;

use crate::exit_status::Ending;
use crate::flags::{Exec, Rewrite};
use crate::libraries::Walk;
use crate::output::reason;
use crate::rewrite::{PERMISSIONS, edit, explain};

const PROGRAMS: &str = "bin";
const LIBRARIES: &str = "lib";
const ORIGINAL: &str = "original";

/// Edits a program and its libraries into a folder.
pub fn make(flags: &Rewrite) -> Result<Ending> {
    let folder = &flags.output;
    if folder.symlink_metadata().is_ok() && !is_made_here(folder) {
        bail!(
            "'{}' exists already, and is no folder of `everypath rewrite --libs`",
            folder.display()
        );
    }
    let program = std::path::absolute(&flags.file)?;
    let Some(name) = program.file_name() else {
        bail!("'{}' is no program", flags.file.display());
    };
    let mut new = folder.clone().into_os_string();
    new.push(format!(".new-{}", std::process::id()));
    let new = Unfinished(PathBuf::from(new));
    let cannot =
        |error: std::io::Error| anyhow!("cannot write '{}': {}", folder.display(), reason(&error));
    fs::create_dir(&new.0).map_err(cannot)?;
    for inner in [PROGRAMS, LIBRARIES] {
        fs::create_dir(new.0.join(inner)).map_err(cannot)?;
    }
    symlink(&program, new.0.join(ORIGINAL)).map_err(cannot)?;
    let write = |from: &Path, to: &Path, search: &str| -> Result<Option<(Edited, Program)>> {
        let (edited, functions) = edit(flags, from, Some(search))?;
        fs::write(to, &edited.bytes).map_err(cannot)?;
        let mode = fs::metadata(from).map_err(cannot)?.permissions().mode();
        fs::set_permissions(to, Permissions::from_mode(mode & PERMISSIONS)).map_err(cannot)?;
        Ok(flags.explain.then_some((edited, functions)))
    };
    let show = |from: &Path, made: Option<(Edited, Program)>| {
        if let Some((edited, functions)) = made {
            say!("everypath: {}", from.display());
            explain(&edited, &functions);
        }
    };
    let to = new.0.join(PROGRAMS).join(name);
    show(&program, write(&program, &to, "$ORIGIN/../lib")?);
    let libraries = libraries(flags, &program)?;
    let named = named(&libraries);
    // All processors edit; what they say comes in the order of the libraries.
    let made: Vec<_> = flow::with_processors(|| {
        let made = named.par_iter().map(|(name, library)| {
            let to = new.0.join(LIBRARIES).join(name);
            (library.path(), write(library.path(), &to, "$ORIGIN"))
        });
        made.collect()
    });
    for (path, made) in made {
        match made {
            Ok(made) => show(path, made),
            Err(error) => say!("everypath: {error}; it is used as it is"),
        }
    }
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(cannot)?;
    }
    fs::rename(&new.0, folder).map_err(cannot)?;
    Ok(Ending::Exit(0))
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

/// A folder that goes unless it has got its name.
struct Unfinished(PathBuf);

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
    let error = command.exec();
    bail!("cannot start '{}': {}", program.display(), reason(&error));
}
