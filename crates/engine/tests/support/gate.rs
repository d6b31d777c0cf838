//! A disk whose calls can be made to wait, so that a test can look what goes on meanwhile.

#![expect(clippy::unwrap_used, reason = "a failed unwrap is the report")]

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use nilometer_engine::disk::{Disk, DiskFile, DiskLayer, FileLayer, MemoryDisk};

/// A call that may have to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    /// A file gets a second name.
    Link,
    /// Bytes are written to a file.
    Write,
}

/// A disk in memory with a gate.
#[derive(Debug, Clone, Default)]
pub(crate) struct GateDisk {
    disk: MemoryDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Which call on which file waits.
    closed: Option<(Call, String)>,
    waiting: usize,
}

#[derive(Debug)]
struct GateFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    gate: Arc<Gate>,
}

impl GateDisk {
    /// From now on the call waits, on files whose name contains `name`.
    pub(crate) fn close(&self, call: Call, name: &str) {
        self.gate.state.lock().unwrap().closed = Some((call, name.to_owned()));
    }

    /// Returns when somebody waits.
    pub(crate) fn until_somebody_waits(&self) {
        let mut state = self.gate.state.lock().unwrap();
        while state.waiting == 0 {
            state = self.gate.changed.wait(state).unwrap();
        }
    }

    /// Whoever waits goes on, and nobody waits any more.
    pub(crate) fn open(&self) {
        self.gate.state.lock().unwrap().closed = None;
        self.gate.changed.notify_all();
    }
}

impl Gate {
    fn pass(&self, call: Call, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut state = self.state.lock().unwrap();
        let is_closed = |state: &State| {
            let closed = state.closed.as_ref();
            closed.is_some_and(|(of, part)| *of == call && name.contains(part.as_str()))
        };
        state.waiting += 1;
        while is_closed(&state) {
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap();
        }
        state.waiting -= 1;
    }
}

impl FileLayer for GateFile {
    fn below(&self) -> &dyn DiskFile {
        &*self.file
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        self.gate.pass(Call::Write, &self.path);
        self.file.write_at(buf, offset)
    }
}

impl DiskLayer for GateDisk {
    fn below(&self) -> &dyn Disk {
        &self.disk
    }

    fn file(&self, path: &Path, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(GateFile {
            file,
            path: path.to_owned(),
            gate: Arc::clone(&self.gate),
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.gate.pass(Call::Link, to);
        self.disk.link(from, to)
    }
}
