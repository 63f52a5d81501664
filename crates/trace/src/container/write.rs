//! Writing: one function per kind of chunk, in the order of the model.

use std::io::{BufWriter, Write};

use super::chunk::{Kind, write_chunk};
use super::codec::{Base, Encoder};
use super::{MAGIC, VERSION, blocks, costs, counts, denied, journal, natives, nodes};
use crate::error::WriteError;
use crate::model::{Block, End, Function, Jump, Meta, Mode, Module, Process, Recording, Thread};
use crate::part::LEVEL;

/// A chunk of items is closed when it has grown to this.
pub(super) const CLOSE_AT: usize = 256 << 10;
/// Level of zstd where nobody waits.
const HARD_LEVEL: i32 = 19;

/// Writes `recording` to `out`. `out` needs no buffer and is flushed.
pub fn write(recording: &Recording, out: impl Write) -> Result<(), WriteError> {
    let mut out = BufWriter::new(out);
    if recording.meta.mode == Mode::Trace {
        return journal::write(recording, out, LEVEL);
    }
    out.write_all(&header())?;
    write_chunk(&mut out, Kind::META, &meta(&recording.meta).bytes)?;
    for (index, process) in recording.processes.iter().enumerate() {
        if process.parent.is_some_and(|parent| parent >= index) {
            return Err(WriteError::Inconsistent {
                what: "process",
                index,
            });
        }
        write_process(&mut out, process)?;
    }
    denied::write(&mut out, &recording.denied)?;
    natives::write(&mut out, &recording.natives)?;
    write_chunk(&mut out, Kind::DONE, &done(recording).bytes)?;
    out.flush()?;
    Ok(())
}

/// Writes a trace with as few bytes as zstd can make of all but the streams.
pub fn write_small(recording: &Recording, out: impl Write) -> Result<(), WriteError> {
    match recording.meta.mode {
        Mode::Trace => journal::write(recording, BufWriter::new(out), HARD_LEVEL),
        _ => write(recording, out),
    }
}

/// Header of a recording's file.
pub(super) fn header() -> Vec<u8> {
    header_of(MAGIC, VERSION)
}

/// Header of a file of another kind.
pub(super) fn header_of(magic: [u8; 8], version: u32) -> Vec<u8> {
    let mut header = magic.to_vec();
    header.extend(version.to_le_bytes());
    header.extend(crc32c::crc32c(&header).to_le_bytes());
    header
}

fn write_process(out: &mut impl Write, process: &Process) -> Result<(), WriteError> {
    let mut head = Encoder::default();
    put_process_head(&mut head, process);
    write_chunk(out, Kind::PROC, &head.bytes)?;
    write_items(out, Kind::MODS, &process.modules, module)?;
    let mut before = Base::default();
    write_items(out, Kind::FUNC, &process.functions, |encoder, function| {
        if encoder.bytes.is_empty() {
            before = Base::default();
        }
        put_function(encoder, before, function);
        before = Base::from(function);
    })?;
    write_items(out, Kind::BLKS, &process.blocks, blocks::put)?;
    write_columns(out, &process.blocks)?;
    write_counted(out, process)?;
    for thread in &process.threads {
        check_tops(thread)?;
        let mut head = Encoder::default();
        put_thread_head(&mut head, thread);
        write_chunk(out, Kind::THRD, &head.bytes)?;
        for (at, run) in thread.nodes.chunks(nodes::PER_CHUNK).enumerate() {
            let encoder = nodes::encode(run, at * nodes::PER_CHUNK)?;
            write_chunk(out, Kind::NODE, &encoder.bytes)?;
        }
        for column in &thread.costs {
            costs::check(thread, column)?;
            for run in column.values.chunks(nodes::PER_CHUNK) {
                write_chunk(out, Kind::COST, &costs::encode(column.cost, run).bytes)?;
            }
        }
        let mut before = 0;
        write_items(out, Kind::CNTS, &thread.counts, |encoder, counted| {
            if encoder.bytes.is_empty() {
                before = 0;
            }
            counts::put_count(encoder, before, counted);
            before = counted.slot;
        })?;
    }
    Ok(())
}

/// If any is known.
fn write_columns(out: &mut impl Write, blocks: &[Block]) -> Result<(), WriteError> {
    if blocks.iter().all(|block| block.column.is_none()) {
        return Ok(());
    }
    let mut at = 0;
    write_items(out, Kind::COLS, blocks, |encoder, block| {
        if encoder.bytes.is_empty() {
            encoder.uint(at);
        }
        at += 1;
        blocks::put_column(encoder, block);
    })
}

/// Writes the chunks that only a process with counted code has.
fn write_counted(out: &mut impl Write, process: &Process) -> Result<(), WriteError> {
    let mut before = counts::Before::default();
    write_items(out, Kind::FRAG, &process.fragments, |encoder, fragment| {
        if encoder.bytes.is_empty() {
            before = counts::Before::default();
        }
        counts::put_fragment(encoder, before, fragment);
        before = counts::Before::after(fragment);
    })?;
    write_items(out, Kind::CUTS, &process.cuts, counts::put_cut)?;
    let mut before = Jump::default();
    write_items(out, Kind::JUMP, &process.jumps, |encoder, jump| {
        if encoder.bytes.is_empty() {
            before = Jump::default();
        }
        counts::put_jump(encoder, before, jump);
        before = *jump;
    })?;
    write_items(out, Kind::TEXT, &process.texts, |encoder, text| {
        encoder.text(text)
    })?;
    let mut before = 0;
    write_items(out, Kind::SRCS, &process.sources, |encoder, source| {
        if encoder.bytes.is_empty() {
            before = 0;
        }
        counts::put_source(encoder, before, source);
        before = source.offset;
    })
}

