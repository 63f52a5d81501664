//! Memory accesses of a thread for Python: one by one, or as tables of columns.
//!
//! A reader of its own goes ahead, as for events. Each step of a repeated string instruction is an
//! access of its own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use analysis::walk::{AccessEvent, Accessed, Accesses, Bytes, Pieces, Value, selection};
use isa::memory::Kind;
use isa::memory::recorded::letters;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use trace::Recording;

use crate::Error;
use crate::ahead::{AHEAD, Ahead, ROWS, view};
use crate::events::sentence;

/// Bits of column `kind`, and, of values that are known, of `known`.
const READ: u8 = 1;
const WRITTEN: u8 = 2;

/// Accesses, column by column; numbers as the machine has them.
#[derive(Default)]
pub struct Columns {
    number: Vec<u8>,
    pc: Vec<u8>,
    address: Vec<u8>,
    size: Vec<u8>,
    kind: Vec<u8>,
    known: Vec<u8>,
    /// Low bytes of values; 0 where they are not known.
    read: Vec<u8>,
    written: Vec<u8>,
    /// Places of whole values in `bytes`.
    whole: Vec<[(u32, u8); 2]>,
    bytes: Vec<u8>,
}

impl Columns {
    fn len(&self) -> usize {
        self.kind.len()
    }

    fn push(&mut self, (number, pc): (u64, u64), accessed: &Accessed, at: u64, bytes: Bytes<'_>) {
        let access = accessed.at(at);
        self.number.extend(number.to_ne_bytes());
        self.pc.extend(pc.to_ne_bytes());
        self.address.extend(access.address.to_ne_bytes());
        self.size.extend(access.size.to_ne_bytes());
        self.kind.push(match access.kind {
            Kind::Read => READ,
            Kind::Write => WRITTEN,
            Kind::Update => READ | WRITTEN,
        });
        let known = |value: Option<Value>, bit| value.map_or(0, |_| bit);
        self.known
            .push(known(accessed.read, READ) | known(accessed.written, WRITTEN));
        let mut keep = |value: Option<Value>, column: &mut Vec<u8>| {
            let bytes = value.map_or(&[][..], |value| bytes.of(value));
            let mut low = [0; 8];
            let len = bytes.len().min(low.len());
            low[..len].copy_from_slice(&bytes[..len]);
            column.extend(u64::from_le_bytes(low).to_ne_bytes());
            let at = self.bytes.len() as u32;
            self.bytes.extend(bytes);
            (at, bytes.len() as u8)
        };
        let whole = [
            keep(accessed.read, &mut self.read),
            keep(accessed.written, &mut self.written),
        ];
        self.whole.push(whole);
    }
}

/// Reads a thread from its instruction `first` on, by the indices of process and thread.
pub fn read(
    recording: &Arc<Recording>,
    at: (usize, usize),
    first: u64,
) -> PyResult<Receiver<Result<Columns, String>>> {
    if selection(recording).is_none() {
        return Err(Error::new_err(
            "the trace has no memory accesses; record it with --memory addresses or values",
        ));
    }
    let (sender, receiver) = sync_channel(AHEAD);
    let recording = recording.clone();
    std::thread::Builder::new()
        .name("everypath".to_owned())
        .spawn(move || {
            let mut reader = Reader {
                first,
                number: 0,
                columns: Columns::default(),
                sender,
            };
            // Nobody wants any more.
            let _ = reader.all(&recording, at);
        })
        .map_err(|error| Error::new_err(format!("no thread can be made to read: {error}")))?;
    Ok(receiver)
}

/// The receiver is gone.
struct Unwanted;

struct Reader {
    first: u64,
    /// Instructions before what comes.
    number: u64,
    columns: Columns,
    sender: SyncSender<Result<Columns, String>>,
}

impl Reader {
    fn all(&mut self, recording: &Recording, at: (usize, usize)) -> Result<(), Unwanted> {
        let process = &recording.processes[at.0];
        let thread = &process.threads[at.1];
        let Some(selection) = selection(recording) else {
            return Ok(());
        };
        let mut pieces = Pieces::of(process);
        let mut accesses = match report::steps::seek(thread, self.first) {
            Some((start, before)) => {
                self.number = before;
                Accesses::of(&mut pieces, thread, start.onward(), selection)
            }
            None => Accesses::new(&mut pieces, thread, selection),
        };
        while let Some(event) = accesses.next() {
            match event {
                Ok(AccessEvent::Executed(steps, all, bytes)) => {
                    for accessed in all {
                        let number = self.number + u64::from(accessed.step) + 1;
                        let pc = steps[accessed.step as usize].pc;
                        self.put((number, pc), accessed, bytes)?;
                    }
                    self.number += steps.len() as u64;
                }
                Ok(AccessEvent::Went { .. }) => {}
                Err(error) => {
                    self.send()?;
                    let said = Err(sentence(thread, &error));
                    return self.sender.send(said).map_err(|_| Unwanted);
                }
            }
        }
        self.send()
    }

