//! A small recording made by hand, to be shown or to be changed first.

use trace::{End, Function, Label, Meta, Mode, Module, Node, Process, Recording, Thread};

/// One of the functions of `gone.c`, from line 6 on.
#[must_use]
pub fn function(id: u32, name: &str) -> Function {
    Function {
        id,
        module: Some(0),
        file_offset: id.into(),
        name: Some(name.into()),
        file: Some("gone.c".into()),
        line: Some(id - 250),
        ..Function::default()
    }
}

/// A node that begins no slab.
#[must_use]
pub fn node(label: Label, parent: Option<u32>, depth: u32, count: u64) -> Node {
    Node {
        label,
        parent,
        depth,
        top: None,
        count,
    }
}

/// One thread of a program that is no more: `main`, and in it `work` 41 times.
#[must_use]
pub fn recording() -> Recording {
    let meta = Meta {
        producer: "everypath test".into(),
        command: vec!["./gone".into()],
        mode: Mode::Contexts,
        end: End::Exited(0),
        duration_ns: 5_000_000,
        ..Meta::default()
    };
    let thread = Thread {
        tid: 1,
        nodes: vec![
            node(Label::THREAD, None, 0, 1),
            node(Label(256), Some(0), 1, 1),
            node(Label(257), Some(1), 2, 41),
        ],
        ..Thread::default()
    };
    let process = Process {
        pid: 1,
        exe: "/nowhere/gone".into(),
        args: vec!["./gone".into()],
        end: End::Exited(0),
        modules: vec![Module {
            path: "/nowhere/gone".into(),
            ..Module::default()
        }],
        functions: vec![function(256, "main"), function(257, "work")],
        threads: vec![thread],
        ..Process::default()
    };
    Recording {
        denied: Vec::new(),
        natives: Vec::new(),
        meta,
        processes: vec![process],
    }
}

/// A recording as its file holds it.
#[must_use]
pub fn bytes(recording: &Recording) -> Vec<u8> {
    let mut bytes = Vec::new();
    trace::write(recording, &mut bytes).expect("it is written to memory");
    bytes
}
