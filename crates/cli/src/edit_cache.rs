//! Edited programs that are kept for later runs of `count --rewrite` and what else runs them.
//!
//! Problem: editing takes as long as many runs, so an edited program is kept with its libraries; and what is kept is executed later,
//! so nobody else may have written it.
//!
//! Approach: a folder of the user's cache that only the user can enter has one folder for each program, as [`edited_folder`] makes
//! them, named by a hash of the program, of which files its libraries are, of the editor, and of what is inserted. Beside the edited files stands `sums`:
//! the hash of each, and the libraries that could not be edited. A folder is written beside its place and renamed, so several
//! writers do no harm; before it is used, owners, permissions and hashes are looked at, and the original that the program's plan names.
//!
//! A program's folder is removed when another program is edited and no run has changed it for [`UNUSED`]. A folder of a run that is as
//! old is removed as well: its run was killed.
//!
//! Limits: a library is known by its inode and the time of its change, not by its bytes.
//!
//! [`edited_folder`]: crate::edited_folder

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use image::{Image, Images, Version};
use placement::{dictionary, plan};
use rustix::process::geteuid;

use crate::dictionaries;
use crate::edited_folder::{LIBRARIES, PROGRAMS, Unfinished};
use crate::flags::Rewrite;
use crate::libraries::Walk;
use crate::progress::Progress;
use crate::uncounted;

/// The tool of an edit, and its option.
#[derive(Clone, Copy, Debug)]
pub struct Inserted<'a> {
    /// The tool.
    pub tool: &'a str,
    /// As [`crate::flags::Encode::log`].
    pub log: Option<&'a str>,
}

impl Inserted<'static> {
    /// Counters of all code.
    pub const EDGES: Inserted<'static> = Inserted {
        tool: "edges",
        log: None,
    };
    /// Code that follows nests of loops.
    pub const LOOPS: Inserted<'static> = Inserted {
        tool: "loops",
        log: None,
    };
    /// Counters of calls by context.
    pub const CALLS: Inserted<'static> = Inserted {
        tool: "context-counts",
        log: None,
    };
}
/// The file with the hashes of the others.
const SUMS: &str = "sums";
/// Precedes a library that was not edited, where others have a hash.
const KEPT: &str = "kept";

/// Time after which an edited program is taken out that was not used.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);

/// An edited program of the cache.
pub struct Cached {
    pub folder: PathBuf,
    /// The edited program.
    pub program: PathBuf,
    /// Why each of the libraries that were not edited was not.
    pub kept: Vec<String>,
}

impl Cached {
    /// The edited form of a program, from the cache or made now. The error says why it is not edited.
    pub fn of(
        program: &Path,
        inserted: Inserted<'_>,
        progress: &Progress,
    ) -> Result<Cached, String> {
        let input = fs::read(program).map_err(|error| error.to_string())?;
        if is_script(program) {
            return Err("it is a script".into());
        }
        if has_own_libraries(program) {
            return Err("it looks for its libraries beside itself".into());
        }
        let program = fs::canonicalize(program).map_err(|error| error.to_string())?;
        let all = folder_of_the_user()?;
        let folder = all.join(key(&program, &input, inserted)?);
        if let Some(cached) = Cached::good(&folder, &program, &input) {
            return Ok(cached);
        }
        progress.says("editing the program and its libraries, once");
        tidy(&all);
        make(&program, &folder, inserted).map_err(|error| format!("{error:#}"))?;
        let cached = Cached::good(&folder, &program, &input);
        cached.ok_or_else(|| format!("'{}' is not what was written", folder.display()))
    }

    /// The contents of a folder, if they are what was put there, and of this original.
    fn good(folder: &Path, original: &Path, input: &[u8]) -> Option<Cached> {
        let mut own = read_own(&folder.join(SUMS))?;
        let sums = String::from_utf8(std::mem::take(&mut own)).ok()?;
        let mut kept = Vec::new();
        let program = Path::new(PROGRAMS).join(original.file_name()?);
        let mut is_there = false;
        for line in sums.lines() {
            let (sum, of) = line.split_once(' ')?;
            if sum == KEPT {
                kept.push(of.to_owned());
                continue;
            }
            let bytes = read_own(&folder.join(of))?;
            (sum == hex(&plan::hash(&bytes))).then_some(())?;
            let (size, hash) = match Path::new(of) {
                of if of == program => match planned(&bytes) {
                    Some(planned) => (planned.size, planned.hash),
                    None => continue,
                },
                of if of == Path::new(dictionaries::ENDING) => {
                    let files = dictionary::decode(&bytes)?;
                    let first = files.first()?;
                    (first.size, first.hash)
                }
                _ => continue,
            };
            is_there = size == input.len() as u64 && hash == plan::hash(input);
        }
        is_there.then(|| Cached {
            folder: folder.to_owned(),
            program: folder.join(program),
            kept,
        })
    }

    /// An error if too much of the program would not be counted.
    pub fn judge(&self, program: &Path) -> Result<(), String> {
        let bytes = fs::read(&self.program).map_err(|error| error.to_string())?;
        let image = Image::open_whole(program).map_err(|error| error.to_string())?;
        let planned = planned(&bytes).ok_or("its plan is damaged")?;
        uncounted::too_much(&planned.uncounted, &image).map_or(Ok(()), Err)
    }
}

