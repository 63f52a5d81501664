//! The paper's own examples. Its figures 3.3 to 3.8 are drawings that the text
//! only describes; where a number stands in the text it is checked as it
//! stands, elsewhere an example of the described shape takes the place.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use analysis::cct::{self, Event, Recursion};
use analysis::forest::{
    Builder, K, activations, clear_top_regions, inv_k, join, kccf, ksf_from_recording,
};
use analysis::{Forest, NodeId, oracle};
use trace::Label;

/// Functions by name, numbered as they come.
#[derive(Default)]
struct Names(Vec<String>);

impl Names {
    fn label(&mut self, name: &str) -> Label {
        if name == "__root__" {
            return Label::ROOT;
        }
        let known = self.0.iter().position(|known| known == name);
        let at = known.unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        Label(256 + at as u32)
    }

    fn name(&self, label: Label) -> String {
        match label.is_function() {
            true => self.0[label.0 as usize - 256].clone(),
            false => label.to_string(),
        }
    }

    /// Events of a run in short: a name enters, `.` leaves; `__root__` begins.
    fn events(&mut self, run: &str) -> Vec<Event> {
        run.split_whitespace()
            .map(|word| match word {
                "." => Event::Leave,
                "__root__" => Event::Begin(Label::ROOT),
                name => Event::Enter(self.label(name)),
            })
            .collect()
    }

    /// The layout of the listings, without the decoration.
    fn text(&self, forest: &Forest) -> String {
        let mut text = String::new();
        for node in forest.preorder() {
            let indent = forest.depth(node) as usize * 2;
            let name = self.name(forest.label(node));
            writeln!(text, "{:indent$}{name},{}", "", forest.count(node)).unwrap();
        }
        text
    }

    fn paths(&mut self, counts: &[(&str, u64)]) -> BTreeMap<Vec<Label>, u64> {
        let path =
            |names: &mut Names, path: &str| path.split(' ').map(|n| names.label(n)).collect();
        counts
            .iter()
            .map(|&(text, count)| (path(self, text), count))
            .collect()
    }
}

#[track_caller]
fn assert_listing(names: &Names, forest: &Forest, listing: &str) {
    let lines: Vec<&str> = listing
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let margin = lines
        .iter()
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap();
    let listing: String = lines
        .iter()
        .map(|line| format!("{}\n", &line[margin..]))
        .collect();
    assert_eq!(names.text(forest), listing);
}

fn finite(k: u32) -> K {
    K::Finite(k)
}

/// Figure 3.1. Figure 3.2 counts a call of c from a that the trace, as it has
/// come down to us, lacks: it is the fifth line here.
const FIGURE_3_1: &str = "
    r a
        b .
    c .
    .
    c a
        b .
        b .
    . . .";

#[test]
fn figure_3_2_contexts_of_the_trace_in_figure_3_1() {
    let mut names = Names::default();
    let events = names.events(FIGURE_3_1);
    // The figure leaves out contexts shorter than k + 1 where it has shown
    // them for a smaller k.
    let figure: [&[(&str, u64)]; 4] = [
        &[("r", 1), ("a", 2), ("b", 3), ("c", 2)],
        &[("r a", 1), ("a b", 3), ("a c", 1), ("r c", 1), ("c a", 1)],
        &[("r a b", 1), ("r a c", 1), ("r c a", 1), ("c a b", 2)],
        &[("r c a b", 2)],
    ];
    for (k, contexts) in (0..).zip(figure) {
        let mut counted = oracle::k_contexts(&events, finite(k), Recursion::Unrolled);
        counted.retain(|path, _| path.len() > k as usize);
        assert_eq!(counted, names.paths(contexts), "k = {k}");
    }
}

#[test]
fn figure_3_3_the_cct() {
    let mut names = Names::default();
    let events = names.events(FIGURE_3_1);
    let cct = cct::build(&events, Recursion::Unrolled);
    assert_listing(
        &names,
        &cct,
        "
        r,1
          a,1
            b,1
            c,1
          c,1
            a,1
              b,2
        ",
    );
}

#[test]
fn figure_3_4_kccf_of_the_cct() {
    let mut names = Names::default();
    let events = names.events(FIGURE_3_1);
    let cct = cct::build(&events, Recursion::Unrolled);
    assert_listing(&names, &inv_k(&cct, finite(0)), "r,1\na,2\nb,3\nc,2");
    // "a() has been called 2 times: 1 by r() and 1 by c()".
    assert_listing(
        &names,
        &inv_k(&cct, finite(1)),
        "
        r,1
        a,2
          r,1
          c,1
        b,3
          a,3
        c,2
          a,1
          r,1
        ",
    );
    // "in this example, that value of k is 3: greater values have no effect".
    let full = oracle::paths(&inv_k(&cct, finite(3)));
    assert_ne!(oracle::paths(&inv_k(&cct, finite(2))), full);
    assert_eq!(oracle::paths(&inv_k(&cct, finite(4))), full);
    assert_eq!(oracle::paths(&inv_k(&cct, K::Infinite)), full);
}

