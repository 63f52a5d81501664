//! Makes a random program of a seed: its shape, its functions, their tables.
//!
//! Problem: random code must end, soon, and every value it shows must be
//! defined by the architecture, whatever addresses it runs at.
//!
//! Approach: a function calls only functions with a higher number, loops have
//! constant counts, and each function's cost (roughly its nanoseconds when
//! translated) is added up while it is made; what would cost too much is not
//! written. Which flags have no defined value is followed through straight code;
//! an instruction that reads one is preceded by one that defines all, and all
//! are defined where control flow meets. Addresses stay in r13 and rsp.
//!
//! Invariant: equal seeds and features give equal programs.

use std::fmt::Write;

use super::chunks;
use super::forms::{DEFINERS, Form, GROUPS, Group, Needs};
use super::operands::{self, Place};
use super::random::Random;
use super::source::{Function, Piece, Source};

/// Cost of a round and of a program, in nanoseconds, roughly.
const ROUND_COST: usize = 2_000_000;
const PROGRAM_COST: usize = 120_000_000;
/// Largest cost of a program that is stepped.
const STEPPED_COST: usize = 20_000;

/// Features of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// BMI, ADX and what came with them.
    pub bits: bool,
    /// AVX2 and FMA.
    pub avx: bool,
    /// AVX-512 F, BW, DQ, VL.
    pub avx512: bool,
}

impl Features {
    /// Features of this machine.
    #[must_use]
    pub fn of_this_cpu() -> Self {
        let has = |flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
            crate::program::missing_feature(&flags).is_none()
        };
        Self {
            bits: has(&[
                "bmi1",
                "bmi2",
                "adx",
                "popcnt",
                "movbe",
                "abm",
                "sse4_2",
                "aes",
                "pclmulqdq",
            ]),
            avx: has(&["avx2", "fma"]),
            avx512: has(&["avx512f", "avx512bw", "avx512dq", "avx512vl"]),
        }
    }
}

/// The kind of a program.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Seed that it was made of.
    pub seed: u64,
    /// Words for the compiler.
    pub build: &'static str,
    /// Name of its first function.
    pub entry: &'static str,
    /// Threads that run the functions.
    pub threads: usize,
    /// Calls of f0.
    pub rounds: usize,
    /// 0: SSE, 1: AVX, 2: AVX-512.
    pub vectors: usize,
    /// Alarms interrupt it.
    pub storm: bool,
    /// Alarms, and how far apart.
    pub alarms: (usize, usize),
    /// It handles its faults.
    pub faults: bool,
    /// Alarms may not interrupt the handler of faults.
    pub faults_masked: bool,
    /// It is short, and its instructions are counted by stepping too.
    pub stepped: bool,
    /// Its functions lie in pages that can be written.
    pub writable: bool,
    /// The page it copies code to is never writable and executable at once.
    pub protects: bool,
}

impl Shape {
    fn new(seed: u64, features: Features, random: &mut Random) -> Self {
        // No C library: quick. The others share the address space with one.
        let (build, entry) = match random.below(10) {
            0..=6 => ("cc -nostdlib -static -no-pie", "_start"),
            7 => ("cc -nostdlib -pie", "_start"),
            8 => ("cc -no-pie", "main"),
            _ => ("cc -pie", "main"),
        };
        let threads = match random.below(8) {
            0 => 2,
            1 => 4,
            _ => 1,
        };
        let most = if features.avx512 {
            2
        } else {
            usize::from(features.avx)
        };
        let (storm, faults) = (random.percent(50), random.percent(40));
        Self {
            seed,
            build,
            entry,
            threads,
            rounds: 1,
            vectors: random.range(0, most),
            storm,
            alarms: (random.range(20, 1000), random.range(1, 4)),
            faults,
            // The dynamic linker's and the C library's ways depend on addresses.
            stepped: threads == 1
                && !storm
                && !faults
                && build.contains("-static")
                && random.percent(50),
            faults_masked: random.percent(50),
            writable: threads == 1 && random.percent(30),
            protects: random.percent(30),
        }
    }

    /// Largest costs of a round, and of the whole program.
    const fn costs(&self) -> (usize, usize) {
        match self.stepped {
            true => (STEPPED_COST, STEPPED_COST),
            false => (ROUND_COST, PROGRAM_COST),
        }
    }

