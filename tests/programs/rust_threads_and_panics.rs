// A Rust program: threads, channels, panics caught and joined, spawn of a
// command that does not exist gives the right error.
// build: rustc -O --edition 2021
// run: no-oracle what its channels call depends on which thread is first
use std::process::Command;
use std::sync::mpsc;
use std::thread;

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let (sender, receiver) = mpsc::channel();
    let workers: Vec<_> = (0..8u64)
        .map(|id| {
            let sender = sender.clone();
            thread::spawn(move || {
                let sum = (0..50_000).fold(id, |a, x| a.wrapping_mul(31).wrapping_add(x));
                sender.send(sum).unwrap();
                assert!(id != 5, "five");
                id
            })
        })
        .collect();
    drop(sender);
    println!("{:x}", receiver.iter().fold(0, |a: u64, x| a ^ x));
    for worker in workers {
        match worker.join() {
            Ok(id) => println!("{id} joined"),
            Err(payload) => println!("panicked: {}", payload.downcast_ref::<&str>().unwrap()),
        }
    }
    let deep = std::panic::catch_unwind(|| { let v: Vec<i32> = Vec::new(); v[std::hint::black_box(3)] });
    println!("{}", deep.is_err());
    println!("{}", Command::new("./no-such-program").spawn().unwrap_err().kind());
    let output = Command::new("/bin/echo").arg("from a child").output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    println!("{:?}", Command::new("/bin/false").status().unwrap().code());
}
