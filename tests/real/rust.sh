# ripgrep, and cargo and rustc building and running a crate.
# real: limit 300
# real: small-chaos rustc is cold code, which chaos translates again and again: only its version there
setup() {
    python3 "$REAL/../../benches/programs/gen_text.py" 1 >"$SHARED/text"
    mkdir -p "$SHARED/crate/src"
    printf '[package]\nname = "tiny"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' >"$SHARED/crate/Cargo.toml"
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
    println!("{caught}");
    std::process::exit(3);
}
END
    (cd "$SHARED/crate" && cargo build -q --offline --release)
}

run() {
    rg --version | head -1
    rg -c --sort path '[aeiou]{3}' "$SHARED/text"
    rg -o --no-line-number '\b\w(\w)\1\w?\b' "$SHARED/text" | sort | uniq -c | sort -nr | head -3
    rg -j2 -uuu --files "$SHARED/crate" -g '*.rs'
    rg -j2 -l -F main "$SHARED/crate/src" /etc/passwd || echo "status $?"
    "$SHARED/crate/target/release/tiny" 2>/dev/null || echo "status $?"
    cargo --version
    rustc --version
    [[ $SIZE == full ]] || return 0
    cp -r "$SHARED/crate/src" "$SHARED/crate/Cargo.toml" .
    cargo build -q --offline
    target/debug/tiny 2>/dev/null || echo "status $?"
    echo 'fn main() { let x: u8 = 300; }' >bad.rs
    rustc bad.rs 2>errors || echo "refused: $?"
    sha256sum <target/debug/tiny
    rm -rf target Cargo.lock
}
