//! Numbers of contexts over real programs: at each call and return of a trace, the state that code in the program will keep is decoded
//! to the calls that the trace has.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use analysis::walk::{Event, Pieces, Walk};
use edits::contexts::Calls;
use encoding::{Heads, Numbering, Options, State, Undo};
use flow::Program;
use image::{FileOffset, Image, LinkAddr};
use isa::{Flow, Insn};
use testkit::folder::Folder;

use crate::BINARY;

/// A call that has not returned: where it goes back to, the function, and what the state does then.
struct Frame {
    back: u64,
    site: Option<u32>,
    function: u32,
    undo: Option<Undo>,
    /// The function before went on as this one, and returns with it.
    is_tail: bool,
}

/// Figures of a run.
#[derive(Debug, Default)]
struct Figures {
    functions: u32,
    edges: usize,
    /// Most numbers of a function.
    count: u64,
    calls: u64,
    /// Calls that add nothing, and those that push.
    free: u64,
    pushes: u64,
    /// Sum, and most, of entries of the stack at calls, and calls at which it was empty.
    entries: u64,
    most_entries: usize,
    empty: u64,
    depth: usize,
    /// States that were decoded.
    decoded: u64,
    /// Calls by site and callee.
    counts: BTreeMap<(u32, u32), u64>,
}

/// A thread of a trace, with the state of its contexts.
struct Follower<'n> {
    calls: &'n Calls,
    numbering: &'n Numbering,
    state: Option<State<'n>>,
    frames: Vec<Frame>,
    figures: Figures,
    /// One call of so many is decoded.
    each: u64,
}

impl Follower<'_> {
    /// Control came to a function from a site, or from other code.
    fn call(&mut self, site: Option<u32>, function: u32, back: u64) {
        let undo = match (&mut self.state, site) {
            (Some(state), Some(site)) => Some(match self.calls.edge(site, function) {
                Some(edge) => state.call(edge),
                None => {
                    let head = self.numbering.head(function);
                    assert!(head.is_some(), "no path begins at {function}");
                    state.call_unknown(site, function)
                }
            }),
            _ => {
                self.state = Some(State::new(self.numbering, function));
                None
            }
        };
        self.figures.calls += 1;
        if let Some(site) = site {
            *self.figures.counts.entry((site, function)).or_default() += 1;
        }
        self.figures.free += u64::from(undo == Some(Undo::Subtract(0)));
        self.figures.pushes += u64::from(undo == Some(Undo::Pop));
        self.frames.push(Frame {
            back,
            site,
            function,
            undo,
            is_tail: false,
        });
        let stack = self
            .state
            .as_ref()
            .map_or(0, |state| state.context().stack.len());
        self.figures.entries += stack as u64;
        self.figures.most_entries = self.figures.most_entries.max(stack);
        self.figures.empty += u64::from(stack == 0);
        self.figures.depth = self.figures.depth.max(self.frames.len());
        if self.figures.calls.is_multiple_of(self.each) {
            self.check();
        }
    }

    /// The last call ends, with those that went on as it.
    fn end(&mut self) -> Option<Frame> {
        loop {
            let ended = self.frames.pop()?;
            match (ended.undo, &mut self.state) {
                (Some(undo), Some(state)) => state.give_back(undo),
                _ => self.state = None,
            }
            if !ended.is_tail {
                return Some(ended);
            }
        }
    }

    /// Control went back to an address; whether a call goes on there.
    fn give_back(&mut self, to: u64) -> bool {
        let Some(frame) = self.frames.iter().rposition(|frame| frame.back == to) else {
            return false;
        };
        while self.frames.len() > frame {
            self.end();
        }
        true
    }

    /// Control goes on in a function that was active: the calls behind it end.
    fn goes_back_to(&mut self, function: u32) {
        if self.frames.iter().any(|frame| frame.function == function) {
            while self
                .frames
                .last()
                .is_some_and(|frame| frame.function != function)
            {
                self.end();
            }
        }
    }

    /// The state is decoded to the calls.
    fn check(&mut self) {
        let (Some(state), Some(last)) = (&self.state, self.frames.last()) else {
            return;
        };
        let pieces = self.numbering.decode(state.context(), last.function);
        let pieces = pieces.expect("the path is known");
        let decoded: Vec<_> = encoding::calls(&pieces).collect();
        let own = self.frames.iter().rposition(|frame| frame.undo.is_none());
        let own = &self.frames[own.unwrap_or(0)..];
        let shadow = own.iter().enumerate().map(|(number, frame)| match number {
            0 => (None, frame.function),
            _ => (frame.site, frame.function),
        });
        let shadow: Vec<_> = shadow.collect();
        assert_eq!(decoded, shadow);
        self.figures.decoded += 1;
    }
}

