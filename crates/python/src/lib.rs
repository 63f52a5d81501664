//! Traces in Python: `import everypath`.
//!
//! It opens recordings of `everypath trace` and gives what their threads did, as objects one by
//! one or as tables of columns (docs/formats/python.md). It knows nothing of how streams are
//! stored, and decides nothing: what is asked is answered by `analysis` and `report`.
//!
//! Problem: a reader of a thread borrows the recording, and an object of Python borrows
//! nothing; and Python is slow.
//!
//! Approach: a thread of its own reads ([`events`]), some tables ahead, without Python's lock.
//! Columns are bytes, which Python sees as memory of a type; kinds that are not wanted never
//! become objects.
#![forbid(unsafe_code)]

mod accesses;
mod ahead;
mod events;
mod tables;

use std::fs::File;
use std::sync::Arc;

use analysis::walk::segments::{self, Task};
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use trace::{Mode, Recording};

use accesses::{Access, AccessList, AccessTable, AccessTables};
use events::{KINDS, Kinds};
use tables::{Event, Events, Table, Tables};

create_exception!(
    everypath,
    Error,
    PyException,
    "A recording cannot be read, or not on; it says why."
);

/// A recording of `everypath trace`.
#[pyclass(frozen, module = "everypath")]
struct Trace {
    recording: Arc<Recording>,
    /// Why the file is not all that was written, or None.
    #[pyo3(get)]
    lost: Option<String>,
}

#[pymethods]
impl Trace {
    /// The command that was traced.
    #[getter]
    fn command(&self) -> Vec<String> {
        self.recording.meta.command.clone()
    }

    /// All of its processes, in the order in which they began; another program that is
    /// executed is a process of its own.
    #[getter]
    fn processes(&self) -> Vec<Process> {
        let of = |index| Process {
            recording: self.recording.clone(),
            index,
        };
        (0..self.recording.processes.len()).map(of).collect()
    }

    /// The threads of all processes.
    #[getter]
    fn threads(&self) -> Vec<Thread> {
        let processes = self.processes();
        processes.iter().flat_map(Process::threads).collect()
    }
}

/// A process of a trace.
#[pyclass(frozen, module = "everypath")]
struct Process {
    recording: Arc<Recording>,
    index: usize,
}

impl Process {
    fn of(&self) -> &trace::Process {
        &self.recording.processes[self.index]
    }
}

#[pymethods]
impl Process {
    /// Its position in `processes`.
    #[getter]
    fn index(&self) -> usize {
        self.index
    }

    #[getter]
    fn pid(&self) -> u32 {
        self.of().pid
    }

    /// Position of the process that made it, or None.
    #[getter]
    fn parent(&self) -> Option<usize> {
        self.of().parent
    }

    /// It was made by fork and is not another program.
    #[getter]
    fn forked(&self) -> bool {
        self.of().by_fork
    }

    #[getter]
    fn exe(&self) -> &str {
        &self.of().exe
    }

    #[getter]
    fn args(&self) -> Vec<String> {
        self.of().args.clone()
    }

    #[getter]
    fn threads(&self) -> Vec<Thread> {
        let of = |at| Thread {
            recording: self.recording.clone(),
            at: (self.index, at),
        };
        (0..self.of().threads.len()).map(of).collect()
    }

    /// Executable mappings of files, as tuples: path, first address, address behind it, offset
    /// of the first in the file, and the file's build id or None.
    #[getter]
    fn modules<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let tuple = |module: &trace::Module| {
            let id = module.build_id.as_ref().map(|id| PyBytes::new(py, id));
            (&module.path, module.start, module.end, module.offset, id).into_pyobject(py)
        };
        self.of().modules.iter().map(tuple).collect()
    }

    /// A dict with the name of each of these addresses: `function+0x4`, or `module+0x1234`;
    /// empty for code of no file.
    fn names<'py>(
        &self,
        py: Python<'py>,
        addresses: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let names = report::steps::Names::of(&self.recording, self.of());
        let found = PyDict::new(py);
        for address in addresses.try_iter()? {
            let address = address?;
            found.set_item(&address, names.name(0, address.extract()?))?;
        }
        Ok(found)
    }

    fn __repr__(&self) -> String {
        format!("<process {} {}>", self.of().pid, self.of().program())
    }
}