/// A reader refuses tops that are no nodes, so such a file is not made.
fn check_tops(thread: &Thread) -> Result<(), WriteError> {
    let len = thread.nodes.len();
    let unsound = thread
        .nodes
        .iter()
        .position(|node| node.top.is_some_and(|top| top as usize >= len));
    unsound.map_or(Ok(()), |index| {
        Err(WriteError::Inconsistent {
            what: "top of node",
            index,
        })
    })
}

/// Writes items into as few chunks of about [`CLOSE_AT`] bytes as hold them.
fn write_items<T>(
    out: &mut impl Write,
    kind: Kind,
    items: &[T],
    mut put: impl FnMut(&mut Encoder, &T),
) -> Result<(), WriteError> {
    let mut encoder = Encoder::default();
    for item in items {
        put(&mut encoder, item);
        if encoder.bytes.len() >= CLOSE_AT {
            write_chunk(out, kind, &encoder.bytes)?;
            encoder.bytes.clear();
        }
    }
    if !encoder.bytes.is_empty() {
        write_chunk(out, kind, &encoder.bytes)?;
    }
    Ok(())
}

pub(super) fn meta(meta: &Meta) -> Encoder {
    let mut out = Encoder::default();
    out.text(&meta.producer);
    out.list(&meta.command, |out, argument| out.text(argument));
    out.uint(match (meta.mode, meta.blocks) {
        (Mode::Run, _) => 0,
        (Mode::Contexts, None) => 1,
        (Mode::Counts, _) => 2,
        (Mode::Contexts, Some(blocks)) => 3 + u64::from(blocks.windows),
        (Mode::Trace, _) => 5,
    });
    if let (Mode::Contexts, Some(blocks)) = (meta.mode, meta.blocks) {
        out.flag(blocks.intra);
        out.flag(blocks.roll_loops);
        out.flag(blocks.dynamic);
    }
    out.option(meta.k, |out, k| out.uint(k.into()));
    out.flag(meta.unroll);
    out.flag(meta.selected);
    out.list(&meta.options, |out, (name, value)| {
        out.text(name);
        out.text(value);
    });
    out.uint(meta.started_unix_ns);
    out.uint(meta.duration_ns);
    end(&mut out, meta.end);
    out
}

pub(super) fn end(out: &mut Encoder, end: End) {
    match end {
        End::Unknown => out.uint(0),
        End::Exited(code) => {
            out.uint(1);
            out.int(code.into());
        }
        End::Signaled { signal, core } => {
            out.uint(2);
            out.int(signal.into());
            out.flag(core);
        }
        End::Execed => out.uint(3),
    }
}

pub(super) fn put_process_head(out: &mut Encoder, process: &Process) {
    out.uint(process.pid.into());
    out.option(process.parent, |out, parent| out.uint(parent as u64));
    out.flag(process.by_fork);
    out.text(&process.exe);
    out.list(&process.args, |out, argument| out.text(argument));
    out.uint(process.start_ns);
    out.option(process.end_ns, Encoder::uint);
    end(out, process.end);
    out.list(&process.stats, |out, &value| out.uint(value));
}

pub(super) fn module(out: &mut Encoder, module: &Module) {
    out.text(&module.path);
    out.uint(module.start);
    out.uint(module.end);
    out.uint(module.offset);
    out.option(module.build_id.as_deref(), Encoder::blob);
    out.uint(module.mapped_ns);
    out.option(module.unmapped_ns, Encoder::uint);
}

/// Numbers as differences to the function `before` in the chunk.
fn put_function(out: &mut Encoder, before: Base, function: &Function) {
    let delta = |now: u64, then: u64| now.wrapping_sub(then).cast_signed();
    out.int(i64::from(function.id) - i64::from(before.id));
    out.int(delta(function.pc, before.pc));
    out.option(function.module, |out, module| out.uint(module.into()));
    out.int(delta(function.file_offset, before.file_offset));
    out.option(function.name.as_deref(), Encoder::text);
    out.option(function.file.as_deref(), Encoder::text);
    out.option(function.line, |out, line| out.uint(line.into()));
}

pub(super) fn put_thread_head(out: &mut Encoder, thread: &Thread) {
    out.uint(thread.tid.into());
    out.uint(thread.start_ns);
    out.option(thread.end_ns, Encoder::uint);
    out.uint(thread.insns);
    out.uint(thread.truncated_events);
    out.uint(thread.max_depth);
}

/// Totals of the file, by which the loss of a whole chunk is noticed.
fn done(recording: &Recording) -> Encoder {
    let mut out = Encoder::default();
    for total in super::read::totals(recording, VERSION) {
        out.uint(total);
    }
    out
}
