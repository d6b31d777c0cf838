//! Numbers of bytes as people write them: 4GB, 512MiB, 10k.
//!
//! Does: give every flag that takes bytes (its value is called BYTES) a parser that knows units. Does not: know any flag.

use std::any::TypeId;

use clap::builder::ValueParser;
use clap::{Arg, Command};

/// What the value of a flag is called that takes bytes.
const VALUE_NAME: &str = "BYTES";

/// Units in bytes, in small letters; B and iB may be left out. Those of 1000 are k, M, G and T, those of 1024 Ki and so on.
const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1_000),
    ("kb", 1_000),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// The same command line, whose flags that take bytes take units.
pub(crate) fn with_units(command: Command) -> Command {
    let command = command.mut_args(|arg| match parser_of(&arg) {
        Some(parser) => arg.value_parser(parser),
        None => arg,
    });
    command.mut_subcommands(with_units)
}

/// Whether a flag takes bytes.
pub(crate) fn takes_bytes(arg: &Arg) -> bool {
    let names = arg.get_value_names().unwrap_or_default();
    names.iter().any(|name| *name == VALUE_NAME)
}

/// The value of a flag; a size as a number.
pub(crate) fn without_unit(arg: &Arg, text: &str) -> String {
    match parse(text) {
        Ok(bytes) if takes_bytes(arg) => bytes.to_string(),
        _ => text.to_owned(),
    }
}

/// The parser with units, of the type that the flag has.
fn parser_of(arg: &Arg) -> Option<ValueParser> {
    if !takes_bytes(arg) {
        return None;
    }
    let kind = arg.get_value_parser().type_id();
    if kind == TypeId::of::<u64>() {
        Some(ValueParser::new(parse))
    } else if kind == TypeId::of::<usize>() {
        Some(ValueParser::new(|text: &str| {
            usize::try_from(parse(text)?).map_err(|_| too_many())
        }))
    } else {
        None
    }
}

fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let unit = unit.trim().to_ascii_lowercase();
    // Ki is KiB.
    let unit = match unit.strip_suffix('i') {
        Some(letter) => format!("{letter}ib"),
        None => unit,
    };
    let unit = UNITS.iter().find(|(name, _)| *name == unit);
    let number = number.replace('_', "");
    let (Some((_, bytes)), true) = (unit, !number.is_empty()) else {
        return Err("give a number of bytes, or one with a unit: 512MiB, 4GB, 10k".to_owned());
    };
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(*bytes).ok_or_else(too_many);
    }
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    // Twelve digits are as fine as the largest unit.
    let fraction = fraction.get(..12).unwrap_or(fraction);
    let scale = 10_u128.pow(u32::try_from(fraction.len()).unwrap_or(0));
    let parsed = format!("{whole}{fraction}").parse::<u128>();
    let total = parsed.map_err(|_| "give a number such as 1.5GB".to_owned())?;
    let total = total.checked_mul(u128::from(*bytes)).ok_or_else(too_many)? / scale;
    u64::try_from(total).map_err(|_| too_many())
}

fn too_many() -> String {
    "that is more than any machine has".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--memory-bytes-max 4GB` was refused, and 4294967296 had to be typed.
    #[test]
    fn sizes_have_units() {
        for (text, want) in [
            ("0", 0),
            ("1048576", 1 << 20),
            ("1_000", 1_000),
            ("10k", 10_000),
            ("10KB", 10_000),
            ("512MiB", 512 << 20),
            ("512 mi", 512 << 20),
            ("4GB", 4_000_000_000),
            ("1.5g", 1_500_000_000),
            ("0.5KiB", 512),
            ("2TiB", 2 << 40),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
        for text in [
            "",
            "GB",
            "-1",
            "4 apples",
            "1.2.3k",
            "99999999999TB",
            "0x10",
            "1e9",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
