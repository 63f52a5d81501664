//! `#!` scripts: the kernel's rewriting of the command line (fs/binfmt_script.c),
//! because the engine loads ELF files only.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Interpreters in a row that the kernel follows.
const MAX_DEPTH: usize = 5;
/// Bytes of the first line that the kernel looks at.
const HEAD: u64 = 256;

/// The ELF file to load for `program`, and the arguments it gets.
pub(crate) fn resolve(program: &Path, argv: &[OsString]) -> (PathBuf, Vec<OsString>) {
    let (mut file, mut argv) = (program.to_path_buf(), argv.to_vec());
    for _ in 0..MAX_DEPTH {
        let Some((interpreter, argument)) = interpreter_line(&file) else {
            break;
        };
        let mut line = vec![interpreter.clone()];
        line.extend(argument);
        line.push(file.into_os_string());
        line.extend(argv.into_iter().skip(1));
        argv = line;
        file = PathBuf::from(interpreter);
    }
    (file, argv)
}

fn interpreter_line(file: &Path) -> Option<(OsString, Option<OsString>)> {
    let mut head = Vec::new();
    std::fs::File::open(file)
        .ok()?
        .take(HEAD)
        .read_to_end(&mut head)
        .ok()?;
    let line = head
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?
        .trim_ascii();
    let split = line
        .iter()
        .position(|byte| matches!(byte, b' ' | b'\t'))
        .unwrap_or(line.len());
    let (interpreter, rest) = (&line[..split], line[split..].trim_ascii());
    let owned = |bytes: &[u8]| OsStr::from_bytes(bytes).to_os_string();
    (!interpreter.is_empty()).then(|| (owned(interpreter), (!rest.is_empty()).then(|| owned(rest))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_becomes_its_interpreter_with_one_argument() {
        let folder = std::env::temp_dir().join(format!("everypath-script-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
        let script = folder.join("script");
        std::fs::write(&script, "#! /bin/sh  -e -u \necho\n")
            .expect("the temporary folder can be written");
        let argv = ["whatever".into(), "one".into()];
        let (file, line) = resolve(&script, &argv);
        let expected = [
            "/bin/sh".into(),
            "-e -u".into(),
            script.clone().into_os_string(),
            "one".into(),
        ];
        assert_eq!((file, line), (PathBuf::from("/bin/sh"), expected.to_vec()));
        std::fs::remove_dir_all(folder).expect("made above");
    }
}
