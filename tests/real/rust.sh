# ripgrep, and cargo and rustc building and running crates, with a build script and a macro that rustc loads.
# real: limit 300
# real: small-chaos rustc is cold code, which chaos translates again and again: only its version there
setup() {
    python3 "$REAL/../../benches/programs/gen_text.py" 1 >"$SHARED/text"
    mkdir -p "$SHARED"/crate/{,helper/,macros/}src
    manifest() { printf '[package]\nname = "%s"\nversion = "0.1.0"\nedition = "2021"\n' "$1"; }
    cd "$SHARED/crate"
    { manifest tiny; printf '[workspace]\n[dependencies]\nhelper = { path = "helper" }\n'; } >Cargo.toml
    { manifest helper; printf '[dependencies]\nmacros = { path = "../macros" }\n'; } >helper/Cargo.toml
    { manifest macros; printf '[lib]\nproc-macro = true\n'; } >macros/Cargo.toml
    cat >macros/src/lib.rs <<'END'
use proc_macro::TokenStream;

/// The number of its tokens.
#[proc_macro]
pub fn tokens(input: TokenStream) -> TokenStream {
    format!("{}u64", input.into_iter().count()).parse().unwrap()
}
END
    cat >helper/build.rs <<'END'
fn main() {
    let out = std::path::Path::new(&std::env::var("OUT_DIR").unwrap()).join("table.rs");
    let squares: Vec<u64> = (0..20).map(|n| n * n).collect();
    std::fs::write(out, format!("pub const SQUARES: [u64; 20] = {squares:?};")).unwrap();
    println!("cargo:rerun-if-changed=build.rs");
}
END
    cat >helper/src/lib.rs <<'END'
include!(concat!(env!("OUT_DIR"), "/table.rs"));

pub fn sum() -> u64 {
    SQUARES.iter().sum::<u64>() + macros::tokens!(a + b * (c))
}

#[test]
fn adds_up() {
    assert_eq!(sum(), 2475);
}

#[test]
fn fails_on_purpose() {
    assert_eq!(sum(), 1);
}
END
    cat >"$SHARED/crate/src/main.rs" <<'END'
use std::collections::{BTreeMap, HashMap};
use std::sync::{mpsc, Arc, Mutex};

fn main() {
    let shared = Arc::new(Mutex::new(BTreeMap::new()));
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..4u64)
        .map(|n| {
            let (shared, sender) = (Arc::clone(&shared), sender.clone());
            std::thread::spawn(move || {
                for i in 0..2000 {
                    *shared.lock().unwrap().entry((n * i) % 97).or_insert(0u64) += i;
                }
                sender.send(n).unwrap();
                if n == 3 {
                    panic!("on purpose");
                }
            })
        })
        .collect();
    drop(sender);
    let mut order: Vec<_> = receiver.iter().collect();
    order.sort_unstable();
    let failed = threads.into_iter().filter_map(|t| t.join().err()).count();
    let map = shared.lock().unwrap();
    let words: HashMap<String, usize> = (0..500).map(|n| (format!("{n:x}"), n)).collect();
    println!("{order:?} {failed} {} {}", map.values().sum::<u64>(), words["1f"]);
    let caught = std::panic::catch_unwind(|| vec![1][map.len()]).is_err();
    println!("{caught} {}", helper::sum());
    std::process::exit(3);
}
END
    (cd "$SHARED/crate" && cargo build -q --offline --release)
}

run() {
    rg --version | head -1
    rg -c --sort path '[aeiou]{3}' "$SHARED/text"
    rg -o --no-line-number '\b\w(\w)\1\w?\b' "$SHARED/text" | sort | uniq -c | sort -nr | head -3
    rg -j2 -uuu --files "$SHARED/crate/src" -g '*.rs'
    rg -j2 -l -F main "$SHARED/crate/src" /etc/passwd || echo "status $?"
    "$SHARED/crate/target/release/tiny" 2>/dev/null || echo "status $?"
    cargo --version
    rustc --version
    [[ $SIZE == full ]] || return 0
    cp -r "$SHARED"/crate/{src,helper,macros,Cargo.toml} .
    cargo build -q --offline
    target/debug/tiny 2>/dev/null || echo "status $?"
    cargo test -q --offline -p helper --lib 2>/dev/null | sed -E 's/ finished in .*//; s/^(thread .*) \([0-9]+\)/\1/'
    echo 'fn main() { let x: u8 = 300; }' >bad.rs
    rustc bad.rs 2>errors || echo "refused: $?"
    sha256sum <target/debug/tiny
    rm -rf target Cargo.lock
}