/// Whether a program looks for its libraries by paths relative to its own.
pub fn has_own_libraries(program: &Path) -> bool {
    let Ok(image) = Image::open(program) else {
        return false;
    };
    let (rpath, runpath) = image.search_paths();
    let mut paths = rpath.into_iter().chain(runpath);
    paths.any(|paths| paths.contains("$ORIGIN") || paths.contains("${ORIGIN}"))
}

/// Whether a program is a script, and none that can be edited.
pub fn is_script(program: &Path) -> bool {
    let mut head = [0; 2];
    let read = fs::File::open(program).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && &head == b"#!"
}

/// Takes out of the cache what was not used for long; what cannot be taken out stays.
fn tidy(all: &Path) {
    let folders = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let is_old = |entry: &fs::DirEntry| {
        let changed = entry.metadata().and_then(|metadata| metadata.modified());
        let age = changed.ok().and_then(|changed| changed.elapsed().ok());
        age.is_some_and(|age| age > UNUSED)
    };
    for program in folders(all) {
        let old = match is_old(&program) {
            true => vec![program],
            // Leftovers of runs.
            false => {
                let inside = folders(&program.path());
                let is_run = |entry: &fs::DirEntry| {
                    let name = entry.file_name();
                    name.to_string_lossy().starts_with("run.")
                };
                inside.filter(|run| is_run(run) && is_old(run)).collect()
            }
        };
        for entry in old {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Makes a folder that only the user can enter.
pub fn make_folder(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// The folder of edited programs, which nobody else may enter.
pub fn folder_of_the_user() -> Result<PathBuf, String> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = cache.filter(|path| path.is_absolute()).or_else(home);
    let cache = cache.ok_or("there is no HOME for a cache of edited programs")?;
    let folder = cache.join("everypath");
    let cannot = |error: std::io::Error| format!("'{}': {error}", folder.display());
    fs::create_dir_all(&cache).map_err(cannot)?;
    match make_folder(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(cannot(error));
        }
        _ => {}
    }
    let metadata = fs::symlink_metadata(&folder).map_err(cannot)?;
    let is_own = metadata.is_dir() && metadata.uid() == geteuid().as_raw();
    match is_own && metadata.mode() & 0o077 == 0 {
        true => Ok(folder),
        false => Err(format!("others may write to '{}'", folder.display())),
    }
}

/// The name of a program's folder.
fn key(program: &Path, input: &[u8], inserted: Inserted<'_>) -> Result<String, String> {
    let editor = std::env::current_exe()
        .and_then(fs::metadata)
        .map_err(|error| error.to_string())?;
    let mut of = format!(
        "{inserted:?} {} {:?} {}",
        editor.len(),
        (editor.mtime(), editor.mtime_nsec()),
        program.display()
    );
    let images = Images::new();
    for library in Walk::new(&images, program).skip(1) {
        let path = library.path();
        let version = Version::of(path).map_err(|error| error.to_string())?;
        let _ = write!(of, "\n{version:?} {}", path.display());
    }
    let (program, of) = (plan::hash(input), plan::hash(of.as_bytes()));
    Ok(format!("{}.{}", hex(&program), hex(&of)))
}

/// Options of an edit of a program alone.
pub fn flags(program: &Path, output: &Path, inserted: Inserted<'_>) -> Rewrite {
    Rewrite {
        file: program.to_owned(),
        output: output.to_owned(),
        libs: false,
        also: Vec::new(),
        tool: inserted.tool.into(),
        weights: None,
        branches: false,
        targets: false,
        memory: false,
        log: inserted.log.map(str::to_owned),
        persistent: None,
        counters: None,
        paranoid: false,
        explain: false,
    }
}

/// Edits a program with its libraries into a folder of the cache.
fn make(program: &Path, folder: &Path, inserted: Inserted<'_>) -> anyhow::Result<()> {
    let flags = Rewrite {
        libs: true,
        ..flags(program, folder, inserted)
    };
    let new = Unfinished::beside(folder);
    let mut lines = BTreeMap::new();
    for (path, why) in new.fill(&flags, true, None)? {
        lines.insert(path, format!("{KEPT} {why}\n"));
    }
    let mut paths = Vec::new();
    for inner in [PROGRAMS, LIBRARIES] {
        for entry in fs::read_dir(new.path().join(inner))? {
            paths.push(Path::new(inner).join(entry?.file_name()));
        }
    }
    let dictionary = PathBuf::from(dictionaries::ENDING);
    paths.extend(Some(dictionary).filter(|path| new.path().join(path).exists()));
    for path in paths {
        let hash = hex(&plan::hash(&fs::read(new.path().join(&path))?));
        let line = format!("{hash} {}\n", path.display());
        lines.insert(path, line);
    }
    let text: String = lines.into_values().collect();
    fs::write(new.path().join(SUMS), text)?;
    new.finish(folder)
}

fn planned(bytes: &[u8]) -> Option<plan::File> {
    rewrite::plan_of(bytes).and_then(plan::File::decode)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a file that only the user may have written.
fn read_own(path: &Path) -> Option<Vec<u8>> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let is_own = metadata.is_file() && metadata.uid() == geteuid().as_raw();
    (is_own && metadata.mode() & 0o022 == 0).then_some(())?;
    fs::read(path).ok()
}
