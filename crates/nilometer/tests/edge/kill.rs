//! Promise: a server that is killed between and during requests has what it acknowledged, once.

use std::io::Write;
use std::net::TcpStream;

use tempfile::TempDir;

use crate::process::Process;
use crate::support::{Flash, all, image_rows, large};

const STORED: &str = "SELECT temperature, open FROM climate WHERE device='dev' AND room='attic'";

#[test]
fn a_server_that_is_killed_after_each_page_has_every_row_once() {
    let dir = TempDir::new().unwrap();
    let pages = large();
    let flash = Flash::of_image("dev", 1);
    let mut acknowledged = 0;
    for last in 1..=pages.len() {
        let server = Process::start(dir.path(), &[]);
        // All so far again: the device does not know what the server that died has stored.
        let path = format!("{}&after=0", flash.path());
        let (status, answer) = server.post(&path, &all(&pages[..last]).concat());
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["repeated"], acknowledged, "{answer}");
        acknowledged = last;
        assert_eq!(answer["acknowledged"], acknowledged, "{answer}");
        server.kill();
    }
    let server = Process::start(dir.path(), &[]);
    assert_eq!(server.rows(STORED), image_rows());
}

#[test]
fn a_server_that_is_killed_while_it_stores_has_all_of_a_request_or_nothing() {
    let pages = large();
    let flash = Flash::of_image("dev", 1);
    let body = pages.concat();
    let path = format!("{}&after=0", flash.path());
    let dir = TempDir::new().unwrap();
    for round in 0..8_u32 {
        let server = Process::start(dir.path(), &[]);
        let path = path.replace("store=1", &format!("store={round}"));
        let mut socket = TcpStream::connect(server.url.trim_start_matches("http://")).unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(head.as_bytes()).unwrap();
        // The last bytes of some rounds never leave the device.
        let sent = body.len() - usize::from(round % 4 == 0);
        socket.write_all(&body[..sent]).unwrap();
        for _ in 0..round {
            std::thread::yield_now();
        }
        server.kill();
        let server = Process::start(dir.path(), &[]);
        let (status, answer) = server.post(&path.replace("&after=0", ""), &[]);
        let known = answer["acknowledged"].as_u64().unwrap();
        assert!(
            status == 200 && [0, 6].contains(&known),
            "{round}: {answer}"
        );
        if round % 4 == 0 {
            assert_eq!(known, 0, "{round}");
        }
        let (status, answer) = server.post(&path, &body);
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["repeated"], known, "{answer}");
        assert_eq!(server.rows(STORED), image_rows(), "{round}");
        server.kill();
    }
}
