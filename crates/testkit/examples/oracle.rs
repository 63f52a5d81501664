//! Prints what the oracle counts: `cargo run -p testkit --example oracle -- PROGRAM [ARGS]`.
#![forbid(unsafe_code)]

use testkit::oracle::{self, Wanted};

fn main() {
    let mut words = std::env::args().skip(1);
    let Some(program) = words.next() else {
        eprintln!("usage: oracle PROGRAM [ARGS]");
        return;
    };
    let args: Vec<String> = words.collect();
    match oracle::count(
        program.as_ref(),
        &args,
        ".".as_ref(),
        oracle::Options::default(),
    ) {
        Ok(counts) => {
            let forests = counts.slab_forests(&Wanted::EVERYTHING);
            for (thread, forest) in counts.threads.iter().zip(forests) {
                println!("{} instructions\n{}", thread.instructions, forest.to_text());
            }
        }
        Err(error) => eprintln!("{error}"),
    }
}
