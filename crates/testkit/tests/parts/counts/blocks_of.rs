//! `everypath contexts --mode intra` and `--mode inter` against the oracle, node by
//! node: classic and dynamic blocks, k-slab and k-calling-context forests, loops rolled
//! and not, also in chaos.

use analysis::K;
use testkit::oracle::{BlocksWanted, Counts};
use testkit::product::Run;
use testkit::tree::Tree;

use super::SHOWN;

/// With contexts as long as the paper's, which take the definitions long: only of
/// programs that execute less than this.
const SHORT: usize = 100_000;
const LONG_CONTEXTS: [(&[&str], BlocksWanted<'static>); 3] = [
    (
        &["--mode", "intra", "-k", "100"],
        wanted(true, Some(100), false),
    ),
    (
        &["--mode", "intra", "-k", "100", "--blocks", "dynamic"],
        wanted(true, Some(100), true),
    ),
    (
        &["--mode", "inter", "-k", "100", "--blocks", "dynamic"],
        wanted(false, Some(100), true),
    ),
];

/// Options, and what they ask for.
const CASES: [(&[&str], BlocksWanted<'static>); 9] = [
    (
        &["--mode", "intra", "-k", "0"],
        wanted(true, Some(0), false),
    ),
    (
        &["--mode", "inter", "-k", "0"],
        wanted(false, Some(0), false),
    ),
    (
        &["--mode", "inter", "-k", "0", "--blocks", "dynamic"],
        wanted(false, Some(0), true),
    ),
    (
        &["--mode", "intra", "-k", "2"],
        wanted(true, Some(2), false),
    ),
    (
        &["--mode", "intra", "--roll-loops"],
        wanted(true, None, false),
    ),
    (
        &["--mode", "intra", "-k", "5", "--blocks", "dynamic"],
        wanted(true, Some(5), true),
    ),
    (
        &["--mode", "inter", "-k", "3"],
        wanted(false, Some(3), false),
    ),
    (
        &["--mode", "inter", "--roll-loops", "--blocks", "dynamic"],
        wanted(false, None, true),
    ),
    (
        &["--mode", "inter", "-k", "1", "--chaos", "3"],
        wanted(false, Some(1), false),
    ),
];

const fn wanted(intra: bool, k: Option<u32>, dynamic: bool) -> BlocksWanted<'static> {
    BlocksWanted {
        k: match k {
            Some(k) => K::Finite(k),
            None => K::Infinite,
        },
        roll_loops: k.is_none(),
        intra,
        dynamic,
        module: None,
    }
}

/// Every case on one program, of one module or of all.
pub fn check(run: &Run<'_>, stepped: &Counts, module: Option<&str>) -> Result<(), String> {
    // A forked child goes on in contexts of its parent, which the oracle keeps no
    // track of: of those only how often every block was executed.
    let forks = stepped.threads.iter().any(|thread| thread.inherited > 0);
    let executed: usize = stepped.threads.iter().map(|thread| thread.ran.len()).sum();
    let long = match executed < SHORT {
        true => &LONG_CONTEXTS[..],
        false => &[],
    };
    for &(options, wanted) in CASES.iter().chain(long) {
        let wanted = BlocksWanted { module, ..wanted };
        let mut words: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
        words.push("--join-threads".to_owned());
        if let Some(module) = module {
            words.extend(["--modules".to_owned(), module.to_owned()]);
        }
        let (ksf, kccf) = stepped.block_forests(&wanted);
        for (forest, expected) in [("ksf", ksf), ("kccf", kccf)] {
            let mut words = words.clone();
            words.extend(["--forest".to_owned(), forest.to_owned()]);
            let ours = run.joined(&words)?;
            let named = |tree: &Tree| tree.without_special_roots().renamed(super::comparable);
            let (mut ours, mut expected) = (named(&ours), named(&expected));
            if forks && forest == "kccf" {
                (ours, expected) = (ours.roots_only(), expected.roots_only());
            } else if forks {
                continue;
            }
            let differences = ours.differences(&expected, SHOWN);
            if !differences.is_empty() {
                let words = words.join(" ");
                return Err(format!("{words}:\n{}", differences.join("\n")));
            }
        }
    }
    Ok(())
}
