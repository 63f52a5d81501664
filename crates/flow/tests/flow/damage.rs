//! Bad input: no panic, and graphs that hold together.

use flow::{Program, To};
use image::Image;

/// Changes of a file that is looked at.
const MUTATIONS: usize = 400;

/// Numbers without a pattern that matters here (xorshift64, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Checks what every graph has, whatever the file is.
pub fn hold_together(program: &Program) {
    for function in &program.functions {
        let graph = &function.graph;
        let blocks = graph.blocks.len() as u32;
        for pair in graph.blocks.windows(2) {
            // Two blocks overlap where the first is an instruction with the prefix `lock`, and the second the same without it.
            let [one, other] = [pair[0], pair[1]];
            let is_locked = one.start + 1 == other.start && one.end == other.end;
            assert!(one.start < one.end && (one.end <= other.start || is_locked));
        }
        assert!(graph.edges.is_sorted());
        for edge in &graph.edges {
            assert!(edge.from < blocks);
            if let To::Block(to) = edge.to {
                assert!(to < blocks);
            }
        }
        let entries = function.entry_blocks();
        let dominators = graph.dominators(&entries);
        for one in graph.loops(&entries).loops {
            assert!(
                one.blocks
                    .iter()
                    .all(|&block| dominators.dominates(one.header, block))
            );
            assert!(one.latches.iter().all(|latch| one.blocks.contains(latch)));
        }
    }
}

#[test]
fn damaged_files_do_no_harm() {
    let seed = std::fs::read("/bin/true").unwrap();
    let image = Image::parse(&seed).unwrap();
    hold_together(&Program::of(&image));
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    for _ in 0..MUTATIONS {
        let mut bytes = seed.clone();
        for _ in 0..=random.below(64) {
            let at = random.below(bytes.len());
            bytes[at] = random.below(256) as u8;
        }
        if random.below(8) == 0 {
            bytes.truncate(random.below(seed.len()));
        }
        if let Ok(image) = Image::parse(&bytes) {
            hold_together(&Program::of(&image));
        }
    }
}
