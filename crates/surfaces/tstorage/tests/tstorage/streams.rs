//! Streams of bytes that were recorded: what TStorage's own clients send, and what is answered to them.

use std::path::Path;

use crate::server::World;

/// Bytes in hexadecimal digits, `None` = any byte.
fn bytes(digits: &str) -> Vec<Option<u8>> {
    let digits = digits.as_bytes().chunks(2);
    digits
        .map(|pair| match pair {
            b"??" => None,
            pair => Some(u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()),
        })
        .collect()
}

/// Plays a file to a new server, in pieces of so many bytes.
fn play(path: &Path, piece: usize) {
    let server = World::default().start();
    let mut client = server.connect();
    let text = std::fs::read_to_string(path).unwrap();
    for (at, line) in text.lines().enumerate() {
        let place = || format!("{}:{}", path.display(), at + 1);
        match line.split_once(' ') {
            Some((">", sent)) => {
                let sent: Vec<u8> = bytes(sent).into_iter().map(Option::unwrap).collect();
                for piece in sent.chunks(piece) {
                    client.send(piece);
                }
            }
            Some(("<", expected)) => {
                let expected = bytes(expected);
                let read = client.exactly(expected.len());
                let pairs = read.iter().zip(&expected);
                let differs = |(read, expected): (&u8, &Option<u8>)| {
                    expected.is_some_and(|expected| *read != expected)
                };
                assert!(!pairs.into_iter().any(differs), "{}: {read:02x?}", place());
            }
            _ if line == "end" => assert!(client.rest().unwrap().is_empty(), "{}", place()),
            _ => assert!(line.is_empty() || line.starts_with('#'), "{}", place()),
        }
    }
}

#[test]
fn streams_of_the_vendor_s_clients_are_answered_byte_by_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata/tstorage");
    let mut played = 0;
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        // As they come, and byte by byte.
        play(&path, usize::MAX);
        play(&path, 1);
        played += 1;
    }
    assert!(played >= 3, "{played} files in {}", folder.display());
}
