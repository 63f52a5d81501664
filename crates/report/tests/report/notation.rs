//! Small recordings as text, line by line:
//!
//! ```text
//! command: ./prog1 arg
//! k: 2                                    or: infinite
//! blocks: intra rolled                    basic blocks instead of functions; or: inter
//! end: exited 0                           or: signaled 11 core, unknown
//! process 100 exited 0: ./prog1 arg
//! module /usr/bin/prog1
//! function 256 a prog1.c:9                name and place; `-` where unknown
//! block 256 foo+33 prog1.c:9 0x21 c3      a basic block: name, place, address, code
//! thread 100 insns=5 truncated=1
//! [thread] 1                              nodes: indented by depth, label, count,
//!   a 3 top=4                             and the ordinal of the top node
//! ```

use trace::{
    Block, BlockContexts, Cost, Costs, End, Function, Label, Meta, Mode, Module, Node, Process,
    Recording, Thread,
};

/// Recording that every golden begins with.
pub fn empty() -> Recording {
    let meta = Meta {
        producer: "everypath 0.0.0".into(),
        mode: Mode::Contexts,
        duration_ns: 1_500_000,
        started_unix_ns: 1_700_000_000_000_000_000,
        ..Meta::default()
    };
    Recording {
        denied: Vec::new(),
        natives: Vec::new(),
        meta,
        processes: Vec::new(),
    }
}

/// Adds what a line says.
pub fn parse_line(line: &str, recording: &mut Recording) {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "mode:" => {
            recording.meta.mode = if rest == "run" {
                Mode::Run
            } else {
                Mode::Contexts
            }
        }
        "command:" => recording.meta.command = words(rest),
        "k:" => recording.meta.k = rest.parse().ok(),
        "blocks:" => {
            recording.meta.blocks = Some(BlockContexts {
                intra: rest.starts_with("intra"),
                roll_loops: rest.ends_with("rolled"),
                windows: false,
                dynamic: false,
            });
        }
        "end:" => recording.meta.end = parse_end(rest),
        "process" => recording.processes.push(parse_process(rest)),
        _ => parse_in_process(
            line,
            recording.processes.last_mut().expect("a process first"),
        ),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(Into::into).collect()
}

fn parse_end(text: &str) -> End {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["exited", status] => End::Exited(status.parse().unwrap()),
        ["signaled", signal] => End::Signaled {
            signal: signal.parse().unwrap(),
            core: false,
        },
        ["signaled", signal, "core"] => End::Signaled {
            signal: signal.parse().unwrap(),
            core: true,
        },
        ["execed"] => End::Execed,
        ["unknown"] => End::Unknown,
        _ => panic!("no end {text}"),
    }
}

fn parse_process(text: &str) -> Process {
    let (head, command) = text.split_once(": ").unwrap();
    let (pid, end) = head.split_once(' ').unwrap();
    let args = words(command);
    let end = parse_end(end);
    let end_ns = (end != End::Unknown).then_some(2_000_000);
    Process {
        pid: pid.parse().unwrap(),
        exe: args[0].clone(),
        args,
        start_ns: 1_000_000,
        end_ns,
        end,
        stats: vec![1234, 56],
        ..Process::default()
    }
}

fn parse_in_process(line: &str, process: &mut Process) {
    let fields: Vec<&str> = line.split_whitespace().collect();
    match fields[..] {
        ["module", path] => process.modules.push(Module {
            path: path.into(),
            start: 0x7f00_0000_0000,
            end: 0x7f00_0000_1000,
            build_id: Some(vec![0xab, 0x0c]),
            ..Module::default()
        }),
        ["function", id, name, place] => {
            let id: u32 = id.parse().unwrap();
            let (file, number) = place.split_once(':').unwrap_or((place, ""));
            let known = |text: &str| (text != "-").then(|| text.replace('~', " "));
            process.functions.push(Function {
                id,
                pc: 0x7f00_0000_0000 + u64::from(id),
                module: process.modules.len().checked_sub(1).map(|at| at as u32),
                file_offset: u64::from(id),
                name: known(name),
                file: known(file),
                line: number.parse().ok(),
            });
        }
        ["block", id, name, place, address, code] => {
            parse_block([id, name, place, address, code], process);
        }
        ["thread", tid, ..] => {
            let number = |key: &str| {
                let value = fields.iter().find_map(|field| field.strip_prefix(key));
                value.map_or(0, |value| value.parse().unwrap())
            };
            process.threads.push(Thread {
                tid: tid.parse().unwrap(),
                insns: number("insns="),
                truncated_events: number("truncated="),
                ..Thread::default()
            });
        }
        _ => parse_node(line, process),
    }
}

