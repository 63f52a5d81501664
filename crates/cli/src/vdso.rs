//! The code that the kernel maps into every process: our copy of it is the
//! program's, byte for byte.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use image::Image;

/// Name in /proc/PID/maps.
pub const NAME: &str = "[vdso]";

/// `None` where the kernel maps none.
pub fn image() -> Option<Image> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with(NAME))?;
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    let mut bytes = vec![0; usize::try_from(end.checked_sub(start)?).ok()?];
    File::open("/proc/self/mem")
        .ok()?
        .read_exact_at(&mut bytes, start)
        .ok()?;
    Image::parse(&bytes).ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_has_functions() {
        let image = super::image().expect("this kernel maps a vdso");
        assert!(
            image
                .functions()
                .iter()
                .any(|function| function.name.is_some())
        );
    }
}
