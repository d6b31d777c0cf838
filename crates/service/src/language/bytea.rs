//! Bytes as texts that statements and COPY have of them.

/// The bytes that a text stands for, as `PostgreSQL` reads `bytea`: `\x` and hexadecimal digits, or characters with `\\` and
/// `\ooo` among them. What is wrong with it is said in its words.
pub fn bytes_of_text(text: &str) -> Result<Vec<u8>, String> {
    if let Some(digits) = text.strip_prefix("\\x") {
        return bytes_of_digits(digits);
    }
    let wrong = || "invalid input syntax for type bytea".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        match *rest {
            [b'\\', ref after @ ..] => {
                bytes.push(b'\\');
                rest = after;
            }
            [
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                ref after @ ..,
            ] => {
                bytes.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest = after;
            }
            _ => return Err(wrong()),
        }
    }
    Ok(bytes)
}

fn bytes_of_digits(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for letter in text.chars() {
        let digit = match letter.to_digit(16) {
            Some(digit) => u8::try_from(digit).unwrap_or(0),
            // Between bytes, not between the digits of one.
            None if letter.is_ascii_whitespace() && high.is_none() => continue,
            None => return Err(format!("invalid hexadecimal digit: \"{letter}\"")),
        };
        high = match high {
            None => Some(digit << 4),
            Some(high) => {
                bytes.push(high | digit);
                None
            }
        };
    }
    match high {
        None => Ok(bytes),
        Some(_) => Err("invalid hexadecimal data: odd number of digits".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are those that PostgreSQL 15 shows for the texts.
    #[test]
    fn text_stands_for_bytes() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("abc", b"abc"),
            ("\\x", b""),
            ("\\x00fF", b"\x00\xff"),
            ("\\x 00 ff ", b"\x00\xff"),
            ("\\\\", b"\\"),
            ("\\000a\\377", b"\x00a\xff"),
            ("\u{e4}", "\u{e4}".as_bytes()),
            ("x41", b"x41"),
        ] {
            assert_eq!(bytes_of_text(text).as_deref(), Ok(bytes), "{text}");
        }
        for (text, reason) in [
            ("\\x0", "odd number of digits"),
            ("\\x0 0", "invalid hexadecimal digit: \" \""),
            ("\\xzz", "invalid hexadecimal digit: \"z\""),
            ("\\", "invalid input syntax"),
            ("\\400", "invalid input syntax"),
            ("\\01", "invalid input syntax"),
        ] {
            assert!(bytes_of_text(text).unwrap_err().contains(reason), "{text}");
        }
    }
}
