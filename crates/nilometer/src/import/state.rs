//! State of an import in a file, so that it can go on after it was interrupted.
//!
//! Does: count up, per input, to where everything is in; write and read the file. Does not: decide when. Batches come
//! back in any order; what counts is the place up to which none is missing. What is beyond it is sent again with the
//! same keys, and the store knows it again. A key is made of the import's number, which only the file remembers, so the
//! file is durable before the first batch is sent: an import without a file has sent nothing.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::batch::{Batch, Start};
use super::input::Input;

const VERSION: u32 = 1;

/// How long a store remembers keys unless its `key-age-ms` says otherwise.
pub(super) const KEY_AGE: Duration = Duration::from_hours(24);

/// As it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    version: u32,
    /// 32 hexadecimal digits.
    import: String,
    /// Empty = those that the files name.
    database: String,
    target: String,
    pub(super) rows: u64,
    pub(super) rejected: u64,
    inputs: Vec<InputState>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct InputState {
    path: PathBuf,
    bytes: u64,
    modified_ms: u64,
    at: u64,
    line: u64,
    done: bool,
    /// Batches that are in beyond `at`, with the line after them.
    #[serde(skip)]
    ahead: BTreeMap<u64, (u64, u64)>,
}

impl State {
    /// An import that has done nothing; `None` = it could not go on anyway, because an input can be read once only.
    pub(super) fn new(
        inputs: &[Input],
        import: u128,
        database: &str,
        target: &str,
    ) -> Option<Self> {
        let inputs: Option<Vec<InputState>> = inputs
            .iter()
            .map(|input| {
                let path = input.path.as_ref()?;
                let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
                Some(InputState {
                    modified_ms: modified_ms(&path),
                    path,
                    bytes: input.bytes,
                    at: 0,
                    line: 1,
                    done: false,
                    ahead: BTreeMap::new(),
                })
            })
            .collect();
        Some(Self {
            version: VERSION,
            import: format!("{import:032x}"),
            database: database.to_owned(),
            target: target.to_owned(),
            rows: 0,
            rejected: 0,
            inputs: inputs?,
        })
    }

    /// Reads the file of an earlier import, if there is one; `fresh` is what this one would begin with.
    pub(super) fn resume(path: &Path, fresh: &Self) -> anyhow::Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let again = || format!("remove {} to import from the start", path.display());
        let state: Self = serde_json::from_str(&text)
            .with_context(|| format!("{} is no state of an import; {}", path.display(), again()))?;
        if state.version != VERSION || u128::from_str_radix(&state.import, 16).is_err() {
            bail!(
                "{} was written by another version; {}",
                path.display(),
                again()
            );
        }
        if (&state.database, &state.target) != (&fresh.database, &fresh.target) {
            bail!(
                "the import that broke off went to {} at {}, this one goes to {} at {}; {}",
                state.goes_to(),
                state.target,
                fresh.goes_to(),
                fresh.target,
                again()
            );
        }
        let is_same = |(old, new): (&InputState, &InputState)| {
            (&old.path, old.bytes, old.modified_ms) == (&new.path, new.bytes, new.modified_ms)
        };
        if state.inputs.len() != fresh.inputs.len()
            || !state.inputs.iter().zip(&fresh.inputs).all(is_same)
        {
            bail!(
                "the files are not those of the import that broke off, or they have changed; {}",
                again()
            );
        }
        Ok(Some(state))
    }

    fn goes_to(&self) -> String {
        match self.database.as_str() {
            "" => "the databases that its files name".to_owned(),
            name => format!("database {name}"),
        }
    }

    pub(super) fn import(&self) -> u128 {
        u128::from_str_radix(&self.import, 16).unwrap_or(0)
    }

    /// Where an input goes on; `None` = it is in.
    pub(super) fn start(&self, input: usize) -> Option<Start> {
        let input = self.inputs.get(input)?;
        (!input.done).then_some(Start {
            at: input.at,
            line: input.line,
        })
    }

    /// A batch is in.
    pub(super) fn add(&mut self, batch: &Batch) {
        let Some(input) = self.inputs.get_mut(batch.input) else {
            return;
        };
        let line = batch.line_after();
        input.ahead.insert(batch.begin, (batch.end, line));
        while let Some((end, line)) = input.ahead.remove(&input.at) {
            (input.at, input.line) = (end, line);
        }
    }

    /// All batches of an input are in.
    pub(super) fn finish(&mut self, input: usize) {
        if let Some(input) = self.inputs.get_mut(input) {
            input.done = true;
        }
    }

    /// Writes the file: the old one or the new one is there at any time, also after a power cut, and the new one once this
    /// returns.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        replace(path, text.as_bytes()).with_context(|| {
            format!(
                "cannot write {}; give another place with --resume=FILE",
                path.display()
            )
        })
    }
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let mut file = File::create(&partial)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&partial, path)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Where the state is if the user does not say: beside the first input.
pub(super) fn default_path(inputs: &[Input]) -> Option<PathBuf> {
    let mut name = inputs.first()?.path.as_ref()?.as_os_str().to_owned();
    name.push(".import-state");
    Some(PathBuf::from(name))
}

