//! Runs a program under the engine and nothing else: `bare PROGRAM ARGS...`.
struct None_;
impl launch::Tables for None_ {
    fn table(&mut self, _: &std::path::Path) -> Vec<wire::FuncEntry> {
        Vec::new()
    }
}
fn main() {
    let argv: Vec<std::ffi::OsString> = std::env::args_os().skip(1).collect();
    let mode = if std::env::var("EV_CTX").is_ok() {
        wire::Mode::Contexts
    } else {
        wire::Mode::Run
    };
    let chaos = std::env::var("EV_CHAOS").ok().map(|v| v.parse().unwrap());
    let flags = wire::flag::FOLLOW
        | if std::env::var("EV_COUNT").is_ok() {
            wire::flag::COUNT_INSNS
        } else {
            0
        };
    let request = launch::Request {
        program: argv[0].clone().into(),
        argv,
        mode,
        k: Some(10),
        flags,
        chaos,
        max_nodes: 1 << 30,
    };
    match launch::run(&request, &mut None_) {
        Ok(run) => {
            if std::env::var("EV_STAT").is_ok() {
                let pool = run.pool.view();
                let mut at = pool
                    .header()
                    .processes
                    .load(std::sync::atomic::Ordering::Relaxed);
                while let Some(p) = pool.at::<wire::ProcessRecord>(at).filter(|_| at != 0) {
                    eprintln!(
                        "process {} state {}",
                        p.pid.load(std::sync::atomic::Ordering::Relaxed),
                        p.state.load(std::sync::atomic::Ordering::Relaxed)
                    );
                    for (i, n) in wire::stat::NAMES.iter().enumerate() {
                        eprintln!(
                            "  {n}: {}",
                            p.stats[i].load(std::sync::atomic::Ordering::Relaxed)
                        );
                    }
                    let mut t = p.threads.load(std::sync::atomic::Ordering::Relaxed);
                    while let Some(r) = pool.at::<wire::ThreadRecord>(t).filter(|_| t != 0) {
                        eprintln!(
                            "  thread {} insns {}",
                            r.tid.load(std::sync::atomic::Ordering::Relaxed),
                            r.insns.load(std::sync::atomic::Ordering::Relaxed)
                        );
                        t = r.next.load(std::sync::atomic::Ordering::Relaxed);
                    }
                    at = p.next.load(std::sync::atomic::Ordering::Relaxed);
                }
            }
            eprintln!("{:?} in {:?}", run.ended, run.duration);
        }
        Err(error) => {
            eprintln!("everypath: {error}");
        }
    }
}
