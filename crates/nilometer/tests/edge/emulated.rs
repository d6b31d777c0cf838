//! Promise: what a microcontroller has stored in its flash is on the server in the end, however often it is killed: the library runs on a
//! processor and a flash chip that QEMU emulates, its power goes at any time, and the image of the chip is pushed to a real server.
//!
//! `edge/tests/emulated/firmware.c` says which row is durable. Without the compiler or QEMU the test says that it was skipped.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::process::{Process, nilometer};

const COMPILER: &str = "riscv64-unknown-elf-gcc";
const EMULATOR: &str = "qemu-system-riscv32";
/// How often the power goes.
const ROUNDS: u32 = 50;
/// The store; the chip has 32 MiB.
const STORE_BYTES: usize = 256 << 10;
const CHIP_BYTES: usize = 32 << 20;
struct Board {
    dir: TempDir,
}

/// One life of the board.
struct Life {
    monitor: PathBuf,
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

/// What a life has said: rows found at its beginning, and the number after the last row that it called durable.
#[derive(Debug)]
struct Told {
    found: u32,
    next: u32,
}

impl Board {
    /// `None`: a tool is missing.
    #[expect(clippy::print_stderr, reason = "what is skipped is said")]
    fn build() -> Option<Self> {
        for tool in [COMPILER, EMULATOR] {
            let found = Command::new(tool)
                .arg("--version")
                .stdout(Stdio::null())
                .status();
            if !found.is_ok_and(|status| status.success()) {
                eprintln!(
                    "SKIPPED: {tool} is missing, so that the library did not run on an emulated board; install it with scripts/setup.sh tests"
                );
                return None;
            }
        }
        let dir = TempDir::new().unwrap();
        let edge = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../edge");
        let entries = std::fs::read_dir(edge.join("src")).unwrap();
        let sources = entries.map(|entry| entry.unwrap().path());
        let sources = sources.filter(|path| path.extension().is_some_and(|it| it == "c"));
        let sources: Vec<PathBuf> = sources.collect();
        let mut compiler = Command::new(COMPILER);
        if Path::new("/usr/lib/picolibc/riscv64-unknown-elf").exists() {
            compiler.arg("--specs=picolibc.specs");
        }
        let built = compiler
            .args([
                "-march=rv32imac",
                "-mabi=ilp32",
                "-std=gnu99",
                "-O2",
                "-nostartfiles",
            ])
            .args([
                Path::new("-I"),
                &edge.join("include"),
                Path::new("-I"),
                &edge.join("src"),
            ])
            .args(&sources)
            .arg(edge.join("tests/emulated/firmware.c"))
            .arg("-T")
            .arg(edge.join("tests/emulated/board.ld"))
            .arg("-o")
            .arg(dir.path().join("firmware.elf"))
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
        let board = Self { dir };
        // As it comes from the factory, or from another program: nothing that a store may rely on.
        let mut chip = vec![0xff; CHIP_BYTES];
        chip[..STORE_BYTES].fill(0xa5);
        std::fs::write(board.chip(), chip).unwrap();
        Some(board)
    }

    fn chip(&self) -> PathBuf {
        self.dir.path().join("chip.img")
    }

    fn start(&self) -> Life {
        let monitor = self.dir.path().join("monitor");
        let drive = format!("file={},if=mtd,format=raw", self.chip().display());
        let mut child = Command::new(EMULATOR)
            .args([
                "-M", "sifive_u", "-smp", "2", "-display", "none", "-bios", "none",
            ])
            .args(["-serial", "stdio"])
            .arg("-monitor")
            .arg(format!("unix:{},server=on,wait=off", monitor.display()))
            .arg("-kernel")
            .arg(self.dir.path().join("firmware.elf"))
            .args(["-drive", &drive])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Life {
            monitor,
            child,
            lines,
        }
    }
}

impl Life {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let line = line.trim().to_owned();
        assert!(!line.starts_with('!'), "the firmware stops: {line}");
        line
    }

    /// The rows that it found: `found ROWS NEXT`, and there are no others than those below NEXT.
    fn found(&mut self) -> u32 {
        let line = self.line();
        let numbers: Vec<u32> = line.split(' ').filter_map(|it| it.parse().ok()).collect();
        assert!(line.starts_with("found ") && numbers.len() == 2, "{line:?}");
        assert_eq!(
            numbers[0], numbers[1],
            "rows are missing or there twice: {line}"
        );
        numbers[0]
    }

