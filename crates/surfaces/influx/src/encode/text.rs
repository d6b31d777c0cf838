//! Texts in JSON as Go's `encoding/json` writes them.

use std::io::Write;

/// What Go escapes although JSON would not: browsers must not find markup in it.
const MARKUP: [u8; 3] = *b"<>&";

/// Appends a text with its quotes.
pub(crate) fn push_json_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut plain_from = 0;
    let mut at = 0;
    while let Some(rest) = bytes.get(at..)
        && let Some(found) = rest.iter().position(|&byte| is_special(byte))
    {
        at += found;
        let special = rest.get(found..).unwrap_or_default();
        let taken = special_bytes(special);
        if taken > 0 {
            out.extend_from_slice(bytes.get(plain_from..at).unwrap_or_default());
            push_escaped(special, out);
            plain_from = at + taken;
        }
        at += taken.max(1);
    }
    out.extend_from_slice(bytes.get(plain_from..).unwrap_or_default());
    out.push(b'"');
}

/// By byte: whether it is, or begins, what may be escaped. Every name and text is looked through.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        special[byte] = true;
        byte += 1;
    }
    special[b'"' as usize] = true;
    special[b'\\' as usize] = true;
    let [less, greater, and] = MARKUP;
    special[less as usize] = true;
    special[greater as usize] = true;
    special[and as usize] = true;
    special[0xe2] = true;
    special
};

fn is_special(byte: u8) -> bool {
    SPECIAL.get(usize::from(byte)).copied().unwrap_or(true)
}

/// How many of the first bytes are escaped together.
fn special_bytes(special: &[u8]) -> usize {
    match special {
        // U+2028 and U+2029 end a line in JavaScript.
        [0xe2, 0x80, 0xa8 | 0xa9, ..] => 3,
        [0xe2, ..] => 0,
        _ => 1,
    }
}

fn push_escaped(special: &[u8], out: &mut Vec<u8>) {
    let short = match special.first() {
        Some(b'"') => b"\\\"",
        Some(b'\\') => b"\\\\",
        Some(b'\n') => b"\\n",
        Some(b'\r') => b"\\r",
        Some(b'\t') => b"\\t",
        Some(0x08) => b"\\b",
        Some(0x0c) => b"\\f",
        Some(0xe2) => {
            let is_second = special.get(2) == Some(&0xa9);
            out.extend_from_slice(if is_second { b"\\u2029" } else { b"\\u2028" });
            return;
        }
        Some(byte) => {
            write!(out, "\\u{byte:04x}").expect("a buffer takes everything");
            return;
        }
        None => return,
    };
    out.extend_from_slice(short);
}
