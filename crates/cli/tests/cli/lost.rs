//! Files that have lost something in the middle: threads go on at the next keyframe, and what
//! is shown is what was executed, instruction by instruction, on both sides of the hole.

use analysis::walk::packed;
use analysis::walk::segments::{self, segments};
use analysis::walk::{Event, Pieces, Walk, Why};
use testkit::folder::Folder;
use trace::{Part, Recording, Thread};

use crate::BINARY;

/// Two threads that do the same for long.
const WORK: &str = r"
#include <pthread.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }
static void *work(void *seed) {
    unsigned x = (unsigned)(long)seed, all[3000];
    for (int i = 0; i < 3000; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        all[i] = x >> 1;
    }
    qsort(all, 3000, sizeof *all, compare);
    return (void *)(long)all[7];
}
int main(void) {
    pthread_t other;
    pthread_create(&other, 0, work, (void *)1);
    work((void *)2);
    return pthread_join(other, 0);
}
";

/// A chunk of a file: where it is, its kind, and the process, thread and lane of a part.
struct Chunk {
    from: usize,
    to: usize,
    kind: [u8; 4],
    of: (usize, usize, usize),
}

fn chunks(bytes: &[u8]) -> Vec<Chunk> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let (mut from, mut chunks) = (16, Vec::new());
    while from < bytes.len() {
        let kind: [u8; 4] = bytes[from..from + 4].try_into().unwrap();
        let to = from + 16 + word(from + 8);
        let of = match &kind {
            b"STRM" => (word(from + 24), word(from + 28), word(from + 36)),
            _ => (0, 0, 0),
        };
        chunks.push(Chunk { from, to, kind, of });
        from = to;
    }
    chunks
}

/// A trace with many keyframes, in parts of so many bytes as it is written.
fn recorded(folder: &Folder) -> Vec<u8> {
    folder.program(&["-O1", "-pthread"], "work", WORK);
    let options = ["--chaos", "3", "--ring", "150K", "-o", "run.evp"];
    let trace = [&["trace"], &options[..], &["--", "./work"]].concat();
    let output = folder.run(BINARY, &trace);
    assert!(output.status.success(), "{output:?}");
    std::fs::read(folder.file("run.evp")).unwrap()
}

/// A recording whose streams are in small parts.
fn in_small_parts(folder: &Folder) -> Vec<u8> {
    let mut recording = trace::read(&recorded(folder)[..]).unwrap();
    for process in &mut recording.processes {
        for thread in &mut process.threads {
            assert!(thread.gap.is_none(), "all of it is kept");
            let mut pieces = Vec::new();
            for part in &thread.stream {
                for raw in part.unpack().unwrap().chunks(700) {
                    let mut piece = Part::pack(raw).unwrap();
                    piece.stream = part.stream;
                    pieces.push(piece);
                }
            }
            thread.stream = pieces;
        }
    }
    let mut bytes = Vec::new();
    trace::write(&recording, &mut bytes).unwrap();
    bytes
}