#[test]
fn figure_3_5_join() {
    let mut names = Names::default();
    let mut tree = |paths: &[(&str, u64)]| {
        let mut builder = Builder::default();
        for &(path, count) in paths {
            let mut at: Option<NodeId> = None;
            for name in path.split(' ') {
                let label = names.label(name);
                at = Some(match at {
                    None => builder.root(label),
                    Some(at) => builder.child(at, label),
                });
            }
            builder.add(at.unwrap(), count);
        }
        builder.finish()
    };
    // Paths a, ab, abd are in both trees; abc and ac in one each.
    let one = tree(&[("a", 3), ("a b", 2), ("a b c", 1), ("a b d", 5)]);
    let two = tree(&[("a", 4), ("a b", 7), ("a b d", 6), ("a c", 9)]);
    let joined = join([&one, &two]);
    assert_listing(
        &names,
        &joined,
        "
        a,7
          b,9
            c,1
            d,11
          c,9
        ",
    );
}

/// In the shape of figure 3.6: for k = 2 the subtrees T1 (r), T2 and T5 (one
/// node each, labels of their own), T3 and T4 (the same root label).
const FIGURE_3_6: &str = "r  a e . c d . . .  b c d . f . . g . .  .";

#[test]
fn figures_3_6_to_3_8_the_2_sf_and_its_clearing() {
    let mut names = Names::default();
    let events = names.events(FIGURE_3_6);
    let cct = cct::build(&events, Recursion::Unrolled);
    let heads = cct
        .nodes()
        .filter(|&node| finite(2).heads_slab(cct.depth(node)));
    let labels: Vec<String> = heads.map(|node| names.name(cct.label(node))).collect();
    assert_eq!(labels, ["r", "e", "c", "c", "g"]);
    let first_tree = "
        r,1
          a,1
            e,1
            c,1
              d,1
          b,1
            c,1
              d,1
              f,1
            g,1
        ";
    assert_listing(&names, &cct, first_tree);
    let others = "
        e,1
        c,2
          d,2
          f,1
        g,1
        ";
    let ksf = oracle::ksf_online(&events, finite(2), Recursion::Unrolled);
    assert_listing(&names, &ksf, &format!("{first_tree}{others}"));
    let defined = oracle::ksf_of_cct(&cct, finite(2));
    assert_eq!(oracle::paths(&ksf), oracle::paths(&defined));
    // Figure 3.8: nothing but the first tree and bottom regions is left.
    let cleared = clear_top_regions(ksf.clone(), finite(2));
    let others = "
        e,0
        c,0
          d,0
          f,0
        g,0
        ";
    assert_listing(&names, &cleared, &format!("{first_tree}{others}"));
    assert_eq!(cleared.total(), cct.total());
    assert_eq!(
        oracle::paths(&kccf(&ksf, finite(2))),
        oracle::paths(&inv_k(&cct, finite(2)))
    );
}

/// Why clearing all but the first tree is not enough if its root heads a slab
/// again: main calls itself. See the text of the `forest` module.
#[test]
fn a_first_function_that_recurs_needs_the_single_count() {
    let mut names = Names::default();
    let events = names.events("main main . .");
    let defined = oracle::paths(&oracle::kccf(&events, finite(1), Recursion::Unrolled));
    let ksf = oracle::ksf_online(&events, finite(1), Recursion::Unrolled);
    assert_ne!(oracle::paths(&kccf(&ksf, finite(1))), defined);
    let recorded = oracle::record(&events, finite(1), Recursion::Unrolled);
    assert_eq!(
        oracle::paths(&inv_k(&activations(&recorded), finite(1))),
        defined
    );
    // Below a root of its own, as the engine records it, both are right.
    let events = names.events("__root__ main main . .");
    let defined = oracle::paths(&oracle::kccf(&events, finite(1), Recursion::Unrolled));
    let ksf = oracle::ksf_online(&events, finite(1), Recursion::Unrolled);
    assert_eq!(oracle::paths(&kccf(&ksf, finite(1))), defined);
}

/// a(0), a(1) and e() of prog1.c (listing 4.1).
const A0: &str = "a b . c . .";
const A1: &str = "a b . f . .";

fn prog1_main() -> String {
    let e = format!("e d c . c . . c . {A0} .");
    format!("{A0} {e} {e}")
}

/// The forest as it is recorded and restored.
fn recorded(events: &[Event], k: K) -> Forest {
    ksf_from_recording(&oracle::record(events, k, Recursion::Rolled))
}

