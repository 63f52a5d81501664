//! Prints what the oracle counts: `cargo run -p testkit --example oracle -- PROGRAM [ARGS]`.
#![forbid(unsafe_code)]

use testkit::oracle;

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
            for thread in &counts.threads {
                println!(
                    "{} instructions\n{}",
                    thread.instructions,
                    thread.contexts.to_text()
                );
            }
        }
        Err(error) => eprintln!("{error}"),
    }
}
