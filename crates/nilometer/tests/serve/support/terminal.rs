//! The program at a pseudo-terminal, which `script` of util-linux makes: keys go in, and what is shown comes out.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::wait_for;

/// What an editor of lines asks a terminal: where the cursor is.
const WHERE_IS_THE_CURSOR: &str = "\x1b[6n";

/// A session. Dropping it ends the program.
pub(crate) struct Terminal {
    child: Child,
    keys: Arc<Mutex<ChildStdin>>,
    shown: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
    /// Bytes of what was shown that have been looked at.
    seen: usize,
}

impl Terminal {
    /// Starts the binary with these arguments, of which none has a quote, in a folder.
    pub(crate) fn start(dir: &Path, arguments: &str, variables: &[(&str, &str)]) -> Self {
        let binary = env!("CARGO_BIN_EXE_nilometer");
        let line = format!("stty rows 24 cols 100; exec '{binary}' {arguments}");
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .current_dir(dir)
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .env("NILOMETER_HISTORY", "")
            .env_remove("LESS")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("script starts");
        let keys = child.stdin.take().expect("standard input was piped");
        let keys = Arc::new(Mutex::new(keys));
        let shown = Arc::new(Mutex::new(String::new()));
        let mut output = child.stdout.take().expect("standard output was piped");
        let (answers, all) = (Arc::clone(&keys), Arc::clone(&shown));
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                for _ in text.matches(WHERE_IS_THE_CURSOR) {
                    let mut keys = answers.lock().unwrap_or_else(PoisonError::into_inner);
                    // A program that has ended does not ask any more.
                    drop(keys.write_all(b"\x1b[1;1R").and_then(|()| keys.flush()));
                }
                all.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push_str(&text);
            }
        });
        Self {
            child,
            keys,
            shown,
            reader: Some(reader),
            seen: 0,
        }
    }

    /// Presses keys.
    pub(crate) fn keys(&self, keys: &str) {
        let mut pipe = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let written = pipe.write_all(keys.as_bytes()).and_then(|()| pipe.flush());
        written.expect("the terminal takes keys");
    }

    /// Types a line when the prompt is there.
    pub(crate) fn line(&mut self, text: &str) {
        self.shows("> ");
        self.keys(text);
        self.keys("\r");
    }

    /// Waits until this is shown after what was waited for before, and answers what came up to its end.
    pub(crate) fn shows(&mut self, words: &str) -> String {
        let from = self.seen;
        let found = wait_for(&format!("{words:?} in {:?}", self.all(from)), || {
            let shown = self.all(from);
            let end = shown.find(words)? + words.len();
            Some(shown[..end].to_owned())
        });
        self.seen += found.len();
        found
    }

    /// Whether this is shown within a second after what was waited for before; a test asks again if not.
    pub(crate) fn shows_soon(&self, words: &str) -> bool {
        let is_shown = || self.all(self.seen).contains(words);
        (0..100).any(|_| {
            thread::sleep(Duration::from_millis(10));
            is_shown()
        })
    }

    /// Waits for the program's end, and answers its status and what was shown last.
    pub(crate) fn ends(mut self) -> (Option<i32>, String) {
        let status = wait_for("the end of the program", || {
            self.child
                .try_wait()
                .expect("the child is ours to wait for")
        });
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        (status.code(), self.all(self.seen))
    }

    fn all(&self, from: usize) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown[from..].to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Either may fail because the child has ended already, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
