//! What reaches the store: EXPLAIN says what a scan was asked for, EXPLAIN ANALYZE what it did.

use std::fmt::Write;

use nilometer_query::Error;

use crate::support::Store;

/// Series with 2048 rows each, a second apart.
const HOSTS: usize = 4;
const ROWS: usize = 2048;
/// A block has 1024 rows of one series.
const BLOCKS: usize = HOSTS * ROWS / 1024;

fn store() -> Store {
    let store = Store::new();
    let mut lines = String::new();
    for host in 0..HOSTS {
        for second in 0..ROWS {
            let time_ns = second as u64 * 1_000_000_000;
            writeln!(lines, "m,host=h{host} a={second},b={host}i {time_ns}").unwrap();
        }
    }
    store.write(&lines);
    store.engine.flush().unwrap();
    store
}

async fn plan(store: &Store, sql: &str) -> String {
    store.rows(&format!("EXPLAIN {sql}")).await.join("\n")
}

#[tokio::test]
async fn conditions_on_time_and_tags_and_limits_reach_the_store() {
    let store = store();
    for (condition, shown, blocks) in [
        ("host = 'h1'", "host IN ('h1')", 2),
        ("host IN ('h1', 'h2')", "host IN ('h1', 'h2')", 4),
        ("host <> 'h1'", "host NOT IN ('h1', NULL)", 6),
        ("host LIKE 'h%'", "host ~ /(?s)^h.*$/", BLOCKS),
        ("host LIKE '_3'", "host ~ /(?s)^.3$/", 2),
        ("host NOT LIKE '%3'", "host NOT ~ /(?s)^.*3$/", 6),
        ("host ILIKE 'H1_'", "host ~ /(?is)^H1.$/", 0),
        ("host ~ '[12]$'", "host ~ /[12]$/", 4),
        ("host !~ '[12]$'", "host NOT ~ /[12]$/", 4),
        (
            "time >= '1970-01-01T00:30:00Z'",
            "time=1970-01-01T00:30:00Z..=end",
            HOSTS,
        ),
        (
            "time < '1970-01-01T00:00:01Z' AND host = 'h2'",
            "time=start..=1970-01-01T00:00:00.999999999Z, tags=[host IN ('h2')]",
            1,
        ),
    ] {
        let text = plan(&store, &format!("SELECT * FROM m WHERE {condition}")).await;
        assert!(text.contains(shown), "{condition}: {text}");
        // Where no series is left, no file is looked at.
        let all = if blocks == 0 { 0 } else { BLOCKS };
        let counted = format!("blocks={blocks} of {all}");
        assert!(
            text.contains(&counted),
            "{condition}: no {counted} in {text}"
        );
    }
    let text = plan(&store, "SELECT * FROM m LIMIT 7").await;
    assert!(text.contains("limit=7"), "{text}");
    let text = plan(&store, "SELECT * FROM m WHERE host = 'h1' LIMIT 7").await;
    assert!(text.contains("limit=7"), "{text}");
    let text = plan(&store, "SELECT a FROM m WHERE b = 1 LIMIT 7").await;
    assert!(
        !text.contains("limit=7"),
        "fields are checked above the scan: {text}"
    );
    let text = plan(&store, "SELECT a FROM m ORDER BY time DESC LIMIT 7").await;
    assert!(
        text.contains("newest=7") && text.contains("columns=[time, a]"),
        "{text}"
    );
}

