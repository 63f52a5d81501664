//! Objects of Python for columns, and for rows of them.

use std::sync::mpsc::Receiver;

use pyo3::prelude::*;

use crate::ahead::{Ahead, view};
use crate::events::{BRANCHES, CONDITIONAL, Columns, KINDS, Read, Row, SIGNAL, START};

/// Events as columns: memory of numbers, for array, numpy.frombuffer and the like.
#[pyclass(frozen, module = "everypath")]
pub struct Table(Columns);

#[pymethods]
impl Table {
    /// Which instruction of the thread it is, from 1 on; of what is none, how many came
    /// before. 64 bits.
    #[getter]
    fn number<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.number, "Q")
    }

    /// Its address; of what is no instruction, where control goes. 64 bits.
    #[getter]
    fn pc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.pc, "Q")
    }

    /// Target of each branch if it is taken, 64 bits; 0 for other instructions.
    #[getter]
    fn target<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.target, "Q")
    }

    /// Position in `everypath.KINDS`. 8 bits.
    #[getter]
    fn kind<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.kind, "B")
    }

    /// Bytes of the instruction. 8 bits.
    #[getter]
    fn size<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.size, "B")
    }

    /// Whether a branch was taken; the number of a signal. 8 bits.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        view(py, &self.0.value, "B")
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// Iterates over the tables of a thread.
#[pyclass(module = "everypath")]
pub struct Tables(Ahead<Columns>);

impl Tables {
    pub fn new(receiver: Receiver<Read>) -> Tables {
        Tables(Ahead::new(receiver))
    }
}

#[pymethods]
impl Tables {
    fn __iter__(of: PyRef<'_, Self>) -> PyRef<'_, Self> {
        of
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        Ok(self.0.next(py)?.map(Table))
    }
}

/// Iterates over the events of a thread.
#[pyclass(module = "everypath")]
pub struct Events {
    tables: Tables,
    columns: Columns,
    at: usize,
}

impl Events {
    pub fn new(tables: Tables) -> Events {
        Events {
            tables,
            columns: Columns::default(),
            at: 0,
        }
    }
}

#[pymethods]
impl Events {
    fn __iter__(of: PyRef<'_, Self>) -> PyRef<'_, Self> {
        of
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Event>> {
        if self.at == self.columns.len() {
            match self.tables.0.next(py)? {
                None => return Ok(None),
                Some(columns) => (self.columns, self.at) = (columns, 0),
            }
        }
        self.at += 1;
        Ok(self.columns.row(self.at - 1).map(Event))
    }
}

/// One thing that a thread did.
#[pyclass(frozen, module = "everypath")]
pub struct Event(Row);

#[pymethods]
impl Event {
    /// One of `everypath.KINDS`.
    #[getter]
    fn kind(&self) -> &'static str {
        KINDS[usize::from(self.0.kind)]
    }

    /// Which instruction of the thread it is, from 1 on; of what is none, how many came
    /// before.
    #[getter]
    fn number(&self) -> u64 {
        self.0.number
    }

    /// Its address; of what is no instruction, where control goes.
    #[getter]
    fn pc(&self) -> u64 {
        self.0.pc
    }

    /// Bytes of the instruction.
    #[getter]
    fn size(&self) -> u8 {
        self.0.size
    }

    /// Target of a branch if it is taken; None for other instructions.
    #[getter]
    fn target(&self) -> Option<u64> {
        (self.0.target != 0).then_some(self.0.target)
    }

    /// Whether a conditional branch was taken; None for anything else.
    #[getter]
    fn taken(&self) -> Option<bool> {
        (self.0.kind == CONDITIONAL).then_some(self.0.value != 0)
    }

    /// The number of a signal; None for anything else.
    #[getter]
    fn signal(&self) -> Option<u8> {
        (self.0.kind == SIGNAL).then_some(self.0.value)
    }

    fn __repr__(&self) -> String {
        let Row {
            number,
            pc,
            target,
            kind,
            value,
            ..
        } = self.0;
        let mut text = format!("<{number} {pc:#x} {}", self.kind());
        match kind {
            CONDITIONAL if value == 0 => text += " not taken",
            kind if BRANCHES.contains(&kind) => text += &format!(" to {target:#x}"),
            SIGNAL => text += &format!(" {value}"),
            _ => {}
        }
        debug_assert!(kind < START || target == pc);
        text + ">"
    }
}
