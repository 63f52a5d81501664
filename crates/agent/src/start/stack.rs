//! The initial stack: read as the kernel built it for the payload, then moved to where the kernel
//! builds it for the program.
//!
//! Problem: how many instructions a program executes depends on where its strings lie (`strlen`
//! goes another way at another alignment, and where it could reach the next page). The kernel puts
//! the path of the payload above the program's strings and the engine's orders below them, and
//! their lengths differ from run to run by the digits of process and descriptor numbers.
//!
//! Approach: `fs/exec.c` and `create_elf_tables` of `fs/binfmt_elf.c`, done again with the
//! program's name and without the orders:
//!
//! ```text
//!   the payload's                          the program's
//!   8 bytes of zeros                       8 bytes of zeros        fixed
//!   path of the payload                    name of the program
//!   envp strings                           envp strings
//!   argv strings from argv[2]              argv strings
//!   argv[1], orders                        gap                     the kernel's, random
//!   argv[0], "everypath"                   AT_PLATFORM, AT_RANDOM
//!   gap                                    0 to 15 bytes of zeros
//!   AT_PLATFORM, AT_RANDOM                 auxv
//!   0 to 15 bytes of zeros                 envp, NULL
//!   auxv                                   argv, NULL
//!   envp, NULL                             argc            <- sp
//!   argv, NULL
//!   argc + 2        <- sp
//! ```
//!
//! Invariant: nothing moves below the old `sp`, where the engine's own frames are: the orders hold
//! the name, so they are longer than it.
//!
//! Limit: a stack of another shape (none is known) loses the two arguments, and nothing moves.

use core::ffi::CStr;
use core::ops::Range;

const AT_NULL: u64 = 0;
const AT_IGNORE: u64 = 1;
const AT_PLATFORM: u64 = 15;
const AT_RANDOM: u64 = 25;
const AT_HWCAP2: u64 = 26;
const AT_EXECFN: u64 = 31;
const AT_SYSINFO_EHDR: u64 = 33;

/// Bit 1 of AT_HWCAP2: user code may use `wrgsbase`.
const HWCAP2_FSGSBASE: u64 = 2;

/// Arguments in front of the program's own.
const EXTRA: u64 = 2;

/// Room for what AT_PLATFORM and AT_RANDOM point to.
const MOST_BLOCK: usize = 64;

/// The vectors, from argc to the end of the auxiliary vector.
#[derive(Clone, Copy, Debug)]
pub struct InitialStack {
    pub(super) sp: u64,
    pub(super) argc: u64,
    pub(super) envp: u64,
    pub(super) auxv: u64,
    pub(super) auxv_end: u64,
}

/// Reads a word of the initial stack.
pub(super) fn word(addr: u64) -> u64 {
    // SAFETY: only called on the vectors that the kernel built above rsp, which stay mapped;
    // aligned by the ABI.
    unsafe { *(addr as *const u64) }
}

pub(super) fn set_word(addr: u64, value: u64) {
    // SAFETY: as in `word`; the program has not started, nobody else looks.
    unsafe { *(addr as *mut u64) = value };
}

/// The string an initial-stack pointer points to.
pub(super) fn string(addr: u64) -> &'static CStr {
    // SAFETY: the kernel's strings lie above the vectors and end with NUL; the engine keeps no
    // reference after they move, or the program may overwrite them.
    unsafe { CStr::from_ptr(addr as *const core::ffi::c_char) }
}

/// Bytes with the NUL.
pub(super) fn length(addr: u64) -> u64 {
    string(addr).to_bytes_with_nul().len() as u64
}

fn copy(from: u64, to: u64, len: u64) {
    // SAFETY: both lie in the initial stack, above rsp (`Layout::of` compares), and may overlap.
    unsafe { core::ptr::copy(from as *const u8, to as *mut u8, len as usize) };
}

fn put(bytes: &[u8], to: u64) {
    // SAFETY: as in `copy`; the bytes lie elsewhere.
    unsafe { core::ptr::copy(bytes.as_ptr(), to as *mut u8, bytes.len()) };
}

