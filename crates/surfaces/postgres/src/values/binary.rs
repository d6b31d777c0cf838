//! The binary form of `numeric`: digits in base 10,000.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};

use super::super::wire::cursor::{Cursor, Malformed};

const POSITIVE: u16 = 0;
const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;

/// Writes a number from its digits, such as `-12.50`.
pub(crate) fn put_numeric(out: &mut BytesMut, text: &str) {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (NEGATIVE, rest),
        None => (POSITIVE, text),
    };
    let (whole, part) = rest.split_once('.').unwrap_or((rest, ""));
    let whole = whole.trim_start_matches('0');
    // Groups of four digits on both sides of the point.
    let lead = (4 - whole.len() % 4) % 4;
    let mut all = vec![b'0'; lead];
    all.extend_from_slice(whole.as_bytes());
    let groups_before = all.len() / 4;
    all.extend_from_slice(part.as_bytes());
    all.resize(all.len().next_multiple_of(4), b'0');
    let (fours, _) = all.as_chunks::<4>();
    let mut groups: Vec<i16> = fours
        .iter()
        .map(|four| {
            four.iter()
                .fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0'))
        })
        .collect();
    let mut weight = i16::try_from(groups_before).unwrap_or(i16::MAX) - 1;
    let zeros = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..zeros);
    weight -= i16::try_from(zeros).unwrap_or(0);
    while groups.last() == Some(&0) {
        groups.pop();
    }
    let is_zero = groups.is_empty();
    out.put_u16(u16::try_from(groups.len()).unwrap_or(u16::MAX));
    out.put_i16(if is_zero { 0 } else { weight });
    out.put_u16(if is_zero { POSITIVE } else { sign });
    out.put_u16(u16::try_from(part.len()).unwrap_or(u16::MAX));
    for group in groups {
        out.put_i16(group);
    }
}

/// The digits of a number, or `NaN`.
pub(crate) fn numeric(body: &mut Cursor) -> Result<String, Malformed> {
    let groups = usize::try_from(body.i16()?).map_err(|_| Malformed)?;
    let weight = i64::from(body.i16()?);
    let sign = body.i16()?.cast_unsigned();
    let scale = usize::try_from(body.i16()?).map_err(|_| Malformed)?;
    let mut digits = Vec::with_capacity(groups.min(64));
    for _ in 0..groups {
        let group = body.i16()?;
        if !(0..10_000).contains(&group) {
            return Err(Malformed);
        }
        digits.push(group);
    }
    match sign {
        POSITIVE | NEGATIVE => {}
        NAN => return Ok("NaN".to_owned()),
        _ => return Err(Malformed),
    }
    let group_at = |exponent: i64| {
        let at = usize::try_from(weight - exponent).ok();
        at.and_then(|at| digits.get(at)).copied().unwrap_or(0)
    };
    let mut text = String::new();
    if sign == NEGATIVE {
        text.push('-');
    }
    let mut whole = String::new();
    for exponent in (0..=weight).rev() {
        put_group(&mut whole, group_at(exponent));
    }
    let whole = whole.trim_start_matches('0');
    text.push_str(if whole.is_empty() { "0" } else { whole });
    if scale > 0 {
        let mut part = String::new();
        let mut exponent = -1;
        while part.len() < scale {
            put_group(&mut part, group_at(exponent));
            exponent -= 1;
        }
        part.truncate(scale);
        text.push('.');
        text.push_str(&part);
    }
    Ok(text)
}

/// Four digits.
fn put_group(text: &mut String, group: i16) {
    // Nothing fails that writes into memory.
    let _ = write!(text, "{group:04}");
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        let mut out = BytesMut::new();
        put_numeric(&mut out, text);
        out.to_vec()
    }

    /// What `numeric_send` of PostgreSQL 15 answers.
    #[test]
    fn the_form_is_that_of_postgresql() {
        for (text, sent) in [
            ("0", "0000000000000000"),
            ("1", "00010000000000000001"),
            ("-12.50", "0002000040000002000c1388"),
            ("12345.678", "0003000100000003000109291a7c"),
            ("0.0001", "0001ffff000000040001"),
            ("10000", "00010001000000000001"),
            (
                "18446744073709551615",
                "000500040000000007341a5802e103bb064f",
            ),
        ] {
            let bytes = bytes(text).into_iter();
            let shown: Vec<String> = bytes.map(|byte| format!("{byte:02x}")).collect();
            let shown = shown.concat();
            assert_eq!(shown, sent, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read_again(text in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?") {
            let read = numeric(&mut Cursor(Bytes::from(bytes(&text)))).unwrap();
            let is_zero = text.bytes().all(|byte| !byte.is_ascii_digit() || byte == b'0');
            let expected = if is_zero { text.trim_start_matches('-').to_owned() } else { text };
            prop_assert_eq!(read, expected);
        }

        #[test]
        fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = numeric(&mut Cursor(Bytes::from(bytes)));
        }
    }
}
