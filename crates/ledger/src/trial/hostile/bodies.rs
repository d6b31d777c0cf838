//! Compressed bodies on every route that takes line protocol: bombs, lies, broken ones.

use super::case::{Case, Stage};
use super::pack;

const ROUTES: [(&str, &str); 3] = [
    ("/write", "/write?db=hostile"),
    ("/api/v2/write", "/api/v2/write?bucket=hostile"),
    ("/api/v3/write_lp", "/api/v3/write_lp?db=hostile"),
];
const GIB: u64 = 1 << 30;
const LINE: &[u8] = b"packed,host=a v=1 1\n";

struct Packed {
    encoding: &'static str,
    name: &'static str,
    statuses: &'static [u16],
    says: Option<&'static str>,
    make: fn() -> Vec<u8>,
}

const fn packed(
    encoding: &'static str,
    name: &'static str,
    statuses: &'static [u16],
    says: Option<&'static str>,
    make: fn() -> Vec<u8>,
) -> Packed {
    Packed {
        encoding,
        name,
        statuses,
        says,
        make,
    }
}

const RATIO: Option<&str> = Some("body-ratio-max");

static BODIES: [Packed; 21] = [
    // Its ratio passes the limit, and before that its size does, or what all bodies may have together.
    packed("gzip", "a bomb of 1 GiB", &[413, 503], None, || {
        pack::gzip_zeros(GIB, false)
    }),
    packed("zstd", "a bomb of 1 GiB", &[413], RATIO, || {
        pack::zstd_zeros(GIB, 20)
    }),
    // Ratio 98: only the size, or what is free of memory, stops it.
    packed(
        "gzip",
        "a bomb below the ratio",
        &[413, 400, 503],
        None,
        || pack::gzip_zeros(GIB, true),
    ),
    packed(
        "gzip",
        "64 MiB of zeros below the ratio",
        &[413, 400, 503],
        None,
        || pack::gzip_zeros(64 << 20, true),
    ),
    packed("gzip", "a bomb in a bomb", &[400, 413], None, || {
        pack::gzip(&pack::gzip_zeros(1 << 26, false))
    }),
    packed("zstd", "a bomb in a bomb", &[400, 413], None, || {
        pack::zstd(&pack::gzip_zeros(1 << 23, false))
    }),
    // The sum of the first one is wrong, which is noticed before the limit.
    packed("gzip", "a thousand small bombs", &[400, 413], None, || {
        pack::gzip_zeros(1 << 20, false).repeat(1000)
    }),
    packed("zstd", "a thousand small bombs", &[413], RATIO, || {
        pack::zstd_zeros(1 << 20, 20).repeat(1000)
    }),
    packed("gzip", "cut", &[400], None, || {
        cut(pack::gzip(&LINE.repeat(100)))
    }),
    packed("zstd", "cut", &[400], None, || {
        cut(pack::zstd(&LINE.repeat(100)))
    }),
    packed("gzip", "garbage behind it", &[400], None, || {
        [pack::gzip(LINE), vec![b'?'; 1000]].concat()
    }),
    packed("zstd", "garbage behind it", &[400], None, || {
        [pack::zstd(LINE), vec![b'?'; 1000]].concat()
    }),
    packed("gzip", "a wrong sum", &[400], None, || {
        wrong_sum(pack::gzip(LINE))
    }),
    packed("gzip", "no gzip", &[400], None, || vec![b'x'; 10_000]),
    packed("zstd", "no zstd", &[400], None, || vec![b'x'; 10_000]),
    packed("zstd", "a window of 2 GiB", &[400], None, || {
        pack::zstd_zeros(1 << 20, 31)
    }),
    packed("zstd", "a length of 2^60", &[400, 413], None, || {
        pack::zstd_saying(LINE, 1 << 60)
    }),
    packed("zstd", "a dictionary that nobody has", &[400], None, || {
        pack::zstd_with_dictionary(LINE)
    }),
    packed("zstd", "4 GiB to be skipped", &[400], None, || {
        pack::zstd_skipped(u32::MAX, b"x")
    }),
    packed("br", "an encoding that is not taken", &[415], None, || {
        LINE.to_vec()
    }),
    packed("gzip, gzip", "two encodings", &[415], None, || {
        pack::gzip(&pack::gzip(LINE))
    }),
];

fn cut(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() / 2);
    bytes
}

fn wrong_sum(mut bytes: Vec<u8>) -> Vec<u8> {
    let at = bytes.len().saturating_sub(8);
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1;
    }
    bytes
}

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (route, target) in ROUTES {
        for body in &BODIES {
            let head = format!("Content-Encoding: {}\r\n", body.encoding);
            let family = if body.name.contains("bomb") {
                "bombs"
            } else {
                "broken compression"
            };
            let name = format!("{}, {} on {route}", body.encoding, body.name);
            // Those who sent to InfluxDB 1 are told of what passes in the words that make them wait.
            let mut statuses = body.statuses.to_vec();
            if route != "/api/v3/write_lp" && statuses.contains(&503) {
                statuses.push(500);
            }
            let make = body.make;
            let mut case = Case::new(family, name, &statuses, move |stage: &Stage| {
                stage.post(target, &head, &make())
            });
            if let Some(says) = body.says {
                case = case.says(says);
            }
            cases.push(case);
        }
    }
    cases
}
