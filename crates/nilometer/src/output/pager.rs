//! The pager for long output, as in psql.
//!
//! Does: hold what is written until it is more than a screenful, then start the pager and pass everything on. Does not:
//! page by itself; where there is no pager, everything goes to the terminal.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Programs that are looked for if the environment names none.
const KNOWN: [&str; 2] = ["less", "more"];

/// Bytes that are passed on together.
const CHUNK_BYTES: usize = 64 << 10;

/// Chunks that wait for a reader at the first page, so that the query can end meanwhile: 64 MiB.
const CHUNKS_WAITING_MAX: usize = 1024;

/// What less is told if the environment tells it nothing: leave colours alone, cut long lines, and end by itself where
/// all fits after all.
const LESS: &str = "FRSX";

/// Output on its way to a terminal.
#[derive(Debug)]
pub(crate) struct Pager {
    program: Option<String>,
    lines_max: usize,
    columns: usize,
    /// Written, but not passed on.
    held: Vec<u8>,
    lines: usize,
    column: usize,
    /// Where it goes once that is known.
    to: To,
}

#[derive(Debug)]
enum To {
    Undecided,
    Terminal,
    Program(Running),
}

#[derive(Debug)]
struct Running {
    child: Child,
    chunks: SyncSender<Vec<u8>>,
    feeder: JoinHandle<()>,
}

impl Pager {
    /// For the terminal at standard output; without a program, or a size, it passes everything on.
    pub(crate) fn new(program: Option<String>) -> Self {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let size = size.filter(|size| size.ws_row > 1 && size.ws_col > 0);
        Self {
            lines_max: size.map_or(0, |size| usize::from(size.ws_row) - 1),
            columns: size.map_or(1, |size| usize::from(size.ws_col)),
            program: program.filter(|_| size.is_some()),
            held: Vec::new(),
            lines: 0,
            column: 0,
            to: To::Undecided,
        }
    }

    /// What the environment says, else what there is: less, or more.
    pub(crate) fn program() -> Option<String> {
        for name in ["NILOMETER_PAGER", "PAGER"] {
            if let Ok(program) = std::env::var(name) {
                return Some(program).filter(|program| !program.trim().is_empty());
            }
        }
        let path = std::env::var_os("PATH")?;
        let known = KNOWN.iter().find(|name| {
            let mut folders = std::env::split_paths(&path);
            folders.any(|folder| folder.join(name).is_file())
        });
        known.map(|&name| name.to_owned())
    }

    /// Passes on what is left and waits until it was read.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if matches!(self.to, To::Undecided) {
            self.to = To::Terminal;
        }
        let passed = self.pass_on();
        if let To::Program(running) = std::mem::replace(&mut self.to, To::Terminal) {
            drop(running.chunks);
            // What it did is seen on the terminal.
            drop(running.feeder.join());
            let mut child = running.child;
            drop(child.wait());
        }
        passed
    }

    fn decide(&mut self) {
        if !matches!(self.to, To::Undecided) {
            return;
        }
        let Some(program) = &self.program else {
            self.to = To::Terminal;
            return;
        };
        if self.lines > self.lines_max {
            self.to = start(program).map_or(To::Terminal, To::Program);
        }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        match &self.to {
            To::Undecided => self.held = held,
            To::Terminal => io::stdout().write_all(&held)?,
            To::Program(running) => {
                let gone = running.chunks.send(held).is_err();
                if gone {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
            }
        }
        Ok(())
    }
}

impl Write for Pager {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        if matches!(self.to, To::Undecided) {
            for byte in bytes {
                if *byte == b'\n' || self.column == self.columns {
                    self.lines += 1;
                    self.column = 0;
                }
                // Continuation bytes of UTF-8 take no room.
                let takes_room = *byte != b'\n' && (*byte & 0xC0) != 0x80;
                self.column += usize::from(takes_room);
            }
            self.decide();
        }
        if self.held.len() >= CHUNK_BYTES {
            self.pass_on()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.to {
            To::Undecided => Ok(()),
            To::Terminal | To::Program(_) => {
                self.pass_on()?;
                io::stdout().flush()
            }
        }
    }
}

fn start(program: &str) -> io::Result<Running> {
    let mut command = Command::new("sh");
    command.args(["-c", program]).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", LESS);
    }
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    let (chunks, taken) = sync_channel::<Vec<u8>>(CHUNKS_WAITING_MAX);
    let feeder = std::thread::spawn(move || {
        let Some(mut stdin) = stdin else { return };
        for chunk in taken {
            if stdin.write_all(&chunk).is_err() {
                return;
            }
        }
    });
    Ok(Running {
        child,
        chunks,
        feeder,
    })
}
