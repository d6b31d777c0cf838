//! A folder for files that a test makes, and a server whose data is in it.

use std::path::Path;

use tempfile::TempDir;

use super::Server;

/// What a test of a command works with; the folder goes with it.
pub(crate) struct Scratch {
    pub(crate) dir: TempDir,
    pub(crate) server: Server,
}

impl Scratch {
    /// An empty folder, but for the data of a server that runs.
    pub(crate) fn new() -> Self {
        let dir = TempDir::new().expect("a scratch folder");
        let server = Server::start(&dir.path().join("data"), &[]);
        Self { dir, server }
    }

    /// The same with these lines in the database `d`.
    pub(crate) fn with(lines: &str) -> Self {
        let scratch = Self::new();
        let response = scratch.server.write("d", lines);
        assert_eq!(response.status, 204, "{}", response.text());
        scratch
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path().join(name), bytes).expect("a file of a test's own");
    }
}
