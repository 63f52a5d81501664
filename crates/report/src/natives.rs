//! The note on programs that ran natively: which, how often, and why.

use trace::natives::why;
use trace::{Mode, Native, Recording};

use crate::numbers::grouped;

/// Names of one reason that are listed.
const LISTED: usize = 5;

/// One sentence for each reason.
pub fn sentences(recording: &Recording) -> Vec<String> {
    // Nothing is missing where nothing is recorded.
    if recording.meta.mode == Mode::Run {
        return Vec::new();
    }
    let mut reasons: Vec<u32> = recording.natives.iter().map(|native| native.why).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let sentence = |reason: u32| {
        let of_reason = recording
            .natives
            .iter()
            .filter(|native| native.why == reason);
        let of_reason: Vec<&Native> = of_reason.collect();
        let named = of_reason
            .iter()
            .take(LISTED)
            .map(|native| match native.times {
                1 => native.name.clone(),
                times => format!("{} ({} times)", native.name, grouped(times)),
            });
        let mut names = named.collect::<Vec<_>>().join(", ");
        if let Some(more) = of_reason.len().checked_sub(LISTED + 1) {
            names = format!("{names} and {} more", more + 1);
        }
        format!("not recorded, as run natively: {names}: {}", text(reason))
    };
    reasons.into_iter().map(sentence).collect()
}

fn text(reason: u32) -> &'static str {
    match reason {
        why::SET_ID => "set-user-ID or set-group-ID, whose rights a recorded program does not get",
        why::CAPABILITIES => "file capabilities, which a recorded program does not get",
        why::FOREIGN => "no 64-bit x86-64 program",
        why::UNREADABLE => "the file may be executed, but not read",
        why::UNREACHABLE => {
            "started by a process that gave up its rights, or has another root or /proc, and so cannot \
             reach the recording"
        }
        why::NAMELESS => "executed from a file without a name, by a descriptor that exec closes",
        _ => "only the kernel can execute it so",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_listed_by_reason() {
        let native = |name: &str, why, times| Native {
            name: name.to_owned(),
            why,
            times,
        };
        let mut recording = Recording {
            natives: vec![
                native("sudo", why::SET_ID, 1),
                native("wine", why::FOREIGN, 1_200),
                native("su", why::SET_ID, 2),
            ],
            ..Recording::default()
        };
        recording.meta.mode = Mode::Counts;
        assert_eq!(
            sentences(&recording),
            [
                "not recorded, as run natively: sudo, su (2 times): set-user-ID or set-group-ID, whose \
                 rights a recorded program does not get",
                "not recorded, as run natively: wine (1,200 times): no 64-bit x86-64 program",
            ]
        );
        recording.natives = (0..7).map(|at| native(&format!("p{at}"), 99, 1)).collect();
        let said = sentences(&recording);
        assert!(
            said[0].contains("p0, p1, p2, p3, p4 and 2 more: only the kernel"),
            "{said:?}"
        );
        assert!(sentences(&Recording::default()).is_empty());
    }
}