/// A run of a program under `trace`.
struct Run {
    image: Image,
    functions: Program,
    recording: trace::Recording,
    path: String,
}

impl Run {
    fn of(program: &Path, arguments: &[&str]) -> Run {
        let folder = Folder::new("numbered-contexts");
        let shown = program.display().to_string();
        let mut words = vec![
            "trace",
            "-q",
            "--no-shared-libs",
            "-o",
            "run.evp",
            "--",
            &shown,
        ];
        words.extend(arguments);
        // Its status and what it says are the program's.
        drop(folder.run(BINARY, &words));
        let image = Image::open_whole(program).expect("a program");
        let recording = fs::File::open(folder.file("run.evp")).expect("a recording");
        let path = fs::canonicalize(program).expect("it is there");
        Run {
            functions: Program::of(&image),
            image,
            recording: trace::read(recording).expect("it is sound"),
            path: path.display().to_string(),
        }
    }
}

/// An instruction, the function that begins with it, and the one that it is in.
#[derive(Clone, Copy)]
struct Executed {
    flow: Flow,
    at: LinkAddr,
    next: u64,
    entered: Option<u32>,
    function: u32,
}

/// Follows the contexts of a program's own code.
fn follow(run: &Run, calls: &Calls, options: Options, each: u64) -> Figures {
    let Run {
        image,
        functions,
        recording,
        path,
    } = run;
    let numbering = Numbering::of(&calls.graph, options);
    let counts = (0..calls.graph.functions).map(|function| numbering.count(function));
    let mut follower = Follower {
        calls,
        numbering: &numbering,
        state: None,
        frames: Vec::new(),
        figures: Figures {
            functions: calls.graph.functions,
            edges: calls.graph.edges.len(),
            count: counts.max().unwrap_or(0),
            ..Figures::default()
        },
        each,
    };
    let process = &recording.processes[0];
    let own = process.modules.iter().filter(|module| module.path == *path);
    let own: Vec<_> = own.collect();
    let link = |pc: u64| {
        let module = own
            .iter()
            .find(|module| (module.start..module.end).contains(&pc))?;
        image.link_addr(FileOffset(pc - module.start + module.offset))
    };
    let mut pieces = Pieces::of(process);
    let mut walk = Walk::new(&mut pieces, &process.threads[0]);
    // The last instruction, if control may go elsewhere behind it: its kind, where it is, and the address behind it.
    let mut last: Option<(Flow, LinkAddr, u64)> = None;
    let mut is_gone = false;
    let mut known: HashMap<u64, Option<Executed>> = HashMap::new();
    loop {
        let steps = match walk.next() {
            None => break,
            Some(Ok(Event::Executed(steps))) => steps.to_vec(),
            Some(Ok(_)) => {
                // It executes other code.
                is_gone = true;
                continue;
            }
            Some(Err(error)) => panic!("{error}"),
        };
        for step in steps {
            let own = known.entry(step.pc).or_insert_with(|| {
                let at = link(step.pc)?;
                // Stubs of the dynamic linker are no functions, but ways to other code.
                let function = calls.entered(functions.function_at(at)?.entry)?;
                let insn = Insn::decode(&walk.code().bytes(&step), step.pc);
                let insn = insn.expect("it was executed");
                Some(Executed {
                    flow: insn.flow(),
                    at,
                    next: insn.next_pc(),
                    entered: calls.entered(at),
                    function,
                })
            });
            let Some(Executed {
                flow,
                at,
                next,
                entered,
                function,
            }) = *own
            else {
                continue;
            };
            let was_gone = std::mem::take(&mut is_gone);
            match (last.take(), entered) {
                (Some((Flow::Call(_) | Flow::IndirectCall, call, back)), Some(function)) => {
                    follower.call(calls.site(call), function, back);
                }
                // A call of other code came back; or `longjmp` ended activations.
                (Some((Flow::Call(_) | Flow::IndirectCall, _, back)), None) => {
                    if step.pc != back && was_gone {
                        follower.goes_back_to(function);
                    }
                }
                (Some((flow, jump, _)), entered) => {
                    let returns = matches!(flow, Flow::Return(_));
                    if (returns || was_gone) && follower.give_back(step.pc) {
                        // A call came back.
                    } else if let (Some(function), true) = (entered, returns) {
                        // Other code called back, and calls back again.
                        if let Some(ended) = follower.end() {
                            follower.call(ended.site, function, ended.back);
                        }
                    } else if let Some(function) = entered {
                        goes_on(&mut follower, jump, function);
                    }
                }
                (None, _) => {}
            }
            last = Some((flow, at, next));
        }
    }
    follower.figures
}

