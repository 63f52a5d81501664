//! The phases of a run and their times, as lines for a terminal (`--phases`).

use crate::numbers::{counted, duration, grouped};

/// Times of a run, in nanoseconds. Those of processes are sums over all of them, which may have run at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// From the command's start to the first process.
    pub before: u64,
    /// From the engine's first instruction to the program's.
    pub starting: u64,
    /// `None`: how quick the processor's counter is, is not known.
    pub translating: Option<u64>,
    /// Waiting for answers about functions.
    pub waiting: u64,
    /// From start to end of the processes.
    pub processes: u64,
    /// From the last end to the report's.
    pub after: u64,
    pub number_of_processes: u64,
    pub blocks: u64,
    pub instructions: u64,
}

impl Phases {
    /// A line for each phase, and one before them.
    pub fn lines(&self) -> Vec<String> {
        let known = [self.starting, self.translating.unwrap_or(0), self.waiting];
        let rest = self.processes.saturating_sub(known.iter().sum());
        let all = self.before + self.processes + self.after;
        let processes = self.number_of_processes;
        let of_processes = match processes {
            1 => String::new(),
            _ => ", sums over all".to_owned(),
        };
        let mut rows = vec![
            (
                self.before,
                "before the program: options, checks, memory to record into".to_owned(),
            ),
            (
                self.starting,
                format!(
                    "start of the engine in {}{of_processes}",
                    counted(processes, "process")
                ),
            ),
            (self.waiting, "waiting for answers about functions".into()),
        ];
        let translated = format!(
            "translation of {} in {}",
            counted(self.instructions, "instruction"),
            counted(self.blocks, "block")
        );
        let rest_of = match self.translating {
            Some(translating) => {
                rows.push((translating, translated));
                "the program, and waiting for its children"
            }
            None => &format!("the program, waiting for its children, {translated}"),
        };
        rows.push((rest, rest_of.to_owned()));
        rows.push((
            self.after,
            "after it: reading what was recorded, names, the report".to_owned(),
        ));
        let share = |ns: u64| 100.0 * ns as f64 / all.max(1) as f64;
        let row = |(ns, what): (u64, String)| {
            format!("  {:>9} {:>5.1} %  {what}", milliseconds(ns), share(ns))
        };
        let head = format!("phases: {} in all, as the sum of", duration(all));
        std::iter::once(head)
            .chain(rows.into_iter().map(row))
            .collect()
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{}.{:02} ms", grouped(ns / 1_000_000), ns / 10_000 % 100)
}

#[cfg(test)]
mod tests {
    use super::Phases;

    #[test]
    fn phases_add_up() {
        let phases = Phases {
            before: 2_000_000,
            starting: 500_000,
            translating: Some(3_000_000),
            waiting: 250_000,
            processes: 6_000_000,
            after: 2_000_000,
            number_of_processes: 1,
            blocks: 1_071,
            instructions: 21_326,
        };
        let expected = "\
phases: 10 ms in all, as the sum of
    2.00 ms  20.0 %  before the program: options, checks, memory to record into
    0.50 ms   5.0 %  start of the engine in 1 process
    0.25 ms   2.5 %  waiting for answers about functions
    3.00 ms  30.0 %  translation of 21,326 instructions in 1,071 blocks
    2.25 ms  22.5 %  the program, and waiting for its children
    2.00 ms  20.0 %  after it: reading what was recorded, names, the report";
        assert_eq!(phases.lines().join("\n"), expected);
        let unknown = Phases {
            translating: None,
            number_of_processes: 2,
            ..phases
        };
        let lines = unknown.lines();
        assert_eq!(
            lines[2],
            "    0.50 ms   5.0 %  start of the engine in 2 processes, sums over all"
        );
        assert_eq!(
            lines[4],
            "    5.25 ms  52.5 %  the program, waiting for its children, translation of 21,326 instructions in 1,071 blocks"
        );
    }
}
