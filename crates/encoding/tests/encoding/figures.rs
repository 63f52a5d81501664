//! Figures 2, 4, 5, 7, 8 and 9 of the paper, with its numbers.

use encoding::hybrid::{Hybrid, Moment, Step as Hybrids};
use encoding::{
    CallGraph, Context, Edge, Entry, Heads, Kind, NoContext, Numbering, Options, Rung, Site, State,
    Step,
};

const PAPER: Options = Options {
    by_function: false,
    most: 1 << 32,
    heads: Heads::First,
    unrolled: 0,
};

/// Functions have the names A, B, ...; calls are of two of them, in the order in which they are numbered.
struct Named {
    graph: CallGraph,
}

impl Named {
    fn new(roots: &str, calls: &[&str]) -> Named {
        let number = |name: u8| u32::from(name - b'A');
        let names = calls.iter().flat_map(|call| call.bytes());
        let mut graph = CallGraph {
            functions: names.map(number).max().map_or(0, |last| last + 1),
            roots: roots.bytes().map(number).collect(),
            ..CallGraph::default()
        };
        for (site, call) in (0..).zip(calls) {
            let [caller, callee] = call.as_bytes() else {
                panic!("{call}");
            };
            graph.sites.push(Site {
                caller: number(*caller),
                kind: Kind::Closed,
            });
            graph.edges.push(Edge {
                site,
                callee: number(*callee),
                weight: 0,
            });
        }
        Named { graph }
    }

    fn function(name: char) -> u32 {
        u32::from(name) - u32::from('A')
    }

    /// The edge of a call, of which the first is meant.
    fn edge(&self, call: &str) -> u32 {
        let mut names = call.chars().map(Named::function);
        let (caller, callee) = (names.next(), names.next());
        let mut edges = 0..self.graph.edges.len() as u32;
        let is_it = |edge: &u32| {
            Some(self.graph.caller(*edge)) == caller
                && Some(self.graph.edges[*edge as usize].callee) == callee
        };
        edges.find(is_it).expect("the call")
    }

    /// The context behind a row of calls, from the root on.
    fn context(&self, numbering: &Numbering, path: &str) -> Context {
        let names: Vec<char> = path.chars().collect();
        let mut state = State::new(numbering, Named::function(names[0]));
        for call in names.windows(2) {
            let call: String = call.iter().collect();
            state.call(self.edge(&call));
        }
        state.context().clone()
    }

    /// The path that a context of a function says, a word for each piece, and how often it comes.
    fn path(&self, numbering: &Numbering, context: &Context, function: char) -> Vec<(String, u64)> {
        let name = |function: u32| char::from(b'A' + function as u8);
        let pieces = numbering.decode(context, Named::function(function));
        let pieces = pieces.expect("a path has it").into_iter();
        let shown = pieces.map(|piece| {
            let calls = piece.calls.iter().map(|(_, callee)| name(*callee));
            let all: String = [name(piece.head)].into_iter().chain(calls).collect();
            (all, piece.times)
        });
        shown.collect()
    }
}

fn once(piece: &str) -> (String, u64) {
    (piece.to_owned(), 1)
}

#[test]
fn figure_2_one_call_adds() {
    let named = Named::new("A", &["AB", "AC", "BD", "CD", "DE", "DF"]);
    let numbering = Numbering::of(&named.graph, PAPER);
    for (call, adds) in [
        ("AB", 0),
        ("AC", 0),
        ("BD", 0),
        ("CD", 1),
        ("DE", 0),
        ("DF", 0),
    ] {
        let edge = named.edge(call);
        assert_eq!(numbering.step(edge, 0), Step::Add(adds), "{call}");
    }
    for (path, id) in [("ABDE", 0), ("ABDF", 0), ("ACDE", 1), ("ACDF", 1)] {
        assert_eq!(named.context(&numbering, path).id, id, "{path}");
    }
}

/// The acyclic example: figure 4's functions that the text has numbers of.
fn figure_4() -> Named {
    // D calls F from two sites.
    let calls = [
        "AB", "AJ", "BD", "JD", "DF", "DF", "DG", "JG", "FI", "GI", "JI",
    ];
    Named::new("A", &calls)
}