#[test]
fn listing_4_2_all_functions() {
    let mut names = Names::default();
    let start = "_start __libc_csu_init __i686.get_pc_thunk.bx . \
                 _init frame_dummy . __do_global_ctors_aux . . . .";
    let end = "_fini . __do_global_dtors_aux .";
    let events = names.events(&format!("{start} main {} . {end}", prog1_main()));
    assert_listing(
        &names,
        &recorded(&events, K::Infinite),
        "
        _start,1
          __libc_csu_init,1
            __i686.get_pc_thunk.bx,1
            _init,1
              frame_dummy,1
              __do_global_ctors_aux,1
        main,1
          a,1
            b,1
            c,1
          e,2
            d,2
              c,4
            c,2
            a,2
              b,2
              c,2
        _fini,1
        __do_global_dtors_aux,1
        ",
    );
    let events = names.events(&format!("thread2_func {A1} ."));
    let listing = "
        thread2_func,1
          a,1
            b,1
            f,1
        ";
    assert_listing(&names, &recorded(&events, K::Infinite), listing);
}

/// The two threads of prog1 with `-funcs a,b,c,d,e,f`.
fn prog1_selected(names: &mut Names, k: K) -> [Forest; 2] {
    let main = names.events(&format!("__root__ {}", prog1_main()));
    let thread = names.events(&format!("__root__ {A1}"));
    [recorded(&main, k), recorded(&thread, k)]
}

#[test]
fn listings_4_3_and_4_4_selected_functions_and_joined_threads() {
    let mut names = Names::default();
    let threads = prog1_selected(&mut names, K::Infinite);
    assert_listing(
        &names,
        &threads[0],
        "
        __root__,1
          a,1
            b,1
            c,1
          e,2
            d,2
              c,4
            c,2
            a,2
              b,2
              c,2
        ",
    );
    let listing = "
        __root__,1
          a,1
            b,1
            f,1
        ";
    assert_listing(&names, &threads[1], listing);
    assert_listing(
        &names,
        &join(&threads),
        "
        __root__,2
          a,2
            b,2
            c,1
            f,1
          e,2
            d,2
              c,4
            c,2
            a,2
              b,2
              c,2
        ",
    );
}

#[test]
fn listing_4_5_joined_2_sf_and_2_ccf() {
    let mut names = Names::default();
    let ksf = join(&prog1_selected(&mut names, finite(2)));
    assert_eq!(ksf.len(), 20, "nodes count of k slab forest");
    assert_listing(
        &names,
        &ksf,
        "
        __root__,2
          a,2
            b,2
            c,1
            f,1
          e,2
            d,2
              c,4
            c,2
            a,2
              b,2
              c,2
        b,2
        c,3
        d,2
          c,4
        a,2
          b,2
          c,2
        f,1
        ",
    );
    let kccf = kccf(&ksf, finite(2));
    assert_eq!(kccf.len(), 25, "nodes count of kCCF");
    assert_listing(
        &names,
        &kccf,
        "
        __root__,2
        a,4
          __root__,2
          e,2
            __root__,2
        b,4
          a,4
            __root__,2
            e,2
        c,9
          a,3
            __root__,1
            e,2
          d,4
            e,4
          e,2
            __root__,2
        f,1
          a,1
            __root__,1
        e,2
          __root__,2
        d,2
          e,2
            __root__,2
        ",
    );
}

#[test]
fn listings_4_7_and_4_8_recursion_rolled_and_unrolled() {
    let mut names = Names::default();
    let calls = "recFunc ".repeat(6);
    let events = names.events(&format!("__root__ main foo {calls} bar . . . . . . . . ."));
    assert_listing(
        &names,
        &recorded(&events, K::Infinite),
        "
        __root__,1
          main,1
            foo,1
              recFunc,6
                bar,1
        ",
    );
    let unrolled = oracle::record(&events, K::Infinite, Recursion::Unrolled);
    assert_listing(
        &names,
        &ksf_from_recording(&unrolled),
        "
        __root__,1
          main,1
            foo,1
              recFunc,1
                recFunc,1
                  recFunc,1
                    recFunc,1
                      recFunc,1
                        recFunc,1
                          bar,1
        ",
    );
}

#[test]
fn listing_4_10_complex_recursion_is_not_rolled() {
    let mut names = Names::default();
    let events = names.events("__root__ main foo bar foo bar foo bar . . . . . . .");
    let listing = "
        __root__,1
          main,1
            foo,1
              bar,1
                foo,1
                  bar,1
                    foo,1
                      bar,1
        ";
    for recursion in [Recursion::Rolled, Recursion::Unrolled] {
        let thread = oracle::record(&events, K::Infinite, recursion);
        assert_listing(&names, &ksf_from_recording(&thread), listing);
    }
}
