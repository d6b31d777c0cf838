//! The real input of `testdata/tsbs/`: reading it, and loading it as a client does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use flate2::read::GzDecoder;

use crate::support::{Server, gzip};

/// Lines in one request. A prime, so that no batch ends where a block or a flush does.
const BATCH_LINES: usize = 997;

/// One use case of the suite: its file and the database it is loaded into.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UseCase {
    pub(crate) name: &'static str,
    pub(crate) db: &'static str,
    /// Whether its requests are compressed; one of the three is, so that both ways are taken.
    is_gzipped: bool,
}

pub(crate) const CPU_ONLY: UseCase = UseCase {
    name: "cpu-only",
    db: "cpu_only",
    is_gzipped: false,
};
pub(crate) const DEVOPS: UseCase = UseCase {
    name: "devops",
    db: "devops",
    is_gzipped: true,
};
pub(crate) const IOT: UseCase = UseCase {
    name: "iot",
    db: "iot",
    is_gzipped: false,
};

impl UseCase {
    /// The line protocol of the use case.
    pub(crate) fn text(self) -> String {
        read_gzip(&format!("{}.influx.gz", self.name))
    }

    /// Writes the use case in batches and returns how many points those were.
    pub(crate) fn load(self, server: &Server) -> usize {
        let text = self.text();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        for batch in lines.chunks(BATCH_LINES) {
            let body = batch.concat().into_bytes();
            let (body, encoding) = if self.is_gzipped {
                (gzip(&body), Some("gzip"))
            } else {
                (body, None)
            };
            let response = server
                .try_write(self.db, &body, encoding)
                .unwrap_or_else(|error| panic!("{}: write: {error}", self.name));
            assert_eq!(response.status, 204, "{}: {}", self.name, response.text());
        }
        lines.len()
    }

    /// The tag columns of each table: every tag key that occurs. The suite escapes nothing.
    pub(crate) fn tags(self) -> BTreeMap<String, BTreeSet<String>> {
        let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in self.text().lines() {
            let mut parts = line.split(' ').next().unwrap_or_default().split(',');
            let table = parts.next().expect("a line has a table");
            let tags = tables.entry(table.to_owned()).or_default();
            for (key, _) in parts.filter_map(|tag| tag.split_once('=')) {
                if !tags.contains(key) {
                    tags.insert(key.to_owned());
                }
            }
        }
        tables
    }
}

/// Where the test data lies.
pub(crate) fn path(file: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/tsbs")).join(file)
}

/// A file of the test data as text.
pub(crate) fn read(file: &str) -> String {
    std::fs::read_to_string(path(file))
        .unwrap_or_else(|error| panic!("{}: {error}", path(file).display()))
}

/// A compressed file of the test data as text.
pub(crate) fn read_gzip(file: &str) -> String {
    let mut text = String::new();
    File::open(path(file))
        .and_then(|bytes| GzDecoder::new(bytes).read_to_string(&mut text))
        .unwrap_or_else(|error| panic!("{}: {error}", path(file).display()));
    text
}