    /// Head comment and parameters.
    pub fn head(&self) -> String {
        let number = |flag: bool| u8::from(flag);
        let mask = if self.faults_masked { "-1" } else { "0" };
        format!(
            "// A random program of the soak, seed {seed}.\n// build: {build}\n\
             #define SEED {seed:#x}\n#define ENTRY {entry}\n#define THREADS {threads}\n\
             #define ROUNDS {rounds}\n#define VECTORS {vectors}\n#define STORM {storm}\n\
             #define ALARMS {alarms}\n#define PACE {pace}\n#define FAULTS {faults}\n\
             #define FAULT_MASK {mask}\n",
            seed = self.seed,
            build = self.build,
            entry = self.entry,
            threads = self.threads,
            rounds = self.rounds,
            vectors = self.vectors,
            storm = number(self.storm),
            alarms = self.alarms.0,
            pace = self.alarms.1,
            faults = number(self.faults),
        )
    }

    /// Section of the functions.
    #[must_use]
    pub const fn section(&self) -> &'static str {
        if self.writable {
            ".hot, \"awx\", @progbits"
        } else {
            ".text"
        }
    }
}

/// Facts about a function that was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub cost: usize,
    /// Arguments it takes off the stack.
    pub arguments: usize,
    /// It may be copied.
    pub copied: bool,
}

/// The state while a program is made.
pub(super) struct Maker {
    pub random: Random,
    pub shape: Shape,
    features: Features,
    /// Functions by number; those with a higher number than the current one are known.
    pub known: Vec<Option<Known>>,
    /// The current function.
    pub current: usize,
    pub place: Place,
    /// Flags without a defined value, one bit each.
    undefined: u8,
    /// Cost of the current function so far.
    pub cost: usize,
    /// Tables for the end of the program.
    pub data: String,
    labels: usize,
}

/// The program of `seed`.
#[must_use]
pub fn generate(seed: u64, features: Features) -> Source {
    let mut random = Random::new(seed);
    let shape = Shape::new(seed, features, &mut random);
    let count = random.range(2, 14);
    let mut maker = Maker {
        random,
        shape,
        features,
        known: vec![None; count],
        current: 0,
        place: Place::default(),
        undefined: 0,
        cost: 0,
        data: String::new(),
        labels: 0,
    };
    maker.place.threads = maker.shape.threads > 1;
    let mut functions: Vec<Function> = (0..count)
        .rev()
        .map(|index| maker.function(index))
        .collect();
    functions.reverse();
    maker.table_of_functions();
    let cost = maker.known[0].map_or(1, |known| known.cost) * maker.shape.threads;
    let most = (maker.shape.costs().1 / cost.max(1)).clamp(1, 600);
    maker.shape.rounds = maker.random.range(most.div_ceil(2), most);
    Source {
        shape: maker.shape,
        functions,
        data: maker.data,
    }
}

impl Maker {
    fn function(&mut self, index: usize) -> Function {
        self.current = index;
        self.cost = 10;
        self.undefined = 0;
        self.place.copied = index > 0 && self.random.percent(25);
        let arguments = match index {
            0 => 0,
            _ => self.random.below(8).saturating_sub(5),
        };
        let recursion =
            index > 0 && !self.place.copied && arguments == 0 && self.random.percent(12);
        let chunks = self.random.range(1, if self.place.copied { 3 } else { 7 });
        let mut body: Vec<Piece> = (0..chunks).map(|_| chunks::chunk(self, 0, 1)).collect();
        if recursion {
            body = vec![chunks::recursion(self, body)];
        }
        let tail = self.tail(arguments);
        self.known[index] = Some(Known {
            cost: self.cost,
            arguments,
            copied: self.place.copied,
        });
        Function {
            head: format!("{}\nf{index}:", self.padding()),
            body,
            tail,
        }
    }

    /// Last instruction of a function that takes `arguments` off the stack.
    fn tail(&mut self, arguments: usize) -> String {
        let returns = match arguments {
            0 => "ret".to_owned(),
            _ => format!("ret {}", arguments * 8),
        };
        if self.place.copied || self.random.percent(75) {
            return returns;
        }
        let Some(callee) = self.callee(1, |known| known.arguments == arguments) else {
            return returns;
        };
        match self.random.below(3) {
            0 => format!("jmp f{callee}"),
            1 => format!("lea r13, [rip + f{callee}]; jmp r13"),
            _ => format!("jmp qword ptr [rip + functions + {}]", callee * 8),
        }
    }