#[tokio::test]
async fn patterns_answer_as_a_filter_over_everything_does() {
    let store = Store::new();
    let mut lines = String::new();
    for (n, host) in [
        "a", "A", "ab", "a.b", "a_b", "a%b", "b<c>", "h\u{e9}", "x\\\\y",
    ]
    .iter()
    .enumerate()
    {
        writeln!(lines, "m,host={host} v={n}i {n}").unwrap();
    }
    writeln!(lines, "m v=100i 100").unwrap();
    store.write(&lines);
    for condition in [
        "host LIKE 'a%'",
        "host NOT LIKE 'a%'",
        "host LIKE 'a_b'",
        "host LIKE 'a\\_b'",
        "host LIKE 'a\\%b'",
        "host LIKE 'a.b'",
        "host LIKE '%<_>'",
        "host LIKE 'h_'",
        "host LIKE ''",
        "host LIKE 'x\\\\y'",
        "host ILIKE 'A%'",
        "host NOT ILIKE 'A%'",
        "host ~ '^a.b$'",
        "host !~ 'a'",
        "host ~* '^A'",
        "host !~* '^A'",
        "host LIKE 'a%' OR host IS NULL",
        "host LIKE 'a%' OR v = 100",
    ] {
        let pruned = store
            .set(&format!("SELECT v FROM m WHERE {condition}"))
            .await;
        let opaque = condition.replace("host ", "concat(host, CAST(NULL AS TEXT)) ");
        // concat makes '' of NULL, which only the rows without the tag have.
        let filtered = store
            .set(&format!(
                "SELECT v FROM m WHERE CASE WHEN host IS NULL THEN {} ELSE {opaque} END",
                condition.replace("host ", "CAST(NULL AS TEXT) ")
            ))
            .await;
        assert_eq!(pruned, filtered, "{condition}");
    }
    let error = store.error("SELECT v FROM m WHERE host ~ '('").await;
    assert!(
        matches!(error, Error::Execution { .. } | Error::Plan { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn explain_analyze_counts_what_the_scan_read_and_what_it_skipped() {
    let store = store();
    store.write("m,host=h1 a=1 3000000000000");
    let text = store
        .rows("EXPLAIN ANALYZE SELECT a FROM m WHERE host = 'h1' AND time < '1970-01-01T00:10:00Z'")
        .await
        .join("\n");
    // One block of the series has these times, with a page of the field asked for; its times are even and have none.
    for figure in [
        "segments=1",
        "segments_skipped=0",
        "blocks_read=1",
        "blocks_skipped=7",
        "pages_read=1",
        "pages_skipped=1",
        "memory_rows=1",
        "output_rows=600",
    ] {
        let found = text.contains(&format!("{figure},")) || text.contains(&format!("{figure}]"));
        assert!(found, "no {figure} in {text}");
    }
    let bytes = text.split("bytes_read=").nth(1).unwrap();
    let bytes: String = bytes.chars().take_while(char::is_ascii_digit).collect();
    assert!(bytes.parse::<u64>().unwrap() > 0, "{text}");
}

/// The steps of a series query were nowhere, and those of the statement were not said by EXPLAIN ANALYZE.
#[tokio::test]
async fn explain_analyze_says_where_the_time_went_and_what_statistics_spared() {
    let store = store();
    // 2048 seconds are no whole hour; both blocks of each host stand for their rows.
    let text = store
        .rows("EXPLAIN ANALYZE SELECT host, sum(a), count(*) FROM m GROUP BY host")
        .await
        .join("\n");
    for step in ["time_prune=", "time_decode=", "time_operate="] {
        assert!(text.contains(step), "no {step} in {text}");
    }
    // Four hosts with 2048 rows each, as the planner's library writes thousands.
    for figure in ["rows_read=0", "rows_skipped=8.19 K", "blocks_decoded=0"] {
        let found = text.contains(&format!("{figure},")) || text.contains(&format!("{figure}]"));
        assert!(found, "no {figure} in {text}");
    }
    let times = text.lines().find(|line| line.starts_with("Times|"));
    let times = times.unwrap_or_else(|| panic!("no times in {text}"));
    let steps = times.trim_start_matches("Times|").split(", ");
    let steps = steps.map(|step| step.split_once('=').unwrap().0);
    let steps: Vec<&str> = steps.collect();
    assert_eq!(
        steps,
        ["parse", "plan", "prune", "decode", "operate"],
        "{times}"
    );
    // What reads no series has no such steps, and ends with its times all the same.
    let text = store.rows("EXPLAIN ANALYZE SELECT 1").await.join("\n");
    assert!(text.contains("Times|parse="), "{text}");
    // EXPLAIN alone runs nothing.
    let text = store.rows("EXPLAIN SELECT 1").await.join("\n");
    assert!(!text.contains("Times"), "{text}");
}

#[tokio::test]
async fn tags_stay_dictionaries_until_the_answer_leaves() {
    let store = store();
    for sql in [
        "SELECT host FROM m",
        "SELECT host FROM m WHERE host IN ('h1', 'h2') AND a > 5",
        "SELECT host, max(a) FROM m GROUP BY host",
        "SELECT host FROM m ORDER BY time DESC LIMIT 3",
    ] {
        let batches = store.batches(sql).await.unwrap();
        let kind = batches[0].column(0).data_type().to_string();
        assert_eq!(kind, "Dictionary(Int32, Utf8)", "{sql}");
    }
}

#[tokio::test]
async fn a_running_query_is_listed_and_can_be_ended() {
    use futures::StreamExt;
    let store = store();
    let mut answer = store.start("SELECT a FROM m").await;
    let listed = store
        .rows("SELECT query_id, database_name FROM system.queries WHERE sql = 'SELECT a FROM m'")
        .await;
    let id = listed[0].strip_suffix("|d").unwrap().to_owned();
    assert_eq!(store.rows(&format!("KILL QUERY {id}")).await, ["0"]);
    let ended = answer.next().await.unwrap().unwrap_err();
    assert!(matches!(ended, Error::Killed { .. }), "{ended:?}");
    assert!(ended.to_string().contains(&id), "{ended}");
    assert!(answer.next().await.is_none());
    drop(answer);
    let listed = "SELECT count(*) FROM system.queries WHERE sql = 'SELECT a FROM m'";
    assert_eq!(store.rows(listed).await, ["0"]);
}