/// Addresses that a thread executed, in stretches between losses.
fn stretches(pieces: &mut Pieces, thread: &Thread) -> Vec<Vec<u64>> {
    let mut all = vec![Vec::new()];
    let mut walk = Walk::new(pieces, thread).past_losses(thread);
    while let Some(event) = walk.next() {
        match event {
            Ok(Event::Executed(steps)) => {
                let last = all.last_mut().unwrap();
                last.extend(steps.iter().map(|step| step.pc));
            }
            Ok(Event::Went { why: Why::Lost, .. }) => all.push(Vec::new()),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    all
}

fn all_stretches(recording: &Recording) -> Vec<Vec<Vec<Vec<u64>>>> {
    let of = |process: &trace::Process| {
        let mut pieces = Pieces::of(process);
        let threads = process.threads.iter();
        threads
            .map(|thread| stretches(&mut pieces, thread))
            .collect()
    };
    recording.processes.iter().map(of).collect()
}

/// The whole trace, with the numbers of its keyframes, and what its threads executed.
struct Reference {
    recording: Recording,
    executed: Vec<Vec<Vec<u64>>>,
}

impl Reference {
    fn of(bytes: &[u8]) -> Reference {
        let mut recording = trace::read(bytes).unwrap();
        assert!(segments::number(&mut recording).is_none());
        let whole = |mut stretches: Vec<Vec<u64>>| {
            assert_eq!(stretches.len(), 1);
            stretches.remove(0)
        };
        let executed = all_stretches(&recording).into_iter();
        let executed = executed
            .map(|threads| threads.into_iter().map(whole).collect())
            .collect();
        Reference {
            recording,
            executed,
        }
    }

    /// How many instructions come before the first keyframe that is behind what `lost` lacks.
    fn goes_on(&self, of: (usize, usize), lost: &Thread) -> Option<u64> {
        let thread = &self.recording.processes[of.0].threads[of.1];
        let mut ends = [0; 5];
        let mut behind = [0; 5];
        for part in &lost.stream {
            let lane = usize::from(part.stream);
            ends[lane] += part.len();
            if part.is_lost() {
                behind[lane] = ends[lane];
            }
        }
        // What is lost at the end of a lane nobody knows: nothing is said of such a thread.
        let mut all = [0; 5];
        for part in &thread.stream {
            all[usize::from(part.stream)] += part.len();
        }
        if all != ends {
            return None;
        }
        let mut keyframes = thread.keyframes.iter();
        let is_behind = |at: &[u64; 5]| at.iter().zip(behind).all(|(&at, behind)| at >= behind);
        let next = keyframes.find(|keyframe| is_behind(&keyframe.at))?;
        // One at the very end may have lost its escape.
        let is_kept = segments(lost).len() > 1;
        is_kept.then(|| next.insns.unwrap())
    }
}

/// Checks that the rest is what was executed; the number of threads that lost something and go on.
fn check(reference: &Reference, damaged: &[u8], case: &str) -> usize {
    let prefix = trace::read_prefix(damaged).unwrap();
    assert!(prefix.lost.is_some(), "{case}");
    let mut went_on = 0;
    let all = all_stretches(&prefix.recording);
    for (process, threads) in all.iter().enumerate() {
        for (at, found) in threads.iter().enumerate() {
            let executed = &reference.executed[process][at];
            let thread = &prefix.recording.processes[process].threads[at];
            assert!(executed.starts_with(&found[0]), "{case}: before it");
            let has_lost = thread.stream.iter().any(Part::is_lost);
            match found.len() {
                1 if !has_lost => {}
                1 => assert_eq!(reference.goes_on((process, at), thread), None, "{case}"),
                _ => {
                    went_on += 1;
                    let of = &reference.recording.processes[process].threads[at];
                    check_begins(of, executed, found, case);
                    if let Some(expected) = reference.goes_on((process, at), thread) {
                        // Of none, if that is a keyframe at the very end.
                        let last = found.last().unwrap();
                        assert!(executed.ends_with(last), "{case}");
                        assert_eq!((executed.len() - last.len()) as u64, expected, "{case}");
                    }
                }
            }
        }
    }
    went_on
}

/// Each stretch behind a hole is what was executed from a keyframe on, behind the one before.
fn check_begins(thread: &Thread, executed: &[u64], found: &[Vec<u64>], case: &str) {
    let mut from = found[0].len() as u64;
    for stretch in &found[1..] {
        let numbers = thread
            .keyframes
            .iter()
            .map(|keyframe| keyframe.insns.unwrap());
        let begins =
            |&number: &u64| number >= from && executed[number as usize..].starts_with(stretch);
        let number = numbers
            .into_iter()
            .find(begins)
            .unwrap_or_else(|| panic!("{case}: behind it"));
        from = number + stretch.len() as u64;
    }
}

/// Every thread of a file is whole, but this one.
fn others_are_whole(reference: &Reference, damaged: &[u8], but: (usize, usize), case: &str) {
    let left = trace::read_prefix(damaged).unwrap().recording;
    for (process, threads) in all_stretches(&left).iter().enumerate() {
        for (at, found) in threads.iter().enumerate() {
            if (process, at) != but {
                assert!(found.len() == 1, "{case}");
                assert_eq!(found[0], reference.executed[process][at], "{case}");
            }
        }
    }
}

/// The file after something has happened to a chunk.
fn damages(bytes: &[u8], chunk: &Chunk) -> [(&'static str, Vec<u8>); 6] {
    let with = |at: usize, bit: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= bit;
        bytes
    };
    let without = |from: usize, to: usize| [&bytes[..from], &bytes[to..]].concat();
    let middle = usize::midpoint(chunk.from, chunk.to);
    [
        ("a bit of its bytes", with(middle, 4)),
        ("a bit of its kind", with(chunk.from + 1, 32)),
        ("its length is less", with(chunk.from + 8, 0x10)),
        ("its length is huge", with(chunk.from + 11, 0x40)),
        ("it is missing", without(chunk.from, chunk.to)),
        ("its second half is missing", without(middle, chunk.to)),
    ]
}

#[test]
#[ignore = "wide: holes of one thread, and what commands say of them, are in the gate"]
fn threads_go_on_behind_a_hole() {
    let folder = Folder::new("lost-parts");
    let bytes = in_small_parts(&folder);
    let reference = Reference::of(&bytes);
    let all = chunks(&bytes);
    let parts: Vec<&Chunk> = all.iter().filter(|chunk| &chunk.kind == b"STRM").collect();
    assert!(parts.len() > 200, "{}", parts.len());
    let mut went_on = 0;
    for chunk in parts.iter().step_by(parts.len() / 5) {
        for (what, damaged) in damages(&bytes, chunk) {
            let case = format!("the chunk at {}: {what}", chunk.from);
            went_on += check(&reference, &damaged, &case);
            others_are_whole(&reference, &damaged, (chunk.of.0, chunk.of.1), &case);
        }
    }
    assert!(went_on > 15, "{went_on} of 30");
}

/// Stretches of the file, over the ends of chunks; several at once.
#[test]
fn threads_go_on_behind_larger_holes() {
    let folder = Folder::new("lost-stretches");
    let bytes = in_small_parts(&folder);
    let reference = Reference::of(&bytes);
    let all = chunks(&bytes);
    let parts: Vec<&Chunk> = all.iter().filter(|chunk| &chunk.kind == b"STRM").collect();
    let (from, to) = (parts[parts.len() / 2].from, parts[parts.len() - 1].to);
    let mut cut = 0;
    for (at, len) in [(0, 1000), (1, 5000), (700, 1), (2000, 4000), (0, 9000)] {
        let (at, end) = (from + at, from + at + len);
        if end > to {
            continue;
        }
        cut += 1;
        let damaged = [&bytes[..at], &bytes[end..]].concat();
        check(&reference, &damaged, &format!("{at} to {end} are missing"));
        let mut damaged = bytes.clone();
        // Zeros in place of a byte that is zero would be no damage.
        damaged[at..end].fill(!bytes[at]);
        check(&reference, &damaged, &format!("{at} to {end} are one byte"));
    }
    assert!(cut > 1, "only parts from {from} to {to}");
    let mut damaged = bytes.clone();
    let parts = all.iter().filter(|chunk| &chunk.kind == b"STRM");
    for chunk in parts.step_by(30) {
        damaged[chunk.from + 70] ^= 1;
    }
    assert!(check(&reference, &damaged, "many bits") > 0);
}

/// As it is written: items and parts of all threads come as they were made. Behind lost
/// items nothing can be read, but all before.
#[test]
#[ignore = "wide: a file is read at many lengths; holes are in the gate"]
fn of_a_file_as_it_is_written() {
    let folder = Folder::new("lost-recorded");
    let bytes = recorded(&folder);
    let reference = Reference::of(&bytes);
    let mut went_on = 0;
    let all = chunks(&bytes);
    // All but the first, which has the head, and the last.
    for chunk in &all[1..all.len() - 1] {
        for (what, damaged) in damages(&bytes, chunk) {
            let case = format!("the chunk at {}: {what}", chunk.from);
            went_on += check(&reference, &damaged, &case);
        }
    }
    assert!(went_on > 20, "{went_on}");
}

/// Packed, a thread goes on with the next segment.
#[test]
#[ignore = "wide: every segment is cut; streams that are not packed are in the gate"]
fn packed_threads_go_on_behind_a_hole() {
    let folder = Folder::new("lost-packed");
    let whole = trace::read(&recorded(&folder)[..]).unwrap();
    let (packed, _) = packed::pack(&whole, 4000).unwrap();
    let mut bytes = Vec::new();
    trace::write_small(&packed, &mut bytes).unwrap();
    let executed = all_stretches(&whole);
    let all = chunks(&bytes);
    let parts: Vec<&Chunk> = all.iter().filter(|chunk| &chunk.kind == b"STRM").collect();
    assert!(parts.len() > 100, "{}", parts.len());
    let mut went_on = 0;
    for chunk in parts.iter().step_by(parts.len() / 20) {
        for (what, damaged) in damages(&bytes, chunk) {
            let case = format!("the chunk at {}: {what}", chunk.from);
            let left = trace::read_prefix(&damaged[..]).unwrap().recording;
            for (at, found) in all_stretches(&left)[0].iter().enumerate() {
                let executed = &executed[0][at][0];
                assert!(executed.starts_with(&found[0]), "{case}: before it");
                if at != chunk.of.1 {
                    assert!(
                        found.len() == 1 && found[0].len() == executed.len(),
                        "{case}"
                    );
                } else if let [_, last] = &found[..] {
                    assert!(executed.ends_with(last), "{case}: behind it");
                    went_on += 1;
                } else {
                    // Of stamps, or at the end of the thread.
                    assert_eq!(found.len(), 1, "{case}");
                }
            }
        }
    }
    assert!(went_on > 50, "{went_on} of 120");
}

#[test]
fn commands_say_what_is_lost() {
    let folder = Folder::new("lost-said");
    let bytes = in_small_parts(&folder);
    let all = chunks(&bytes);
    let mut parts: Vec<&Chunk> = all.iter().filter(|chunk| &chunk.kind == b"STRM").collect();
    // One in the middle of a thread: of both, that would be where one ends and the other begins.
    let first = parts[0].of;
    parts.retain(|chunk| chunk.of == first);
    let chunk = parts[parts.len() / 2];
    let mut damaged = bytes.clone();
    damaged[chunk.to - 3] ^= 16;
    std::fs::write(folder.file("run.evp"), damaged).unwrap();
    let ran = |arguments: &[&str]| {
        let output = folder.run(BINARY, arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let raw = u32::from_le_bytes(bytes[chunk.from + 4..chunk.from + 8].try_into().unwrap());
    let (said, error) = ran(&["verify", "run.evp"]);
    let lost = format!("# the file has lost 1 part of its streams, {raw} bytes before");
    assert!(
        said.replace(',', "").contains(&lost.replace(',', "")),
        "{said}"
    );
    let (from, len) = (chunk.from, chunk.to - chunk.from);
    let where_ = format!("What was in {len} bytes from byte {from} on is lost. The STRM chunk");
    assert!(error.contains(&where_), "{error}");
    let (said, _) = ran(&["dump", "run.evp"]);
    assert_eq!(
        said.matches("\n# what comes here is lost, then at ")
            .count(),
        1
    );
    assert!(said.contains("\n# the file has lost 1 part"));
    let has_lost = "the file has lost a part of its streams";
    for arguments in [
        &["stats", "run.evp"][..],
        &["report", "run.evp", "--as", "counts"],
        &["report", "run.evp", "--as", "contexts"],
    ] {
        let (_, error) = ran(arguments);
        assert!(error.contains(has_lost), "{arguments:?}: {error}");
    }
}
