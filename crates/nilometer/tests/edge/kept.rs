//! Promise: pages are kept byte for byte until they are compacted, and questions in both languages have the answers that the rows alone
//! would have, before a flush, after it and after compaction.

use std::path::Path;
use std::sync::Arc;

use nilometer_edge::EdgeConfig;
use nilometer_engine::disk::{Disk, MemoryDisk};
use nilometer_service::ServiceOptions;
use serde_json::Value;

use crate::support::{Flash, Server, all, golden, image_rows, large, small, stored};

const INFLUXQL: [&str; 6] = [
    "SELECT * FROM climate GROUP BY *",
    "SELECT count(*), mean(temperature), max(temperature), first(temperature), last(temperature) FROM climate WHERE time >= 1700000000000000000 AND time < 1700000010000000000 GROUP BY time(300ms), device FILL(none)",
    "SELECT sum(temperature) FROM climate WHERE open = true GROUP BY *",
    "SELECT * FROM door, m GROUP BY *",
    "SELECT last(*) FROM climate, door, m GROUP BY *",
    "SHOW SERIES",
];

#[cfg(feature = "sql")]
const SQL: [&str; 5] = [
    "SELECT * FROM climate ORDER BY device, room, time",
    "SELECT device, count(*) AS n, min(temperature) AS low, max(temperature) AS high, sum(temperature) AS s FROM climate GROUP BY device ORDER BY device",
    "SELECT date_trunc('second', time) AS t, avg(temperature) AS mean FROM climate WHERE device = 'unit-1' GROUP BY t ORDER BY t",
    "SELECT device, last(temperature, time) AS newest FROM climate GROUP BY device ORDER BY device",
    "SELECT count(*) AS n, max(time) AS newest FROM door",
];

#[cfg(not(feature = "sql"))]
const SQL: [&str; 0] = [];

/// Whether floats are equal but for the order in which values are added, which is that of blocks, and all else is equal.
fn is_near(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_near(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let near = |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| is_near(a, b));
            a.len() == b.len() && a.iter().all(near)
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-14 * b.abs()
        }
        (a, b) => a == b,
    }
}

/// Each path, and its answer.
async fn answers(server: &Server) -> Vec<(String, Value)> {
    let escaped =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let mut paths: Vec<String> = INFLUXQL
        .iter()
        .map(|text| format!("/query?db=edge&epoch=ns&q={}", escaped(text)))
        .collect();
    paths.extend(
        SQL.iter()
            .map(|text| format!("/api/v3/query_sql?db=edge&format=json&q={}", escaped(text))),
    );
    let mut answers = Vec::new();
    for path in paths {
        let answer = server.send("GET", &path, &[], "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert!(!answer.text.contains("error"), "{path}: {}", answer.text);
        answers.push((path, answer.json));
    }
    answers
}

/// A server to which all of these were pushed.
async fn pushed(disk: &Arc<MemoryDisk>, keep_pages: bool) -> Server {
    let config = EdgeConfig {
        keep_pages,
        ..EdgeConfig::default()
    };
    let server = Server::at(disk, config, ServiceOptions::default());
    let others: Vec<Vec<u8>> = vec![golden("several_series_and_types.bin")];
    let flashes = [
        (Flash::of_image("unit-1", 1), small()),
        (Flash::of_image("unit-32", 1), large()),
        (Flash::new("others", 1), others),
    ];
    for (flash, pages) in &flashes {
        let answer = server.push(flash, 0, &all(pages)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }
    server
}

/// How many segments have these bytes in them.
fn files_with(disk: &MemoryDisk, bytes: &[u8]) -> usize {
    let dir = Path::new("/data/segments");
    let names = disk.list(dir).unwrap().into_iter();
    let has = |name: &String| {
        let is_segment = Path::new(name).extension().is_some_and(|it| it == "seg");
        let file = disk.open(&dir.join(name)).unwrap();
        let mut all = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
        let mut at = 0;
        while at < all.len() {
            at += file.read_at(&mut all[at..], at as u64).unwrap();
        }
        is_segment && all.windows(bytes.len()).any(|it| it == bytes)
    };
    names.filter(has).count()
}

#[tokio::test]
async fn pages_are_kept_and_answer_as_their_rows_do() {
    let (of_pages, of_rows) = (Arc::default(), Arc::default());
    let pages = pushed(&of_pages, true).await;
    let rows = pushed(&of_rows, false).await;
    let bytes: Vec<Vec<u8>> = [
        small(),
        large(),
        vec![golden("several_series_and_types.bin")],
    ]
    .concat();
    for (stage, times) in [("pushed", 0), ("flushed", 1), ("settled", 0)] {
        for server in [&pages, &rows] {
            match stage {
                "flushed" => server.engine.flush().unwrap(),
                "settled" => server.engine.settle().unwrap(),
                _ => {}
            }
        }
        for page in &bytes {
            assert_eq!(files_with(&of_pages, page), times, "{stage}");
            assert_eq!(files_with(&of_rows, page), 0, "{stage}");
        }
        let (of_pages, of_rows) = (answers(&pages).await, answers(&rows).await);
        for ((path, found), (_, expected)) in of_pages.iter().zip(&of_rows) {
            let adds = ["mean", "sum", "avg"].iter().any(|it| path.contains(it));
            let is_same = if adds {
                is_near(found, expected)
            } else {
                found == expected
            };
            assert!(is_same, "{stage}, {path}: {found} is not {expected}");
        }
        for device in ["unit-1", "unit-32"] {
            assert_eq!(
                stored(&pages, device).await,
                image_rows(),
                "{stage}, {device}"
            );
        }
    }
}
