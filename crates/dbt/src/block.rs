//! Blocks and exits: what the engine remembers about emitted code.

use core::hash::{BuildHasher, BuildHasherDefault};

use hashbrown::HashTable;

use crate::edge_counters::Site;
use crate::slab::Slab;

/// How control comes to a block. Only tools make a difference: without one,
/// every arrival is `Inside`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Arrival {
    /// Within a function: no event.
    Inside = 0,
    /// By jump, return or fall-through, to a place where a function begins.
    Jump = 1,
    /// By call.
    Call = 2,
    /// By call from the function itself.
    Again = 3,
    /// By call to a stub of the dynamic linker: no event, but what the stub
    /// jumps to is arrived at by call.
    Stub = 4,
    /// In the middle of a basic block that was entered before: nothing begins. In traces:
    /// at a function whose call was counted.
    Middle = 5,
    /// In traces: from code that is not traced.
    Outside = 6,
    /// In traces: while the instructions of a thread are counted that it is not traced for.
    Skipped = 7,
    /// In traces: of a thread that is not traced any more.
    CountReached = 8,
    /// As `Skipped`, where many more are skipped.
    Far = 9,
}

impl Arrival {
    pub fn from_code(code: u8) -> Arrival {
        match code {
            1 => Arrival::Jump,
            2 => Arrival::Call,
            3 => Arrival::Again,
            4 => Arrival::Stub,
            5 => Arrival::Middle,
            6 => Arrival::Outside,
            7 => Arrival::Skipped,
            8 => Arrival::CountReached,
            9 => Arrival::Far,
            _ => Arrival::Inside,
        }
    }

    /// In traces: whether the thread is in a phase that is not traced.
    pub fn is_off(self) -> bool {
        matches!(
            self,
            Arrival::Far | Arrival::Skipped | Arrival::CountReached
        )
    }

    /// Whether a tool has to do something first.
    pub fn is_event(self) -> bool {
        matches!(self, Arrival::Jump | Arrival::Call | Arrival::Again)
    }
}

/// Key by which a block is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub pc: u64,
    pub arrival: Arrival,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExitId(pub u32);

/// Owner of an exit that is free.
pub const NO_BLOCK: BlockId = BlockId(u32::MAX);

/// End of an incoming list.
pub const NO_EXIT: u32 = u32::MAX;

/// A translated superblock.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pc: u64,
    /// First byte of its code; 0: not there yet, or not any more.
    pub host: u64,
    /// Landing pads for indirect jumps (and returns) and for indirect calls.
    pads: [Packed; 2],
    /// Position and length of its map in the segment's map bytes.
    pub map: u32,
    pub map_len: u16,
    /// Segment of the cache that holds its code.
    pub segment: u16,
    /// First of the exits linked here, chained by [`Exit::next_incoming`].
    pub incoming: u32,
    arrival: Arrival,
    /// Nothing but a fault in waiting: no instruction can be fetched here.
    pub unfetchable: bool,
    pub dead: bool,
    /// Its source may change without notice: `Engine::volatiles` has its length
    /// and checksum.
    pub volatile: bool,
}

/// There are as many as a program has branches.
const _: () = assert!(size_of::<Block>() <= 48 && size_of::<Exit>() <= 24);

/// A [`Pad`], by its distance from the block's first byte; 0: there is none.
#[derive(Clone, Copy, Debug, Default)]
struct Packed {
    start: i32,
    /// Distances from there.
    miss: u8,
    hit: u8,
}

/// Landing pad of an indirect branch.
#[derive(Clone, Copy, Debug)]
pub struct Pad {
    pub start: u64,
    /// Displacement address of the branch taken if this is not the target.
    pub miss: u64,
    /// Address at which it goes on if it is, with rcx and rdx still spilled.
    pub hit: u64,
}

/// By which an indirect branch comes to a block that is not there yet.
#[derive(Clone, Copy, Debug)]
pub struct Landing {
    /// The table.
    pub call: bool,
    /// Which branch, if that is counted.
    pub site: Option<Site>,
}

impl Block {
    /// A block without code.
    pub fn new(key: Key, segment: usize, map: usize) -> Block {
        Block {
            pc: key.pc,
            host: 0,
            pads: [Packed::default(); 2],
            map: map as u32,
            map_len: 0,
            segment: segment as u16,
            incoming: NO_EXIT,
            arrival: key.arrival,
            unfetchable: false,
            dead: false,
            volatile: false,
        }
    }

    pub fn key(&self) -> Key {
        Key {
            pc: self.pc,
            arrival: self.arrival,
        }
    }

    /// The landing pad for one of the tables.
    pub fn pad(&self, call: bool) -> Option<Pad> {
        let pad = self.pads[usize::from(call)];
        let start = self.host.wrapping_add_signed(i64::from(pad.start));
        (pad.start != 0).then(|| Pad {
            start,
            miss: start + u64::from(pad.miss),
            hit: start + u64::from(pad.hit),
        })
    }