fn parse_block([id, name, place, address, code]: [&str; 5], process: &mut Process) {
    let id: u32 = id.parse().unwrap();
    let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap();
    let (file, numbers) = place.split_once(':').unwrap_or((place, ""));
    let (number, column) = numbers.split_once(':').unwrap_or((numbers, ""));
    let module = process.modules.len().checked_sub(1);
    process.functions.push(Function {
        id,
        pc: module.map_or(0, |at| process.modules[at].start) + address,
        module: module.map(|at| at as u32),
        file_offset: module.map_or(0, |_| address),
        name: None,
        file: (file != "-").then(|| file.into()),
        line: number.parse().ok(),
    });
    let symbol = name.split_once('+');
    let digits = (0..code.len()).step_by(2);
    process.blocks.push(Block {
        id,
        function: symbol.map(|(name, _)| name.into()),
        column: column.parse().ok(),
        offset: symbol.map_or(0, |(_, offset)| offset.parse().unwrap()),
        code: digits
            .map(|at| u8::from_str_radix(&code[at..at + 2], 16).unwrap())
            .collect(),
    });
}

fn parse_node(line: &str, process: &mut Process) {
    let depth = (line.len() - line.trim_start().len()) / 2;
    let (line, insns) = match line.split_once(" insns=") {
        Some((line, insns)) => (line, Some(insns.parse().unwrap())),
        None => (line, None),
    };
    let (line, top) = match line.split_once(" top=") {
        Some((line, top)) => (line, Some(top.parse().unwrap())),
        None => (line, None),
    };
    let (name, count) = line.trim_start().rsplit_once(' ').unwrap();
    let label = parse_label(name, process);
    let thread = process.threads.last_mut().expect("a thread first");
    if let Some(insns) = insns {
        if thread.costs.is_empty() {
            thread.costs.push(Costs {
                cost: Cost::Instructions,
                values: Vec::new(),
            });
        }
        thread.costs[0].values.push(insns);
        thread.insns += insns;
    }
    let nodes = &mut thread.nodes;
    let parent = (depth > 0).then(|| {
        nodes
            .iter()
            .rposition(|node: &Node| node.depth as usize == depth - 1)
            .unwrap() as u32
    });
    nodes.push(Node {
        label,
        parent,
        depth: depth as u32,
        top,
        count: count.parse().unwrap(),
    });
}

fn parse_label(name: &str, process: &Process) -> Label {
    match name {
        "[thread]" => Label::THREAD,
        "__root__" => Label::ROOT,
        "[truncated]" => Label::TRUNCATED,
        "[no~context]" => Label::MUTED,
        "[signal" => panic!("write [signal~N]"),
        _ => {
            if let Some(number) = name.strip_prefix("[signal~") {
                return Label::signal(number.trim_end_matches(']').parse().unwrap());
            }
            let is_block = |id| {
                let block = process.block(Label(id));
                let own = |block: &Block| {
                    let function = block.function.as_deref().unwrap_or_default();
                    format!("{function}+{}", block.offset)
                };
                block.map(own).as_deref() == Some(name)
            };
            let named = |function: &&Function| {
                function.name.as_deref() == Some(&*name.replace('~', " "))
                    || format!("#{}", function.id) == name
                    || is_block(function.id)
            };
            let function = process.functions.iter().find(named);
            Label(function.unwrap_or_else(|| panic!("no function {name}")).id)
        }
    }
}