#[test]
fn figure_4_ranges_are_of_callers() {
    let named = figure_4();
    let numbering = Numbering::of(&named.graph, PAPER);
    let counts = [
        ('A', 1),
        ('B', 1),
        ('J', 1),
        ('D', 2),
        ('F', 4),
        ('G', 3),
        ('I', 8),
    ];
    for (function, count) in counts {
        assert_eq!(
            numbering.count(Named::function(function)),
            count,
            "{function}"
        );
    }
    for (call, adds) in [("FI", 0), ("GI", 4), ("JI", 7), ("JG", 2), ("JD", 1)] {
        assert_eq!(
            numbering.step(named.edge(call), 0),
            Step::Add(adds),
            "{call}"
        );
    }
    assert_eq!(numbering.step(5, 0), Step::Add(2), "D's other call of F");
    let context = named.context(&numbering, "AJGI");
    assert_eq!((context.id, context.stack.len()), (6, 0));
    assert_eq!(named.path(&numbering, &context, 'I'), [once("AJGI")]);
    let none = Context {
        id: 8,
        stack: Vec::new(),
    };
    let function = Named::function('I');
    let refused = numbering.decode(&none, function);
    assert_eq!(refused, Err(NoContext::Id { function, id: 8 }));
}

#[test]
fn figure_5_recursion_is_pushed() {
    // A, B, C, D, E, F, G; H is what F calls, too.
    let calls = ["AB", "BE", "AC", "CD", "CG", "DE", "DF", "GF", "FC", "FH"];
    let named = Named::new("A", &calls);
    let numbering = Numbering::of(&named.graph, PAPER);
    assert_eq!(numbering.step(named.edge("FC"), 3), Step::Push);
    assert_eq!(numbering.step(named.edge("AC"), 0), Step::Add(1));
    let site = named.graph.edges[named.edge("FC") as usize].site;
    let pushed = |id, times| Entry { id, site, times };
    let context = named.context(&numbering, "ACGFCDE");
    assert_eq!((context.id, &context.stack[..]), (1, &[pushed(3, 1)][..]));
    assert_eq!(
        named.path(&numbering, &context, 'E'),
        [once("ACGF"), once("CDE")]
    );
    let context = named.context(&numbering, "ACGFCDFH");
    assert_eq!((context.id, &context.stack[..]), (0, &[pushed(3, 1)][..]));
    // A path that does not go through a cycle is one number, though it has a function of one.
    assert_eq!(named.context(&numbering, "ACGFH").stack, []);
    let context = named.context(&numbering, "ACGFCGFCGFCGF");
    assert_eq!(context.stack, [pushed(3, 1), pushed(2, 2)]);
    let shown = named.path(&numbering, &context, 'F');
    assert_eq!(shown, [once("ACGF"), ("CGF".to_owned(), 2), once("CGF")]);
}

#[test]
fn figure_7_depths_say_what_numbers_need_not() {
    let named = figure_4();
    // AB AJ BD JD DF DF DG JG FI GI JI
    let frames = [1, 1, 2, 3, 1, 1, 1, 3, 3, 1, 1].map(Some);
    let hybrid = Hybrid::of(&named.graph, &frames, 1 << 32);
    let steps =
        ["AB", "AJ", "BD", "JD", "DF", "DG", "JI"].map(|call| hybrid.step(named.edge(call)));
    assert_eq!(steps, [Hybrids::Nothing; 7]);
    assert_eq!(hybrid.step(5), Hybrids::Add(2), "D's other call of F");
    assert_eq!(hybrid.step(named.edge("JG")), Hybrids::Add(2));
    assert_eq!(hybrid.step(named.edge("GI")), Hybrids::AddIfExplicit(4));
    assert_eq!(hybrid.implicit(Named::function('D')), 2);
    assert_eq!(hybrid.implicit(Named::function('G')), 2);
    let decoded = |function, id, depth| {
        let function = Named::function(function);
        let (head, edges) = hybrid.decode(Moment {
            function,
            id,
            depth,
        })?;
        let name = |function: u32| char::from(b'A' + function as u8);
        let callees = edges
            .iter()
            .map(|edge| name(named.graph.edges[*edge as usize].callee));
        Some([name(head)].into_iter().chain(callees).collect::<String>())
    };
    assert_eq!(decoded('G', 0, 5).as_deref(), Some("AJDG"));
    assert_eq!(decoded('I', 6, 5).as_deref(), Some("AJGI"));
    assert_eq!(decoded('G', 0, 6), None);
}

