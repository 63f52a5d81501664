//! Descriptors of a thread whose number is not known yet, as another thread of a process
//! before it may still begin.
//!
//! They are written with number 0, and read again with the right one. A file is made when
//! there are many.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::sync::Arc;

use super::{put, read};
use crate::mcf::Form;

/// Makes a file that nobody else has.
pub type Place = Arc<dyn Fn() -> io::Result<File> + Send + Sync>;

/// Bytes that are kept in memory.
const MOST: usize = 64 << 10;

pub(super) struct Spool {
    place: Place,
    file: Option<File>,
    bytes: Vec<u8>,
}

impl Spool {
    pub fn new(place: &Place) -> Spool {
        Spool {
            place: Arc::clone(place),
            file: None,
            bytes: Vec::new(),
        }
    }

    /// All of it, with this number.
    pub fn copy(mut self, form: Form, number: u8, out: &mut dyn Write) -> io::Result<()> {
        let all: Box<dyn Read> = match self.file.take() {
            None => Box::new(&self.bytes[..]),
            Some(mut file) => {
                file.rewind()?;
                Box::new(file.chain(&self.bytes[..]))
            }
        };
        let mut all = BufReader::new(all);
        match form {
            Form::Binary => {
                while let Some((_, descriptor)) = read(&mut all)? {
                    put(number, descriptor, form, "", out)?;
                }
            }
            Form::Ascii => {
                let mut line = Vec::new();
                while all.read_until(b'\n', &mut line)? > 0 {
                    let behind = line.iter().position(|&byte| byte == b',').unwrap_or(0);
                    write!(out, "{number}")?;
                    out.write_all(&line[behind..])?;
                    line.clear();
                }
            }
        }
        Ok(())
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MOST {
            let mut file = match self.file.take() {
                Some(file) => file,
                None => (self.place)()?,
            };
            file.write_all(&self.bytes)?;
            self.bytes.clear();
            self.file = Some(file);
        }
        self.bytes.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use analysis::raptor::Descriptor;

    use super::*;

    #[test]
    fn what_was_written_comes_back_with_its_number() {
        let made = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&made);
        let path = std::env::temp_dir().join(format!("everypath-spool-{}", std::process::id()));
        let place: Place = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let mut options = File::options();
            let file = options
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path)?;
            std::fs::remove_file(&path).map(|()| file)
        });
        for form in [Form::Binary, Form::Ascii] {
            for (number, files) in [(2, 0), (40_000, 1)] {
                let mut spool = Spool::new(&place);
                let mut expected = Vec::new();
                for insns in 0..number {
                    let target = 1 << 63 | 7;
                    let one = Descriptor::Exception { insns, target };
                    put(0, one, form, "jmp 0,1", &mut spool).unwrap();
                    put(211, one, form, "jmp 0,1", &mut expected).unwrap();
                }
                let mut copy = Vec::new();
                spool.copy(form, 211, &mut copy).unwrap();
                assert!(copy == expected, "{number} {form:?}");
                assert_eq!(made.swap(0, Ordering::Relaxed), files);
            }
        }
    }
}