/// A thread of a process.
#[pyclass(frozen, module = "everypath")]
struct Thread {
    recording: Arc<Recording>,
    at: (usize, usize),
}

impl Thread {
    fn of(&self) -> &trace::Thread {
        &self.recording.processes[self.at.0].threads[self.at.1]
    }
}

#[pymethods]
impl Thread {
    #[getter]
    fn tid(&self) -> u32 {
        self.of().tid
    }

    #[getter]
    fn process(&self) -> Process {
        Process {
            recording: self.recording.clone(),
            index: self.at.0,
        }
    }

    /// How it comes that nothing more is known of it.
    #[getter]
    fn end(&self) -> &'static str {
        let process = &self.recording.processes[self.at.0];
        report::steps::stopped(&self.recording, process, self.of())
    }

    /// How many instructions it executed, counted by all processors.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        let mut tasks = Task::all(&self.recording);
        tasks.retain(|task| (task.process, task.thread) == self.at);
        let counts = py.detach(|| segments::each(&self.recording, &tasks, segments::count));
        let mut sum = 0;
        for (insns, error) in counts {
            sum += insns;
            if let Some(error) = error {
                return Err(events::failure(self.of(), &error));
            }
        }
        Ok(sum)
    }

    /// Events of the thread, one by one; only of these kinds, if any are given.
    #[pyo3(signature = (*kinds))]
    fn events(&self, kinds: Vec<String>) -> PyResult<Events> {
        Ok(Events::new(self.tables(kinds)?))
    }

    /// Events of the thread as tables of columns, up to 65,536 events each.
    #[pyo3(signature = (*kinds))]
    fn tables(&self, kinds: Vec<String>) -> PyResult<Tables> {
        let kinds = Kinds::of(&kinds)?;
        Ok(Tables::new(events::read(&self.recording, self.at, kinds)?))
    }

    /// Memory accesses of the thread, one by one, from its instruction `first` on.
    #[pyo3(signature = (first = 1))]
    fn accesses(&self, first: u64) -> PyResult<AccessList> {
        Ok(AccessList::new(self.access_tables(first)?))
    }

    /// Memory accesses of the thread as tables of columns, up to 65,536 accesses each.
    #[pyo3(signature = (first = 1))]
    fn access_tables(&self, first: u64) -> PyResult<AccessTables> {
        let receiver = accesses::read(&self.recording, self.at, first)?;
        Ok(AccessTables::new(receiver))
    }

    fn __repr__(&self) -> String {
        format!("<thread {}>", self.of().tid)
    }
}

/// Opens a recording of `everypath trace`. Of one that is damaged, all that can be read is
/// there, and `lost` says why it is not all.
#[pyfunction]
fn open(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Trace> {
    let shown = path.display();
    let cannot = |why: String| Error::new_err(format!("cannot read '{shown}': {why}"));
    let file = File::open(&path).map_err(|error| cannot(error.to_string()))?;
    let prefix = py.detach(|| trace::read_prefix(file));
    let prefix = prefix.map_err(|error| cannot(error.to_string()))?;
    if prefix.recording.meta.mode != Mode::Trace {
        return Err(Error::new_err(format!(
            "'{shown}' is no trace; record one with `everypath trace -o {shown}`"
        )));
    }
    Ok(Trace {
        recording: Arc::new(prefix.recording),
        lost: prefix.lost.map(|loss| loss.to_string()),
    })
}

#[pymodule]
fn everypath(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<Error>())?;
    module.add("KINDS", PyTuple::new(module.py(), KINDS)?)?;
    module.add_class::<Trace>()?;
    module.add_class::<Process>()?;
    module.add_class::<Thread>()?;
    module.add_class::<Event>()?;
    module.add_class::<Table>()?;
    module.add_class::<Access>()?;
    module.add_class::<AccessTable>()?;
    module.add_function(wrap_pyfunction!(open, module)?)
}