/// Entries of the stack behind a path through cycles, and without repetitions, as they are numbered flat and unrolled once.
fn entries(calls: &[&str], path: &str) -> [(usize, u64); 2] {
    [0, 1].map(|unrolled| {
        let named = Named::new("A", calls);
        let options = Options { unrolled, ..PAPER };
        let numbering = Numbering::of(&named.graph, options);
        let context = named.context(&numbering, path);
        let function = path.chars().next_back().expect("a function");
        let pieces = named.path(&numbering, &context, function).into_iter();
        let shown = pieces.map(|(piece, times)| piece.repeat(times as usize));
        assert_eq!(shown.collect::<String>(), path);
        let times = context.stack.iter().map(|entry| entry.times);
        (context.stack.len(), times.sum())
    })
}

#[test]
fn figure_8_regular_recursion_has_few_entries() {
    let simple = ["AB", "BC", "CA"];
    assert_eq!(entries(&simple, &"ABC".repeat(10)), [(1, 9), (1, 4)]);
    let two_paths = ["AB", "BC", "AC", "CA"];
    assert_eq!(entries(&two_paths, &"ACABC".repeat(10)), [(19, 19), (1, 9)]);
    let nested = ["AB", "BC", "CB", "CA"];
    assert_eq!(entries(&nested, &"ABCBC".repeat(10)), [(19, 19), (1, 9)]);
    // Two ways into the cycle of B and C.
    let irreducible = ["AB", "AC", "BC", "CB", "CA"];
    assert_eq!(
        entries(&irreducible, &"ACBCABC".repeat(5)),
        [(14, 14), (7, 7)]
    );
}

#[test]
fn figure_9_recursion_is_unrolled() {
    // E to H and A's own beginning make five paths of A.
    let calls = ["EA", "FA", "GA", "HA", "BA", "AB", "BC", "AC", "CA", "CD"];
    let named = Named::new("AEFGH", &calls);
    let flat = Numbering::of(&named.graph, PAPER);
    let count = |function| flat.count(Named::function(function));
    assert_eq!(
        (count('A'), count('B'), count('C'), count('D')),
        (5, 5, 10, 10)
    );
    assert_eq!(flat.step(named.edge("AC"), 0), Step::Add(5));
    let options = Options {
        unrolled: 1,
        ..PAPER
    };
    let numbering = Numbering::of(&named.graph, options);
    let rungs = |call| numbering.rungs(named.edge(call)).to_vec();
    let add = |below, number| Rung {
        below,
        step: Step::Add(number),
    };
    assert_eq!(rungs("AB"), [add(u64::MAX, 0)]);
    assert_eq!(rungs("AC"), [add(10, 5), add(u64::MAX, 25)]);
    let push = Rung {
        below: u64::MAX,
        step: Step::Push,
    };
    assert_eq!(rungs("BA"), [add(10, 10), push]);
    assert_eq!(rungs("CA"), [add(10, 15), push]);
    assert_eq!(rungs("CD"), [add(10, 0), add(u64::MAX, 10)]);
    assert_eq!(numbering.count(Named::function('C')), 50);
    let context = named.context(&numbering, "ABABC");
    assert_eq!((context.id, context.stack.len()), (10, 0));
    let context = named.context(&numbering, "ABABCABABCABABC");
    let site = named.graph.edges[named.edge("CA") as usize].site;
    let pushed = Entry {
        id: 10,
        site,
        times: 2,
    };
    assert_eq!((context.id, &context.stack[..]), (10, &[pushed][..]));
    let shown = named.path(&numbering, &context, 'C');
    assert_eq!(shown, [("ABABC".to_owned(), 2), once("ABABC")]);
    // The paths whose numbers are equal without the numbers that are left out.
    assert_ne!(
        named.context(&numbering, "ACD").id,
        named.context(&numbering, "ABCABCD").id
    );
}