    /// Puts functions at odd addresses and across pages.
    fn padding(&mut self) -> String {
        match self.random.below(5) {
            0 => format!(
                ".balign 4096, 0xcc; .skip {}, 0xcc",
                4096 - self.random.range(1, 90)
            ),
            1 => ".balign 64, 0xcc".to_owned(),
            _ => format!(".skip {}, 0xcc", self.random.range(1, 40)),
        }
    }

    /// A function that may be called `times` times from here; its cost is added.
    pub(super) fn callee(&mut self, times: usize, fits: impl Fn(Known) -> bool) -> Option<usize> {
        let limit = self.shape.costs().0;
        let candidates: Vec<(usize, Known)> = (self.current + 1..self.known.len())
            .filter_map(|index| Some((index, self.known[index]?)))
            .filter(|&(_, known)| fits(known) && self.cost + known.cost * times < limit)
            .collect();
        if candidates.is_empty() {
            return None;
        }
        let (index, known) = *self.random.pick(&candidates);
        self.cost += known.cost * times;
        Some(index)
    }

    /// Adds `cost` unless it is too much.
    pub(super) fn affords(&mut self, cost: usize) -> bool {
        let affords = self.cost + cost < self.shape.costs().0;
        if affords {
            self.cost += cost;
        }
        affords
    }

    pub(super) fn label(&mut self) -> String {
        self.labels += 1;
        format!("L{}", self.labels)
    }

    /// One random instruction, or several that stay together; executed `times` times.
    pub(super) fn instruction(&mut self, times: usize) -> Piece {
        let usable: Vec<&Group> = GROUPS
            .iter()
            .filter(|group| self.has(group.needs))
            .collect();
        let total: usize = usable.iter().map(|group| group.weight).sum();
        let mut left = self.random.below(total);
        let mut chosen = usable[0];
        for group in usable {
            chosen = group;
            if left < group.weight {
                break;
            }
            left -= group.weight;
        }
        let mut form = self.random.pick(chosen.forms);
        let cost = match chosen.needs {
            Needs::Faults => 20_000,
            _ if form.text.contains("syscall") => 2_000,
            _ if form.text.contains("ecx, %C") => 60,
            _ => 2,
        };
        if !self.affords(cost * times) {
            form = self.random.pick(DEFINERS);
        }
        self.write(form)
    }

    fn write(&mut self, form: &Form) -> Piece {
        let mut text = String::new();
        if self.undefined & bits(form.reads) != 0 {
            text = self.definer() + "; ";
        }
        text += &operands::fill(form.text, self.place, &mut self.random);
        self.undefined = self.undefined & !bits(form.defines) | bits(form.undefines);
        Piece::leaf(text)
    }

    /// An instruction that defines every flag.
    pub(super) fn definer(&mut self) -> String {
        self.undefined = 0;
        let form = self.random.pick(DEFINERS);
        operands::fill(form.text, self.place, &mut self.random)
    }

    /// Straight code, after which all flags are defined.
    pub(super) fn straight(&mut self, most: usize, times: usize) -> Vec<Piece> {
        let length = self.random.range(1, most);
        let mut pieces: Vec<Piece> = (0..length).map(|_| self.instruction(times)).collect();
        if self.undefined != 0 {
            pieces.push(Piece::leaf(self.definer()));
        }
        pieces
    }

    fn has(&self, needs: Needs) -> bool {
        match needs {
            Needs::Nothing => true,
            Needs::Bits => self.features.bits,
            Needs::Avx => self.shape.vectors >= 1,
            Needs::Avx512 => self.shape.vectors >= 2,
            Needs::Faults => self.shape.faults,
            Needs::Fixed => !self.place.copied,
        }
    }

    fn table_of_functions(&mut self) {
        self.data
            .push_str("        .data\n        .balign 8\nfunctions:\n");
        for index in 0..self.known.len() {
            // Writing to a string cannot fail.
            let _ = writeln!(self.data, "        .quad f{index}");
        }
    }
}

fn bits(flags: &str) -> u8 {
    flags.bytes().fold(0, |bits, flag| {
        let index = super::forms::ALL.bytes().position(|known| known == flag);
        bits | 1 << index.expect("the tables name only flags that exist")
    })
}