    /// Lets it store so many rows, then takes its power.
    fn run(mut self, rows: u32) -> Told {
        let found = self.found();
        let mut next = found;
        for _ in 0..rows {
            let line = self.line();
            assert_eq!(line, format!("+{next}"));
            next += 1;
        }
        self.stop();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        // What it had said before that was not read yet; its last line may be cut.
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        for line in rest
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
        {
            assert_eq!(line.trim(), format!("+{next}"));
            next += 1;
        }
        Told { found, next }
    }

    /// Stops the processor where it is. QEMU writes its image behind the firmware's back: without this a kill takes programs with it that
    /// the chip has told are done, and a real chip has them then.
    fn stop(&self) {
        let mut monitor = UnixStream::connect(&self.monitor).unwrap();
        let mut prompts = BufReader::new(monitor.try_clone().unwrap());
        let mut said = Vec::new();
        let mut wait = || {
            said.clear();
            while !said.ends_with(b"(qemu) ") {
                assert!(prompts.read_until(b' ', &mut said).unwrap() > 0);
            }
        };
        wait();
        monitor.write_all(b"stop\n").unwrap();
        wait();
    }

    /// Has it seal everything.
    fn seal(mut self) -> u32 {
        self.found();
        self.child.stdin.take().unwrap().write_all(b"s").unwrap();
        loop {
            let line = self.line();
            if line.starts_with("found ") {
                let rows = line
                    .split(' ')
                    .nth(1)
                    .and_then(|it| it.parse().ok())
                    .unwrap();
                assert_eq!(self.line(), "sealed");
                // QEMU ends in order, with all of the image written.
                let id = rustix::process::Pid::from_child(&self.child);
                rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
                self.child.wait().unwrap();
                return rows;
            }
            assert!(line.starts_with('+'), "{line:?}");
        }
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Time in nanoseconds, temperature and number of a row, as the firmware makes them.
fn row(number: i64) -> (i64, f64, i64) {
    let temperature = (2150 + number * 7919 % 431) as f64 / 100.0;
    (
        (1_700_000_000_000 + 250 * number) * 1_000_000,
        temperature,
        number,
    )
}

#[test]
fn a_board_that_is_killed_fifty_times_has_every_row_on_the_server_in_the_end() {
    let Some(board) = Board::build() else {
        return;
    };
    let mut durable = 0;
    let mut state = 12_345_u32;
    for round in 0..ROUNDS {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let told = board.start().run(state >> 8 & 0x7f);
        assert!(
            told.found >= durable,
            "round {round}: {told:?} after {durable} durable rows"
        );
        // One more than it said may be there: its line was not.
        assert!(
            told.found <= durable + 1,
            "round {round}: {told:?} after {durable}"
        );
        durable = told.next;
    }
    let rows = board.start().seal();
    assert!(rows > 1000, "{rows}");

    let image = std::fs::read(board.chip()).unwrap();
    let flash = board.dir.path().join("flash.img");
    std::fs::write(&flash, &image[..STORE_BYTES]).unwrap();
    let server = Process::start(&board.dir.path().join("data"), &[]);
    let pushed = nilometer()
        .args(["edge", "push", "--device", "board", "--url", &server.url])
        .arg(&flash)
        .output()
        .unwrap();
    assert!(pushed.status.success(), "{pushed:?}");
    compare(&server, rows);
}

/// Whether the server has the rows 0 to `rows` - 1 and no others.
fn compare(server: &Process, rows: u32) {
    let mut found = Vec::new();
    for (which, room) in ["attic", "north hall", "a,b=c"].into_iter().enumerate() {
        let statement = format!(
            "SELECT temperature, count FROM climate WHERE room='{room}' AND device='board'"
        );
        for values in server.rows(&statement) {
            let number = values[2].as_i64().unwrap();
            assert_eq!(number % 3, which as i64);
            found.push((
                values[0].as_i64().unwrap(),
                values[1].as_f64().unwrap(),
                number,
            ));
        }
    }
    found.sort_by_key(|row| row.2);
    let expected: Vec<(i64, f64, i64)> = (0..i64::from(rows)).map(row).collect();
    assert_eq!(found, expected);
    #[cfg(feature = "sql")]
    {
        let statement = "SELECT count(*) AS n, sum(count) AS s, max(time)::bigint AS t FROM climate WHERE device = 'board'";
        let path = format!(
            "/api/v3/query_sql?db=edge&format=json&q={}",
            form_urlencoded::byte_serialize(statement.as_bytes()).collect::<String>()
        );
        let (status, answer) = server.get(&path);
        let n = i64::from(rows);
        let expected = serde_json::json!([{"n": n, "s": n * (n - 1) / 2, "t": row(n - 1).0}]);
        assert_eq!((status, answer), (200, expected));
    }
}
