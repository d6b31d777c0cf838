//! Chunks of hypertables: what SQL says of their sizes is what the files take, and policies outlive the process.

use std::fmt::Write;

use nilometer_engine::Tier;

use crate::support::Store;

const DAY_NS: i64 = 86_400_000_000_000;
/// 2024-05-01.
const START_NS: i64 = 19_844 * DAY_NS;

/// A hypertable with rows of three days, each in a file of its own.
async fn three_days() -> Store {
    let store = Store::that_compacts();
    for statement in [
        "CREATE TABLE cpu (time TIMESTAMPTZ, host TEXT, usage DOUBLE PRECISION) WITH (tsdb.hypertable, tsdb.segmentby = 'host')",
        "CREATE TABLE other (time TIMESTAMPTZ, v DOUBLE PRECISION) WITH (tsdb.hypertable)",
    ] {
        store.rows(statement).await;
    }
    let mut lines = String::new();
    for row in 0..3 * 240_i64 {
        // What pco finds and lightweight encodings do not: a slow wave with noise.
        let usage = (row % 97) as f64 * 1.25 + ((row * 7919) % 31) as f64 * 0.001;
        let time = START_NS + row * (DAY_NS / 240);
        for host in ["a", "b", "c", "d"] {
            writeln!(lines, "cpu,host={host} usage={usage} {time}").unwrap();
        }
        writeln!(lines, "other v={usage} {time}").unwrap();
    }
    store.write(&lines);
    store.compact();
    store
}

/// Bytes and tiers of the files of the table, by the day of their rows.
fn files(store: &Store) -> Vec<(i64, u64, Tier)> {
    let snapshot = store.engine.snapshot();
    let table = snapshot.table("d", "public", "cpu").unwrap();
    let mut files: Vec<(i64, u64, Tier)> = snapshot
        .segments()
        .into_iter()
        .filter_map(|segment| {
            let (of, start, _) = segment.partition?;
            let day = (start - START_NS) / DAY_NS;
            (of == table.id).then_some((day, segment.bytes, segment.tier))
        })
        .collect();
    files.sort_by_key(|(day, ..)| *day);
    files
}

#[tokio::test]
async fn sizes_of_chunks_are_those_of_their_files() {
    let store = three_days().await;
    let hot = files(&store);
    assert_eq!(hot.len(), 3, "{hot:?}");
    let shown = |files: &[(i64, u64, Tier)]| -> Vec<String> {
        files
            .iter()
            .map(|(_, bytes, _)| bytes.to_string())
            .collect()
    };
    let sizes = "SELECT total_bytes FROM chunks_detailed_size('cpu') ORDER BY chunk_name";
    assert_eq!(store.rows(sizes).await, shown(&hot));
    let total = |files: &[(i64, u64, Tier)]| files.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
    let whole = "SELECT hypertable_size('cpu')";
    assert_eq!(store.rows(whole).await, [total(&hot).to_string()]);
    let rows = "SELECT approximate_row_count('cpu'), count(*) FROM cpu";
    assert_eq!(store.rows(rows).await, ["2880|2880"]);

    let compress = "SELECT compress_chunk(c) FROM show_chunks('cpu', older_than => TIMESTAMPTZ '2024-05-03T00:00:00Z') AS c";
    assert_eq!(store.rows(compress).await.len(), 2);
    let cold = files(&store);
    let tiers: Vec<Tier> = cold.iter().map(|(.., tier)| *tier).collect();
    assert_eq!(tiers, [Tier::Cold, Tier::Cold, Tier::Hot]);
    assert_eq!(store.rows(sizes).await, shown(&cold));
    assert!(total(&cold) < total(&hot), "{hot:?} {cold:?}");
    let stats = "SELECT before_compression_total_bytes, after_compression_total_bytes FROM chunk_compression_stats('cpu') ORDER BY chunk_name";
    let before_and_after = hot.iter().zip(&cold).map(|(before, after)| match after.2 {
        Tier::Cold => format!("{}|{}", before.1, after.1),
        Tier::Hot => "-|-".to_owned(),
    });
    assert_eq!(
        store.rows(stats).await,
        before_and_after.collect::<Vec<_>>()
    );
    let all = "SELECT total_chunks, number_compressed_chunks, before_compression_total_bytes, after_compression_total_bytes FROM hypertable_compression_stats('cpu')";
    let expected = format!("3|2|{}|{}", total(&hot[..2]), total(&cold[..2]));
    assert_eq!(store.rows(all).await, [expected]);
    // The other table's file is as it was.
    let sums = "SELECT count(*), round(sum(usage)::numeric, 3) FROM cpu";
    let as_hot = three_days().await.rows(sums).await;
    assert_eq!(store.rows(sums).await, as_hot);
}

#[tokio::test]
async fn a_policy_and_what_it_did_are_there_after_the_process_has_ended() {
    let store = three_days().await;
    let add = "SELECT add_compression_policy('cpu', INTERVAL '7 days')";
    assert_eq!(store.rows(add).await, ["1000"]);
    store.rows("CALL run_job(1000)").await;
    store
        .rows("ALTER TABLE cpu SET (timescaledb.compress, timescaledb.compress_orderby = 'time DESC')")
        .await;
    let asked = [
        "SELECT job_id, proc_name, hypertable_name, schedule_interval, config FROM timescaledb_information.jobs",
        "SELECT total_runs, total_successes, last_run_started_at, next_start FROM timescaledb_information.job_stats",
        "SELECT job_id, succeeded FROM timescaledb_information.job_history",
        "SELECT chunk_name, compression_status, before_compression_total_bytes, after_compression_total_bytes FROM chunk_compression_stats('cpu')",
        "SELECT attname, orderby_asc FROM timescaledb_information.compression_settings",
    ];
    let mut before = Vec::new();
    for sql in asked {
        before.push(store.rows(sql).await);
    }
    assert_eq!(before[2], ["1000|true"]);
    assert!(
        before[3].iter().all(|row| row.contains("|Compressed|")),
        "{:?}",
        before[3]
    );
    let store = store.reopened();
    for (sql, before) in asked.iter().zip(before) {
        assert_eq!(store.rows(sql).await, before, "{sql}");
    }
    // What was dropped with its table does not come back with another of its name.
    store.rows("DROP TABLE cpu").await;
    store
        .rows("CREATE TABLE cpu (time TIMESTAMPTZ, v REAL) WITH (tsdb.hypertable)")
        .await;
    for sql in [asked[3], asked[4]] {
        assert_eq!(store.rows(sql).await, Vec::<String>::new(), "{sql}");
    }
    store.rows("CALL run_job(1000)").await;
    assert_eq!(store.rows(asked[0]).await, Vec::<String>::new());
}