    /// The block has its code.
    pub fn set_pad(&mut self, call: bool, pad: Pad) {
        let distance = pad.start.wrapping_sub(self.host) as i64;
        let inside = |at: u64| u8::try_from(at - pad.start).expect("a pad is short");
        self.pads[usize::from(call)] = Packed {
            start: distance.try_into().expect("the cache is smaller than 2 GB"),
            miss: inside(pad.miss),
            hit: inside(pad.hit),
        };
    }

    pub fn forget_pad(&mut self, call: bool) {
        self.pads[usize::from(call)] = Packed::default();
    }
}

/// Kind and destination of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    Direct(Key),
    /// A direct exit to an event, with rcx and rdx spilled already.
    Spilled(Key),
    /// A system call at `pc`; the bare instruction is behind the branch.
    Syscall {
        pc: u64,
        /// Length of the instruction.
        len: u8,
    },
    /// One of the three entries of the vsyscall page.
    Vsyscall(u64),
    /// Instructions cannot be fetched from here.
    Unfetchable(u64),
    /// A tool's check that needs the engine, then on to the key.
    Event(Key),
    /// A far branch at `pc`; what is behind the exit, `far` says.
    Far {
        pc: u64,
    },
    /// A stub of the dynamic linker that was not bound when it was translated
    /// is bound now; its jump is at the key. rcx and rdx are spilled.
    Bound(Key),
}

impl ExitKind {
    /// Address in the program whose translation the exit can be linked to; 0: none.
    pub fn target(self) -> u64 {
        match self {
            ExitKind::Direct(key)
            | ExitKind::Spilled(key)
            | ExitKind::Event(key)
            | ExitKind::Bound(key) => key.pc,
            ExitKind::Syscall { .. }
            | ExitKind::Vsyscall(_)
            | ExitKind::Unfetchable(_)
            | ExitKind::Far { .. } => 0,
        }
    }
}

/// An [`ExitKind`] without its address and detail.
#[derive(Clone, Copy, Debug)]
enum What {
    Direct,
    Syscall,
    Vsyscall,
    Unfetchable,
    Event,
    Spilled,
    Bound,
    Far,
}

/// A branch that leaves a block.
///
/// ```text
///  what: | from the site to its stub 24 | linked 1 | kind 3 | arrival or length 4 |
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Exit {
    /// Address in the program, by the exit's kind.
    pc: u64,
    /// Address of the branch displacement, from the arena's beginning.
    site: i32,
    what: u32,
    /// Block of the branch; `NO_BLOCK`: the id is free.
    pub block: BlockId,
    pub next_incoming: u32,
}

const KIND_SHIFT: u32 = 4;
const LINKED: u32 = 1 << 7;
const STUB_SHIFT: u32 = 8;

impl Exit {
    /// An exit of no block.
    pub const FREE: Exit = Exit {
        pc: 0,
        site: 0,
        what: 0,
        block: NO_BLOCK,
        next_incoming: NO_EXIT,
    };

    /// An exit by a branch at `site` with its stub, which lies after it in the same
    /// segment; not linked yet.
    pub fn new(kind: ExitKind, block: BlockId, arena: u64, site: u64, stub: u64) -> Exit {
        let (what, pc, detail) = match kind {
            ExitKind::Direct(key) => (What::Direct, key.pc, key.arrival as u8),
            ExitKind::Spilled(key) => (What::Spilled, key.pc, key.arrival as u8),
            ExitKind::Syscall { pc, len } => (What::Syscall, pc, len),
            ExitKind::Vsyscall(pc) => (What::Vsyscall, pc, 0),
            ExitKind::Unfetchable(pc) => (What::Unfetchable, pc, 0),
            ExitKind::Event(key) => (What::Event, key.pc, key.arrival as u8),
            ExitKind::Bound(key) => (What::Bound, key.pc, key.arrival as u8),
            ExitKind::Far { pc } => (What::Far, pc, 0),
        };
        let stub = stub - site;
        assert!(stub < 1 << 24 && detail < 1 << KIND_SHIFT);
        Exit {
            pc,
            site: i32::try_from(site.wrapping_sub(arena) as i64)
                .expect("the cache is smaller than 2 GB"),
            what: (stub as u32) << STUB_SHIFT | (what as u32) << KIND_SHIFT | u32::from(detail),
            block,
            next_incoming: NO_EXIT,
        }
    }