/// Whether the file was written so long ago that a store may have forgotten the keys of what was sent last.
pub(super) fn is_old(path: &Path) -> bool {
    let modified = std::fs::metadata(path).and_then(|it| it.modified());
    let age = modified.ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age >= KEY_AGE)
}

fn modified_ms(path: &Path) -> u64 {
    let modified = std::fs::metadata(path).and_then(|it| it.modified());
    let since = modified
        .ok()
        .and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::super::batch::Content;
    use super::super::input::FileFormat;
    use super::*;

    fn batch(begin: u64, end: u64, line: u64) -> Batch {
        Batch {
            input: 0,
            begin,
            end,
            content: Content::Lines {
                text: b"m v=1\n".to_vec(),
                first: line,
                precision: nilometer_lineproto::Precision::Auto,
                place: None,
            },
            rows: 1,
            rejected: Vec::new(),
        }
    }

    fn fresh(dir: &Path, database: &str) -> State {
        let input = Input {
            path: Some(dir.join("a.lp")),
            bytes: 18,
            format: FileFormat::LineProtocol,
        };
        State::new(&[input], 7, database, "http://x").unwrap()
    }

    #[test]
    fn an_import_goes_on_where_the_first_batch_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.lp"), "m v=1\n".repeat(3)).unwrap();
        let path = dir.path().join("state");
        let mut state = fresh(dir.path(), "d");
        assert_eq!(State::resume(&path, &state).unwrap(), None);
        state.add(&batch(6, 12, 2));
        assert_eq!(state.start(0), Some(Start { at: 0, line: 1 }));
        state.add(&batch(0, 6, 1));
        assert_eq!(state.start(0), Some(Start { at: 12, line: 3 }));
        state.write(&path).unwrap();
        let again = State::resume(&path, &fresh(dir.path(), "d"))
            .unwrap()
            .unwrap();
        assert_eq!(
            (again.start(0), again.import()),
            (Some(Start { at: 12, line: 3 }), 7)
        );
        state.finish(0);
        assert_eq!(state.start(0), None);
    }

    #[test]
    fn a_state_is_old_once_keys_may_be_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.lp"), "m v=1\n").unwrap();
        let path = dir.path().join("state");
        assert!(!is_old(&path), "what is not there is not old");
        fresh(dir.path(), "d").write(&path).unwrap();
        assert!(!is_old(&path));
        let before = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(before))
            .unwrap();
        assert!(is_old(&path));
    }

    #[test]
    fn another_file_or_target_does_not_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.lp");
        std::fs::write(&file, "m v=1\n").unwrap();
        let path = dir.path().join("state");
        fresh(dir.path(), "d").write(&path).unwrap();
        let error = State::resume(&path, &fresh(dir.path(), "e")).unwrap_err();
        assert!(error.to_string().contains("database d"), "{error}");
        let mut other = fresh(dir.path(), "d");
        other.inputs[0].bytes = 19;
        let error = State::resume(&path, &other).unwrap_err();
        assert!(error.to_string().contains("changed"), "{error}");
        std::fs::write(&path, "{").unwrap();
        let error = State::resume(&path, &other).unwrap_err();
        assert!(error.to_string().contains("remove"), "{error}");
    }
}