fn clear(range: Range<u64>) {
    // SAFETY: as in `copy`.
    unsafe {
        core::ptr::write_bytes(
            range.start as *mut u8,
            0,
            (range.end - range.start) as usize,
        )
    };
}

impl InitialStack {
    /// # Safety
    /// `sp` must be rsp at the first instruction of the process.
    pub unsafe fn at(sp: u64) -> InitialStack {
        let argc = word(sp);
        let envp = sp + 8 + (argc + 1) * 8;
        let mut cursor = envp;
        while word(cursor) != 0 {
            cursor += 8;
        }
        let auxv = cursor + 8;
        let mut end = auxv;
        while word(end) != AT_NULL {
            end += 16;
        }
        InitialStack {
            sp,
            argc,
            envp,
            auxv,
            auxv_end: end + 16,
        }
    }

    pub(super) fn argument(&self, index: u64) -> Option<&'static CStr> {
        (index < self.argc).then(|| string(word(self.sp + 8 + index * 8)))
    }

    /// Address of the value of an entry.
    fn auxv_at(&self, kind: u64) -> Option<u64> {
        (self.auxv..self.auxv_end)
            .step_by(16)
            .find(|&at| word(at) == kind)
            .map(|at| at + 8)
    }

    fn auxv(&self, kind: u64) -> Option<u64> {
        self.auxv_at(kind).map(word)
    }

    pub(super) fn set_auxv(&self, kind: u64, value: u64) {
        if let Some(at) = self.auxv_at(kind) {
            set_word(at, value);
        }
    }

    pub(super) fn drop_auxv(&self, kind: u64) {
        if let Some(at) = self.auxv_at(kind) {
            set_word(at - 8, AT_IGNORE);
        }
    }

    pub fn has_fsgsbase(&self) -> bool {
        self.auxv(AT_HWCAP2)
            .is_some_and(|bits| bits & HWCAP2_FSGSBASE != 0)
    }

    pub fn vdso(&self) -> Option<u64> {
        self.auxv(AT_SYSINFO_EHDR).filter(|&addr| addr != 0)
    }

    /// Moves the stack of the payload to where that of the program `name` would be.
    ///
    /// # Safety
    /// Nothing refers to the strings and vectors; `name` lies elsewhere.
    pub unsafe fn for_program(self, name: &CStr) -> InitialStack {
        match Layout::of(&self, name) {
            Some(layout) => layout.carry_out(self, name),
            None => self.without_extra(self.sp + EXTRA * 8),
        }
    }

    /// The stack from which the vectors were moved, behind the two extra arguments, to `sp`.
    fn without_extra(self, sp: u64) -> InitialStack {
        let moved = sp.wrapping_sub(self.sp + EXTRA * 8);
        set_word(sp, self.argc - EXTRA);
        InitialStack {
            sp,
            argc: self.argc - EXTRA,
            envp: self.envp.wrapping_add(moved),
            auxv: self.auxv.wrapping_add(moved),
            auxv_end: self.auxv_end.wrapping_add(moved),
        }
    }
}

/// Which pieces the stack has, and where they go.
#[derive(Debug)]
struct Layout {
    /// The program's arguments and environment.
    strings: Range<u64>,
    new_strings: u64,
    new_name: u64,
    /// The block that AT_PLATFORM and AT_RANDOM point into.
    block: Range<u64>,
    new_block: u64,
    new_sp: u64,
}

