//! The output against the input: what is not in the list of edits is the same, and what was added is found.

use object::endian::LittleEndian as LE;

use crate::file::File;
use crate::segment::Added;
use crate::{Edit, Refused};

/// Refuses an output that is not as it must be.
pub fn check(input: &[u8], output: &[u8], edits: &[Edit], added: &Added) -> Result<(), Refused> {
    let same = output
        .get(..input.len())
        .ok_or(Refused::Check("it is too short"))?;
    let mut at = 0;
    let mut sorted: Vec<&Edit> = edits.iter().collect();
    sorted.sort_by_key(|edit| edit.at.start);
    for edit in sorted {
        let (start, end) = (edit.at.start as usize, edit.at.end as usize);
        if start < at || end > input.len() {
            return Err(Refused::Check("its edits overlap"));
        }
        if input[at..start] != same[at..start] {
            return Err(Refused::Check("bytes outside of its edits differ"));
        }
        at = end;
    }
    if input[at..] != same[at..] {
        return Err(Refused::Check("bytes outside of its edits differ"));
    }
    let read = File::parse(output).map_err(|_| Refused::Check("it cannot be read again"))?;
    let mut last = 0;
    for load in read.loads() {
        let start = load.p_vaddr.get(LE);
        if start < last {
            return Err(Refused::Check("its segments are out of order"));
        }
        last = start + load.p_memsz.get(LE);
    }
    let new = read.loads().last();
    let is_there = new.is_some_and(|new| {
        let start = new.p_offset.get(LE) as usize;
        let contents = output.get(start..start + added.bytes.len());
        new.p_vaddr.get(LE) == added.addr && contents == Some(&added.bytes[..])
    });
    match is_there {
        true => Ok(()),
        false => Err(Refused::Check("its new segment is not the last one")),
    }
}
