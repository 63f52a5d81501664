//! Processes that ran before the program: a version manager's shim, `env`, a shell that ends
//! with `exec`.
//!
//! Problem: such a launcher may be dozens of processes, and a user asks about the program that
//! it becomes. Approach: the first process is followed through its `exec`s. All its images but
//! the last are the launcher's, and so are the children of these.
//!
//! A program that a child of `vfork` executed has no parent in the recording: it is the launcher's if it
//! began before the program.
//!
//! Limit: a program that executes itself, or another one, in its own process looks the same.

use trace::Process;

/// For each process of a recording, whether it belongs to the launcher.
pub fn processes(processes: &[Process]) -> Vec<bool> {
    let last = last_image(processes);
    let mut is_launcher = vec![false; processes.len()];
    // Parents come before their children.
    for (at, process) in processes.iter().enumerate() {
        is_launcher[at] = match process.parent {
            _ if Some(at) == last => false,
            _ if is_first(processes, at) => true,
            Some(parent) => is_launcher[parent],
            None => last.is_some_and(|last| process.start_ns < processes[last].start_ns),
        };
    }
    is_launcher
}

/// Whether the image at `at` is one of the first process.
fn is_first(processes: &[Process], at: usize) -> bool {
    let mut image = at;
    while let Some(parent) = processes[image]
        .parent
        .filter(|_| !processes[image].by_fork)
    {
        image = parent;
    }
    image == 0
}

/// The image that the first process ended as.
fn last_image(processes: &[Process]) -> Option<usize> {
    (0..processes.len())
        .rev()
        .find(|&at| is_first(processes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: Option<usize>, by_fork: bool) -> Process {
        Process {
            pid,
            parent,
            by_fork,
            ..Process::default()
        }
    }

    #[test]
    fn images_before_the_last_and_their_children_are_the_launcher() {
        let all = [
            process(1, None, false),
            process(2, Some(0), true),
            process(2, Some(1), false),
            process(1, Some(0), false),
            process(3, Some(3), false),
            process(1, Some(3), false),
            process(4, Some(5), true),
        ];
        let found = super::processes(&all);
        assert_eq!(found, [true, true, true, true, true, false, false]);
    }

    #[test]
    fn a_program_with_children_has_no_launcher() {
        let all = [
            process(1, None, false),
            process(2, Some(0), true),
            process(2, Some(1), false),
        ];
        assert_eq!(super::processes(&all), [false; 3]);
        assert!(super::processes(&[]).is_empty());
    }
}