impl Layout {
    fn of(stack: &InitialStack, name: &CStr) -> Option<Layout> {
        let argument = |index: u64| word(stack.sp + 8 + index * 8);
        let bottom = argument(0);
        let path = stack.auxv(AT_EXECFN)?;
        let strings = argument(EXTRA)..path;
        let platform = stack.auxv(AT_PLATFORM)?;
        let block = stack.auxv(AT_RANDOM)?..platform + length(platform);
        let in_order = stack.argc > EXTRA
            && stack.auxv_end <= block.start
            && block.start < platform
            && block.end <= bottom
            && bottom < strings.start
            && strings.start < strings.end;
        if !in_order || block.end - block.start > MOST_BLOCK as u64 {
            return None;
        }
        let new_name = path + length(path) - name.to_bytes_with_nul().len() as u64;
        let new_strings = new_name - (strings.end - strings.start);
        // Less than 16 bytes are what rounding left: the kernel chose no gap.
        let gap = Some(bottom - block.end).filter(|&gap| gap >= 16);
        let new_end = (new_strings - gap.unwrap_or(0)) & !15;
        let new_block = new_end - (block.end - block.start);
        let vectors = stack.auxv_end - (stack.sp + EXTRA * 8);
        let new_sp = (new_block - vectors) & !15;
        let fits = new_strings >= bottom && new_block >= block.start && new_sp >= stack.sp;
        fits.then_some(Layout {
            strings,
            new_strings,
            new_name,
            block,
            new_block,
            new_sp,
        })
    }

    fn carry_out(&self, old: InitialStack, name: &CStr) -> InitialStack {
        let mut kept = [0u8; MOST_BLOCK];
        let block_len = self.block.end - self.block.start;
        let kept = &mut kept[..block_len as usize];
        for (byte, at) in kept.iter_mut().zip(self.block.clone()) {
            // SAFETY: what AT_RANDOM and AT_PLATFORM point to.
            *byte = unsafe { *(at as *const u8) };
        }
        self.point_to_new(&old);
        copy(
            self.strings.start,
            self.new_strings,
            self.strings.end - self.strings.start,
        );
        put(name.to_bytes_with_nul(), self.new_name);
        let vectors = old.sp + EXTRA * 8;
        copy(vectors, self.new_sp, old.auxv_end - vectors);
        let new = old.without_extra(self.new_sp);
        put(kept, self.new_block);
        clear(old.sp..new.sp);
        clear(new.auxv_end..self.new_block);
        clear(self.new_block + block_len..self.new_strings);
        new
    }