    fn put(
        &mut self,
        of: (u64, u64),
        accessed: &Accessed,
        bytes: Bytes<'_>,
    ) -> Result<(), Unwanted> {
        if of.0 < self.first {
            return Ok(());
        }
        for at in 0..accessed.times {
            self.columns.push(of, accessed, at, bytes);
            if self.columns.len() >= ROWS {
                self.send()?;
            }
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Unwanted> {
        let columns = std::mem::take(&mut self.columns);
        match columns.len() {
            0 => Ok(()),
            _ => self.sender.send(Ok(columns)).map_err(|_| Unwanted),
        }
    }
}

/// Accesses as columns: memory of numbers, for array, numpy.frombuffer and the like.
#[pyclass(frozen, module = "everypath")]
pub struct AccessTable(Columns);

#[pymethods]
impl AccessTable {
    /// Which instruction of the thread it is of, from 1 on. 64 bits.
    #[getter]
    fn number<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.number, "Q")
    }

    /// Address of the instruction. 64 bits.
    #[getter]
    fn pc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.pc, "Q")
    }

    /// Address of the access. 64 bits.
    #[getter]
    fn address<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.address, "Q")
    }

    /// Bytes of it. 32 bits.
    #[getter]
    fn size<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.size, "I")
    }

    /// 1: it reads, 2: it writes, 3: both. 8 bits.
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.kind, "B")
    }

    /// Values that are known, as bits like those of `kind`. 8 bits.
    #[getter]
    fn known<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.known, "B")
    }

    /// The low 64 bits of what was read; 0 where that is not known.
    #[getter]
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.read, "Q")
    }

    /// The low 64 bits of what was written; 0 where that is not known.
    #[getter]
    fn written<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.written, "Q")
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// Iterates over tables of accesses.
#[pyclass(module = "everypath")]
pub struct AccessTables(Ahead<Columns>);

impl AccessTables {
    pub fn new(receiver: Receiver<Result<Columns, String>>) -> AccessTables {
        AccessTables(Ahead::new(receiver))
    }
}

#[pymethods]
impl AccessTables {
    fn __iter__(of: PyRef<'_, Self>) -> PyRef<'_, Self> {
        of
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<AccessTable>> {
        Ok(self.0.next(py)?.map(AccessTable))
    }
}

/// Iterates over the accesses of a thread.
#[pyclass(module = "everypath")]
pub struct AccessList {
    tables: AccessTables,
    columns: Columns,
    at: usize,
}

impl AccessList {
    pub fn new(tables: AccessTables) -> AccessList {
        AccessList {
            tables,
            columns: Columns::default(),
            at: 0,
        }
    }
}

#[pymethods]
impl AccessList {
    fn __iter__(of: PyRef<'_, Self>) -> PyRef<'_, Self> {
        of
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Access>> {
        if self.at == self.columns.len() {
            match self.tables.0.next(py)? {
                None => return Ok(None),
                Some(columns) => (self.columns, self.at) = (columns, 0),
            }
        }
        self.at += 1;
        Ok(Access::of(&self.columns, self.at - 1))
    }
}

/// One memory access.
#[pyclass(frozen, module = "everypath")]
pub struct Access {
    /// Which instruction of the thread it is of, from 1 on.
    #[pyo3(get)]
    number: u64,
    /// Address of the instruction.
    #[pyo3(get)]
    pc: u64,
    #[pyo3(get)]
    address: u64,
    /// Bytes of it.
    #[pyo3(get)]
    size: u32,
    kind: u8,
    values: [Option<Vec<u8>>; 2],
}

impl Access {
    fn of(columns: &Columns, at: usize) -> Option<Access> {
        let word = |column: &[u8]| {
            let bytes = column.get(at * 8..)?.first_chunk()?;
            Some(u64::from_ne_bytes(*bytes))
        };
        let known = *columns.known.get(at)?;
        let [read, written] = *columns.whole.get(at)?;
        let value = |(from, len): (u32, u8), bit| {
            let bytes = columns.bytes.get(from as usize..)?.get(..len.into())?;
            (known & bit != 0).then(|| bytes.to_vec())
        };
        let size = columns.size.get(at * 4..)?.first_chunk()?;
        Some(Access {
            number: word(&columns.number)?,
            pc: word(&columns.pc)?,
            address: word(&columns.address)?,
            size: u32::from_ne_bytes(*size),
            kind: *columns.kind.get(at)?,
            values: [value(read, READ), value(written, WRITTEN)],
        })
    }

    fn value<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(bytes) = &self.values[at] else {
            return Ok(None);
        };
        let mut number = [0; 8];
        match number.get_mut(..bytes.len()) {
            Some(low) => {
                low.copy_from_slice(bytes);
                Ok(Some(
                    u64::from_le_bytes(number).into_pyobject(py)?.into_any(),
                ))
            }
            None => Ok(Some(PyBytes::new(py, bytes).into_any())),
        }
    }
}

#[pymethods]
impl Access {
    /// `R`, `W` or `RW`.
    #[getter]
    fn kind(&self) -> &'static str {
        letters(match self.kind {
            READ => Kind::Read,
            WRITTEN => Kind::Write,
            _ => Kind::Update,
        })
    }

    /// The value that it read: a number, or, of more than 8 bytes, bytes; None: that is not known, or it
    /// only writes.
    #[getter]
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.value(py, 0)
    }

    /// The value that it wrote, in the same way.
    #[getter]
    fn written<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.value(py, 1)
    }

    fn __repr__(&self) -> String {
        let (kind, address, size) = (self.kind(), self.address, self.size);
        format!(
            "<{} {:#x} {kind} {size} at {address:#x}>",
            self.number, self.pc
        )
    }
}