    pub fn kind(&self) -> ExitKind {
        const DIRECT: u32 = What::Direct as u32;
        const SYSCALL: u32 = What::Syscall as u32;
        const VSYSCALL: u32 = What::Vsyscall as u32;
        const UNFETCHABLE: u32 = What::Unfetchable as u32;
        const SPILLED: u32 = What::Spilled as u32;
        const BOUND: u32 = What::Bound as u32;
        const FAR: u32 = What::Far as u32;
        let (pc, detail) = (self.pc, (self.what & 15) as u8);
        let key = Key {
            pc,
            arrival: Arrival::from_code(detail),
        };
        match self.what >> KIND_SHIFT & 7 {
            DIRECT => ExitKind::Direct(key),
            SYSCALL => ExitKind::Syscall { pc, len: detail },
            VSYSCALL => ExitKind::Vsyscall(pc),
            UNFETCHABLE => ExitKind::Unfetchable(pc),
            SPILLED => ExitKind::Spilled(key),
            BOUND => ExitKind::Bound(key),
            FAR => ExitKind::Far { pc },
            _ => ExitKind::Event(key),
        }
    }

    pub fn is_linked(&self) -> bool {
        self.what & LINKED != 0
    }

    pub fn set_linked(&mut self, linked: bool) {
        self.what = self.what & !LINKED | if linked { LINKED } else { 0 };
    }

    /// Address of the branch displacement.
    pub fn site(&self, arena: u64) -> u64 {
        arena.wrapping_add_signed(i64::from(self.site))
    }

    /// Address after the branch.
    pub fn after(&self, arena: u64) -> u64 {
        self.site(arena) + 4
    }

    pub fn stub(&self, arena: u64) -> u64 {
        self.site(arena) + u64::from(self.what >> STUB_SHIFT)
    }
}

/// All blocks by key. Keys are looked at where the blocks are: most of what a
/// large program runs it runs once, and 16 bytes more for each would be for
/// nothing.
#[derive(Debug, Default)]
pub struct BlockMap {
    table: HashTable<BlockId>,
    starts: Starts,
}

impl BlockMap {
    fn hash(key: Key) -> u64 {
        BuildHasherDefault::<PcHasher>::default().hash_one(key)
    }

    #[inline]
    pub fn get(&self, key: Key, blocks: &Slab<Block>) -> Option<BlockId> {
        match self.starts.may_contain(key.pc) {
            true => self.find(key, blocks),
            false => None,
        }
    }

    fn find(&self, key: Key, blocks: &Slab<Block>) -> Option<BlockId> {
        let is_it = |id: &BlockId| blocks[id.0 as usize].key() == key;
        self.table.find(Self::hash(key), is_it).copied()
    }

    /// Enters a block under its key; another one that was there is forgotten.
    pub fn insert(&mut self, id: BlockId, blocks: &Slab<Block>) {
        let key_of = |id: &BlockId| blocks[id.0 as usize].key();
        let key = key_of(&id);
        let is_it = |id: &BlockId| key_of(id) == key;
        let rehash = |id: &BlockId| Self::hash(key_of(id));
        let entry = self.table.entry(Self::hash(key), is_it, rehash);
        *entry.or_insert(id).get_mut() = id;
        self.starts.add(key.pc);
    }

    pub fn bytes(&self) -> usize {
        self.table.allocation_size()
    }

    /// Removes a block, if it is the one under its key.
    pub fn remove(&mut self, id: BlockId, blocks: &Slab<Block>) {
        let key = blocks[id.0 as usize].key();
        if let Ok(entry) = self.table.find_entry(Self::hash(key), |&other| other == id) {
            entry.remove();
        }
    }
}

/// A set of addresses that may hold more than it was given: those with the same
/// low bits, too. Never forgets.
#[derive(Debug)]
pub struct Seen<const BITS: u64>(alloc::boxed::Box<[u64]>);

/// Which addresses may have a block: asked at every instruction and exit that is
/// translated, where the table would be a miss of the processor's caches.
type Starts = Seen<{ 1 << 20 }>;
/// Targets of backward branches: loop heads, as far as they are of interest.
pub type Heads = Seen<{ 1 << 16 }>;

impl<const BITS: u64> Default for Seen<BITS> {
    fn default() -> Seen<BITS> {
        Seen(alloc::vec![0; (BITS / 64) as usize].into_boxed_slice())
    }
}

impl<const BITS: u64> Seen<BITS> {
    fn place(pc: u64) -> (usize, u64) {
        let bit = pc % BITS;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    pub fn add(&mut self, pc: u64) {
        let (word, bit) = Self::place(pc);
        self.0[word] |= bit;
    }

    pub fn may_contain(&self, pc: u64) -> bool {
        let (word, bit) = Self::place(pc);
        self.0[word] & bit != 0
    }
}

/// Multiplicative hashing is enough: keys are addresses, not hostile input. Each bit of a product depends
/// on the bits below only, and addresses of pages and functions end in zeros; so the upper bits become the lower
/// ones, by which tables choose.
#[derive(Clone, Copy, Debug, Default)]
pub struct PcHasher(u64);

impl core::hash::Hasher for PcHasher {
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517C_C1B7_2722_0A95);
    }
}