    /// Changes the vectors where they are.
    fn point_to_new(&self, old: &InitialStack) {
        let strings = self.new_strings.wrapping_sub(self.strings.start);
        let block = self.new_block.wrapping_sub(self.block.start);
        let first = old.sp + 8 + EXTRA * 8;
        for at in (first..old.auxv - 8).step_by(8).filter(|&at| word(at) != 0) {
            set_word(at, word(at).wrapping_add(strings));
        }
        for kind in [AT_PLATFORM, AT_RANDOM] {
            if let Some(value) = old.auxv(kind) {
                old.set_auxv(kind, value.wrapping_add(block));
            }
        }
        old.set_auxv(AT_EXECFN, self.new_name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A stack as the kernel builds it, of which the last byte is before `top`.
    struct Built {
        memory: Vec<u64>,
        sp: u64,
    }

    const WORDS: usize = 1 << 12;

    impl Built {
        /// With `gap` bytes below the strings, a multiple of 16.
        fn new(path: &str, argv: &[&str], envp: &[&str], gap: u64) -> Built {
            let memory = alloc::vec![0u64; WORDS];
            let mut at = Built::top_of(&memory) - 8;
            let mut push = |text: &str| {
                at -= text.len() as u64 + 1;
                put(text.as_bytes(), at);
                at
            };
            let path = push(path);
            let mut envp: Vec<u64> = envp.iter().rev().map(|text| push(text)).collect();
            let mut argv: Vec<u64> = argv.iter().rev().map(|text| push(text)).collect();
            envp.reverse();
            argv.reverse();
            at = ((at - gap) & !15) - 7;
            put(b"x86_64\0", at);
            let platform = at;
            at -= 16;
            put(&[0xaa; 16], at);
            let auxv = [(AT_RANDOM, at), (AT_PLATFORM, platform), (AT_EXECFN, path)];
            let mut words = alloc::vec![argv.len() as u64];
            words.extend(argv.into_iter().chain([0]));
            words.extend(envp.into_iter().chain([0]));
            words.extend(auxv.iter().flat_map(|&(kind, value)| [kind, value]));
            words.extend([AT_NULL, 0]);
            let sp = (at - 8 * words.len() as u64) & !15;
            for (index, &value) in words.iter().enumerate() {
                set_word(sp + 8 * index as u64, value);
            }
            Built { memory, sp }
        }

        /// The end of its last whole page.
        fn top_of(memory: &[u64]) -> u64 {
            (memory.as_ptr() as u64 + 8 * WORDS as u64) & !4095
        }

        fn top(&self) -> u64 {
            Built::top_of(&self.memory)
        }

        /// The words from `sp` to the top, addresses as distances from the top.
        fn seen(&self, sp: u64) -> Vec<u64> {
            let words = (sp..self.top()).step_by(8).map(word);
            let addresses = self.memory.as_ptr() as u64..self.top();
            words
                .map(|word| match addresses.contains(&word) {
                    true => self.top() - word,
                    false => word,
                })
                .collect()
        }
    }

    fn moved(built: &Built, name: &str) -> InitialStack {
        let name = alloc::format!("{name}\0");
        let name = CStr::from_bytes_with_nul(name.as_bytes()).expect("one NUL");
        // SAFETY: it is as the kernel builds it; nothing refers to it.
        unsafe { InitialStack::at(built.sp).for_program(name) }
    }

    #[test]
    fn the_stack_is_as_without_the_engine() {
        let orders = "/proc/12345/fd/3\n/proc/12345/fd/4\n0\n6\n/bin/a";
        for name in ["a", "./prog", "/a/path/that/is/longer/than/the/payload's"] {
            let orders = alloc::format!("{orders}{name}");
            for path in ["/proc/self/fd/9", "/proc/self/fd/10"] {
                for envp in [&["A=1", "PATH=/bin:/usr/bin"][..], &[]] {
                    let own = Built::new(name, &["prog", "", "two"], envp, 0);
                    let argv = ["everypath", &orders, "prog", "", "two"];
                    let ours = Built::new(path, &argv, envp, 0);
                    let moved = moved(&ours, name);
                    // SAFETY: built above; nothing refers to it.
                    let read = unsafe { InitialStack::at(own.sp) };
                    let places = |stack: InitialStack, top: u64| {
                        [stack.sp, stack.envp, stack.auxv, stack.auxv_end].map(|at| top - at)
                    };
                    assert_eq!(places(moved, ours.top()), places(read, own.top()));
                    assert_eq!(ours.seen(moved.sp), own.seen(own.sp), "{name:?}");
                }
            }
        }
    }

    #[test]
    fn the_gap_of_the_kernel_stays() {
        for gap in [16, 48, 4080] {
            let own = Built::new("prog", &["prog"], &[], gap);
            let ours = Built::new("/payload", &["everypath", "orders/prog", "prog"], &[], gap);
            let moved = moved(&ours, "prog");
            // By how much the kernel rounded cannot be seen.
            let distance = (ours.top() - moved.sp).abs_diff(own.top() - own.sp);
            assert!(distance <= 16 && moved.sp.is_multiple_of(16), "{distance}");
        }
    }

    #[test]
    fn a_stack_of_another_shape_loses_the_arguments_only() {
        let argv = ["everypath", "orders", "prog", "one"];
        let built = Built::new("/payload", &argv, &["A=1"], 0);
        // SAFETY: built above; nothing refers to it.
        let stack = unsafe { InitialStack::at(built.sp) };
        stack.drop_auxv(AT_PLATFORM);
        // SAFETY: the same.
        let left = unsafe { stack.for_program(c"prog") };
        assert_eq!((left.sp, left.argc), (built.sp + 16, 2));
        assert_eq!(left.argument(0), Some(c"prog"));
        assert_eq!(left.argument(1), Some(c"one"));
        assert_eq!(left.auxv, stack.auxv);
    }
}