/// A function goes on as another one, by a jump.
fn goes_on(follower: &mut Follower<'_>, jump: LinkAddr, function: u32) {
    let Some(own) = follower.frames.last_mut() else {
        follower.call(None, function, 0);
        return;
    };
    if own.function == function {
        return;
    }
    let (back, site) = (own.back, follower.calls.site(jump));
    if site.is_some() {
        follower.call(site, function, back);
        let last = follower.frames.last_mut().expect("it was called");
        last.is_tail = true;
    } else if follower.calls.graph.tails[own.function as usize].contains(&function) {
        own.function = function;
    } else {
        panic!("{} does not go on as {function} at {jump:x?}", own.function);
    }
}

/// Follows a run by numbers of the file alone, and by those of one that is known.
fn follow_both(run: &Run, options: Options, each: u64) -> [Figures; 2] {
    let mut calls = Calls::of(&run.functions, None, &[]);
    let first = follow(run, &calls, options, each);
    calls.learn(&first.counts);
    let second = follow(run, &calls, options, each);
    assert_eq!(first.counts, second.counts);
    [first, second]
}

#[test]
fn contexts_of_a_real_program_are_decoded() {
    let run = Run::of(Path::new("/usr/bin/gzip"), &["-c", "/etc/services"]);
    for (heads, unrolled) in [(Heads::First, 0), (Heads::Last, 0), (Heads::Last, 1)] {
        let options = Options {
            heads,
            unrolled,
            ..Options::default()
        };
        for figures in follow_both(&run, options, 5) {
            assert!(figures.decoded > 1000, "{figures:?}");
        }
    }
}

/// Programs and words: the paper's that are here, and large ones.
const PROGRAMS: &[(&str, &[&str])] = &[
    ("/usr/bin/cmp", &["/etc/services", "/etc/protocols"]),
    ("/usr/bin/diff", &["/etc/services", "/etc/protocols"]),
    ("/usr/bin/sdiff", &["/etc/services", "/etc/protocols"]),
    ("/usr/bin/find", &["/usr/share/doc", "-name", "*.gz"]),
    (
        "/usr/bin/grep",
        &["-rE", "(tcp|udp).*[0-9]+", "/etc/services"],
    ),
    ("/usr/bin/tar", &["-cf", "/dev/null", "/usr/include/linux"]),
    ("/usr/bin/make", &["-n", "-p", "-f", "/dev/null"]),
    ("/usr/bin/gzip", &["-c", "/etc/services"]),
    ("/usr/bin/bzip2", &["-c", "/etc/services"]),
    (
        "/usr/bin/gawk",
        &[
            "{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) s += n[w]; print s }",
            "/etc/services",
        ],
    ),
    (
        "/usr/bin/lua5.4",
        &[
            "-e",
            "local function f(n) if n < 2 then return n end return f(n - 1) + f(n - 2) end local t = {} for i = 1, 20 do t[#t + 1] = tostring(f(i)) end print(table.concat(t, ' '))",
        ],
    ),
    (
        "/usr/bin/sqlite3",
        &[
            ":memory:",
            "create table t(a, b); insert into t select value, value % 7 from generate_series(1, 500); select b, sum(a) from t group by b order by 2;",
        ],
    ),
    (
        "/usr/bin/perl",
        &[
            "-e",
            "my %h; for (1 .. 2000) { $h{$_ % 97} .= $_ } print length(join ',', map { $h{$_} } sort keys %h), qq(\n)",
        ],
    ),
    (
        "/usr/bin/python3",
        &[
            "-S",
            "-c",
            "import json; print(len(json.dumps({str(i): [i] * 5 for i in range(200)})))",
        ],
    ),
];

#[test]
#[ignore = "wide: contexts of fourteen programs, minutes; one is in the gate"]
fn contexts_of_many_programs_are_decoded() {
    println!(
        "program functions edges numbers calls | nothing added, pushes, entries, most, empty: of the file, by profile, unrolled"
    );
    for (program, arguments) in PROGRAMS {
        let run = Run::of(Path::new(program), arguments);
        let unrolled = Options {
            unrolled: 1,
            ..Options::default()
        };
        let [own, learned] = follow_both(&run, Options::default(), 10);
        let [_, unrolled] = follow_both(&run, unrolled, 10);
        let bits = |count: u64| 64 - count.leading_zeros();
        let name = program.rsplit('/').next().unwrap_or_default();
        let (functions, edges, calls) = (own.functions, own.edges, own.calls);
        print!("{name} {functions} {edges} {} {calls}", bits(own.count));
        for figures in [own, learned, unrolled] {
            assert!(figures.decoded > 0, "{program}");
            let share = |number: u64| number as f64 * 100.0 / calls as f64;
            let (free, pushes) = (share(figures.free), share(figures.pushes));
            let (entries, empty) = (figures.entries as f64 / calls as f64, share(figures.empty));
            let most = figures.most_entries;
            print!(" | {free:.1} {pushes:.1} {entries:.2} {most} {empty:.0}");
        }
        println!();
    }
}
