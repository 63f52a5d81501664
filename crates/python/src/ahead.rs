//! Tables that a thread of its own reads ahead, and columns as Python sees them.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};

use crate::Error;

/// Rows of a table.
pub const ROWS: usize = 1 << 16;
/// Tables that are read before they are asked for.
pub const AHEAD: usize = 3;
/// Longest time for which Python cannot be interrupted.
const PATIENCE: Duration = Duration::from_millis(100);

/// Tables as they come, or why there are no more.
pub struct Ahead<T>(Mutex<Receiver<Result<T, String>>>);

impl<T: Send> Ahead<T> {
    pub fn new(receiver: Receiver<Result<T, String>>) -> Ahead<T> {
        Ahead(Mutex::new(receiver))
    }

    pub fn next(&self, py: Python<'_>) -> PyResult<Option<T>> {
        loop {
            let read = py.detach(|| {
                let receiver = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                receiver.recv_timeout(PATIENCE)
            });
            match read {
                Ok(Ok(table)) => return Ok(Some(table)),
                Ok(Err(said)) => return Err(Error::new_err(said)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            }
        }
    }
}

/// A column as memory of numbers.
pub fn view<'py>(
    py: Python<'py>,
    column: &[u8],
    form: &'static str,
) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyBytes::new(py, column);
    PyMemoryView::from(&bytes)?.call_method1("cast", (form,))
}
