//! Promise: what a firmware has stored arrives, from a project in C to rows on the server: the power may go at any byte of an upload,
//! and the server may be killed between.
//!
//! `edge/tests/upload.c` is the firmware; it prints each row as it stores it, and those lines are what the server must have.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Process, nilometer};

/// Where the power has gone.
const CUT: i32 = 3;

struct Firmware {
    dir: TempDir,
    key: String,
    /// Room, time in milliseconds: temperature, count.
    written: BTreeMap<(String, i64), (f64, i64)>,
    rows: usize,
}

impl Firmware {
    /// Built by the compiler of this machine, which every build of the program needs, too.
    fn build() -> Self {
        let dir = TempDir::new().unwrap();
        let edge = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../edge");
        let mut sources = vec![edge.join("tests/upload.c")];
        for folder in ["src", "src/sync"] {
            let entries = std::fs::read_dir(edge.join(folder)).unwrap();
            let files = entries.map(|entry| entry.unwrap().path());
            sources.extend(files.filter(|path| path.extension().is_some_and(|it| it == "c")));
        }
        let built = Command::new(std::env::var_os("CC").unwrap_or("cc".into()))
            .args(["-std=gnu99", "-O1", "-I"])
            .arg(edge.join("include"))
            .arg("-I")
            .arg(edge.join("src"))
            .args(&sources)
            .arg("-o")
            .arg(dir.path().join("firmware"))
            .output()
            .unwrap();
        assert!(built.status.success(), "{built:?}");
        let secret = dir.path().join("edge.secret");
        std::fs::write(&secret, "0123456789abcdef0123456789abcdef").unwrap();
        let printed = nilometer()
            .args(["edge", "key", "--device", "dev", "--edge-secret-file"])
            .arg(secret)
            .output()
            .unwrap();
        let key = String::from_utf8(printed.stdout).unwrap();
        Self {
            dir,
            key: key.trim().to_owned(),
            written: BTreeMap::new(),
            rows: 0,
        }
    }

    fn server(&self) -> Process {
        let secret = self.dir.path().join("edge.secret");
        let flags = ["--edge-secret-file", secret.to_str().unwrap()];
        Process::start(&self.dir.path().join("data"), &flags)
    }

    fn flash(&self) -> PathBuf {
        self.dir.path().join("flash.img")
    }

    /// Starts the device, has it store rows and upload them; the power goes after so many bytes of requests.
    fn run(&mut self, server: &Process, rows: usize, cut: i64) -> Output {
        let key = self.key.clone();
        self.run_as(server, (&key, 1), rows, cut)
    }

    fn run_as(
        &mut self,
        server: &Process,
        (key, store): (&str, u32),
        rows: usize,
        cut: i64,
    ) -> Output {
        let output = Command::new(self.dir.path().join("firmware"))
            .arg(self.flash())
            .args([&server.port().to_string(), "dev", &store.to_string(), key])
            .args([self.rows.to_string(), rows.to_string(), cut.to_string()])
            .output()
            .unwrap();
        self.rows += rows;
        let lines = String::from_utf8(output.stdout.clone()).unwrap();
        for line in lines.lines() {
            let parts: Vec<&str> = line.split('\t').collect();
            let bits = u64::from_str_radix(parts[2], 16).unwrap();
            let values = (f64::from_bits(bits), parts[3].parse().unwrap());
            let key = (parts[0].to_owned(), parts[1].parse().unwrap());
            assert!(self.written.insert(key, values).is_none(), "{line}");
        }
        output
    }

    /// Whether the server has what was written, and nothing else.
    fn check(&self, server: &Process) {
        let mut found = BTreeMap::new();
        for room in ["attic", "north hall", "a,b=c"] {
            let statement = format!(
                "SELECT temperature, count FROM climate WHERE room='{room}' AND device='dev'"
            );
            for row in server.rows(&statement) {
                let time = row[0].as_i64().unwrap();
                assert_eq!(time % 1_000_000, 0);
                let values = (row[1].as_f64().unwrap(), row[2].as_i64().unwrap());
                let old = found.insert((room.to_owned(), time / 1_000_000), values);
                assert!(old.is_none(), "{room} {time}");
            }
        }
        assert_eq!(found.len(), self.written.len());
        assert_eq!(found, self.written);
        let all = server.rows("SELECT count(temperature) FROM climate");
        assert_eq!(all[0][1], self.written.len());
    }
}

#[test]
fn rows_of_a_firmware_arrive_however_often_the_power_goes_and_the_server_dies() {
    let mut firmware = Firmware::build();
    let mut server = firmware.server();
    // At first there is enough for several requests.
    let mut cuts = 0;
    for (at, cut) in (0..40).map(|at| (at, 150 + at * 397)) {
        let rows = if at == 0 { 900 } else { 7 };
        let output = firmware.run(&server, rows, cut);
        let code = output.status.code().unwrap();
        assert!([0, CUT].contains(&code), "{output:?}");
        cuts += usize::from(code == CUT);
        if at % 8 == 7 {
            server.kill();
            server = firmware.server();
        }
    }
    assert!(cuts >= 8, "{cuts}");
    let output = firmware.run(&server, 0, -1);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(firmware.written.len(), 900 + 39 * 7);
    firmware.check(&server);
    server.kill();
    firmware.check(&firmware.server());
}

#[test]
fn an_image_of_the_flash_goes_on_where_the_device_has_stopped() {
    let mut firmware = Firmware::build();
    let server = firmware.server();
    let output = firmware.run(&server, 600, 3600);
    assert_eq!(output.status.code(), Some(CUT), "{output:?}");
    let key = firmware.dir.path().join("dev.key");
    std::fs::write(&key, &firmware.key).unwrap();
    let push = |store: &str| {
        nilometer()
            .args(["edge", "push", "--device", "dev", "--url", &server.url])
            .args(["--store", store, "--key-file"])
            .arg(&key)
            .arg(firmware.flash())
            .output()
            .unwrap()
    };
    let output = push("1");
    assert!(output.status.success(), "{output:?}");
    firmware.check(&server);
    // And the device where the image has stopped.
    let output = firmware.run(&server, 100, -1);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    firmware.check(&server);
}

#[test]
fn a_device_without_its_key_is_refused_and_one_that_was_erased_says_so() {
    let mut firmware = Firmware::build();
    let server = firmware.server();
    let wrong = "0".repeat(64);
    for key in ["-", wrong.as_str()] {
        let output = firmware.run_as(&server, (key, 1), 50, -1);
        assert_eq!(output.status.code(), Some(4), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("http 401"), "{said}");
    }
    let output = firmware.run(&server, 600, -1);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    std::fs::remove_file(firmware.flash()).unwrap();
    let output = firmware.run(&server, 10, -1);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let key = firmware.key.clone();
    let output = firmware.run_as(&server, (&key, 2), 10, -1);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    firmware.check(&server);
    let devices = server.rows("SHOW TAG VALUES FROM climate WITH KEY = device");
    assert_eq!(devices, [[Value::from("device"), Value::from("dev")]]);
}
