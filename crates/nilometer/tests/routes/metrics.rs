//! `/metrics` by the rules of the text format and the naming conventions of Prometheus, as `promtool check metrics` has
//! them.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::Server;

type Labels = Vec<(String, String)>;
/// Upper ends of buckets and what is in them.
type Buckets = Vec<(f64, f64)>;

/// One family: its kind, and its samples by name and labels.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    samples: Vec<(String, Labels, f64)>,
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes
        .next()
        .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// `name="value",...`, with the three escapes that the format has.
fn labels(text: &str) -> Labels {
    let mut labels = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, after) = rest
            .split_once("=\"")
            .expect("a label has a value in quotes");
        assert!(is_name(name), "{name:?}");
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next().expect("the quotes close") {
                (at, '"') => break at,
                (_, '\\') => match chars.next().expect("an escape has a letter").1 {
                    'n' => value.push('\n'),
                    plain @ ('"' | '\\') => value.push(plain),
                    other => panic!("\\{other} is no escape"),
                },
                (_, plain) => value.push(plain),
            }
        };
        labels.push((name.to_owned(), value));
        rest = &after[end + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    labels
}

fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(!families.contains_key(name), "{name} stands in two places");
            name.clone_into(&mut current);
            help.clone_into(&mut families.entry(current.clone()).or_default().help);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, current, "TYPE follows HELP");
            let family = families.get_mut(name).unwrap();
            assert!(
                family.samples.is_empty() && family.kind.is_empty(),
                "{line}"
            );
            kind.clone_into(&mut family.kind);
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, inside) = match series.split_once('{') {
                Some((name, rest)) => (name, rest.strip_suffix('}').unwrap()),
                None => (series, ""),
            };
            assert!(is_name(name), "{name:?}");
            assert!(seen.insert(series.to_owned()), "{series} is there twice");
            let family = families.get_mut(&current).unwrap();
            let of_family = name == current
                || family.kind == "histogram"
                    && ["_bucket", "_sum", "_count"]
                        .iter()
                        .any(|end| name == format!("{current}{end}"));
            assert!(of_family, "{name} stands under {current}");
            let value = value
                .parse()
                .unwrap_or_else(|_| panic!("{line}: no number"));
            family
                .samples
                .push((name.to_owned(), labels(inside), value));
        }
    }
    families
}

/// The promises of a histogram: buckets that grow, the last of them everything.
fn check_histogram(name: &str, family: &Family) {
    let mut by_labels: BTreeMap<Labels, Buckets> = BTreeMap::new();
    for (sample, labels, value) in &family.samples {
        if sample.ends_with("_bucket") {
            let mut others = labels.clone();
            let at = others.iter().position(|(label, _)| label == "le").unwrap();
            let (_, end) = others.remove(at);
            let end = if end == "+Inf" {
                f64::INFINITY
            } else {
                end.parse().unwrap()
            };
            by_labels.entry(others).or_default().push((end, *value));
        }
    }
    for (labels, buckets) in by_labels {
        let grows = buckets
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        assert!(grows, "{name} {labels:?}: {buckets:?}");
        let of = |end: &str| {
            let wanted = format!("{name}{end}");
            let mut found = family
                .samples
                .iter()
                .filter(|(sample, known, _)| *sample == wanted && *known == labels);
            found.next().unwrap().2
        };
        let last = buckets.last().unwrap();
        assert_eq!(
            (last.0, last.1),
            (f64::INFINITY, of("_count")),
            "{name} {labels:?}"
        );
        assert!(of("_sum") >= 0.0);
    }
}

async fn page() -> String {
    let server = Server::new();
    assert_eq!(server.write("m,host=a v=1i 1\nbad").await.status, 400);
    assert_eq!(
        server.try_query("SELECT v FROM m", "json").await.status,
        200
    );
    assert_eq!(
        server.try_query(&"x".repeat(40_000), "json").await.status,
        414
    );
    assert_eq!(server.get("/nowhere").await.status, 404);
    server.get("/metrics").await.text().to_owned()
}

#[tokio::test]
async fn the_page_is_in_the_text_format() {
    let families = parse(&page().await);
    assert!(families.len() > 50, "{} families", families.len());
    for (name, family) in &families {
        match family.kind.as_str() {
            "counter" | "gauge" => {}
            "histogram" => check_histogram(name, family),
            other => panic!("{name}: type {other:?}"),
        }
        if family.kind != "gauge" {
            assert!(
                family.samples.iter().all(|(_, _, value)| *value >= 0.0),
                "{name}"
            );
        }
    }
    assert_eq!(
        families["nilometer_build_info"].samples[0].1,
        [("version".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]
    );
}

#[tokio::test]
async fn names_say_what_they_count_in_base_units() {
    for (name, family) in parse(&page().await) {
        assert!(name.starts_with("nilometer_"), "{name}");
        assert_eq!(name.to_lowercase(), name);
        assert_eq!(
            family.kind == "counter",
            name.ends_with("_total"),
            "{name}: counters, and only they, end in _total"
        );
        assert!(
            family.help.ends_with('.') && family.help.len() > 8,
            "{name}: {}",
            family.help
        );
        for part in name.split('_') {
            let other_units = [
                "ms",
                "us",
                "ns",
                "milliseconds",
                "microseconds",
                "nanoseconds",
                "minutes",
                "hours",
                "kb",
                "mb",
                "gb",
                "kib",
                "mib",
                "kilobytes",
                "megabytes",
                "percent",
                "histogram",
                "counter",
                "gauge",
            ];
            assert!(!other_units.contains(&part), "{name}: {part}");
        }
        if family.kind == "histogram" {
            assert!(
                name.ends_with("_seconds") || name.ends_with("_bytes"),
                "{name}"
            );
        }
        if family.help.starts_with("Bytes") || family.help.starts_with("Memory") {
            assert!(name.contains("bytes"), "{name}: {}", family.help);
        }
        for (_, labels, _) in &family.samples {
            assert!(
                labels
                    .iter()
                    .all(|(label, _)| label != "job" && label != "instance"),
                "{name}"
            );
        }
    }
}

#[tokio::test]
async fn an_accepted_clock_is_no_pause() {
    let server = Server::new();
    assert_eq!(
        server.post("/api/v3/accept_clock", &[], "").await.status,
        204
    );
    let metrics = server.get("/metrics").await;
    assert!(metrics.text().contains("nilometer_retention_paused 0"));
    assert!(metrics.text().contains("nilometer_quarantined_files 0"));
}
