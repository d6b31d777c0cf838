//! Small statements that ask for more memory than there is, beside a writer and a reader.
//!
//! The story: `SELECT range(0,1000000) FROM generate_series(1,8192)` asked for 65 GB in one go, which ended the process; windows
//! over a billion rows, UNNEST of long ranges, `map`, nested `array_repeat`, casts of lists to text and histograms of many
//! groups had it killed for its memory. Functions had been bounded one by one, and each attack found one more.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::Server;

/// What the process may have, as in a container of this size; its store's budget is half of that, as it is by default.
const PROCESS_BYTES: u64 = 512 << 20;
const BUDGET: &str = "268435456";

/// Time that a statement has. One that is not refused for its memory ends with this limit.
const QUERY_MS: u64 = 2000;

/// Longest wait for an end after the limit of time. The promise is a second; the machine may be busy with other tests.
const LATE_MAX: Duration = Duration::from_secs(10);

/// What ended the server, and what is like it. `big` has 20,000 rows, `n` from 0, and `long` four of a megabyte.
const STATEMENTS: [&str; 53] = [
    "SELECT range(0,1000000) FROM generate_series(1,8192)",
    "SELECT max(x) FROM (SELECT count(*) OVER () x FROM generate_series(1,1000000000))",
    "SELECT max(x) FROM (SELECT ntile(4) OVER () x FROM generate_series(1,1000000000))",
    "SELECT max(x) FROM (SELECT last_value(value) OVER () x FROM generate_series(1,1000000000))",
    "SELECT max(x) FROM (SELECT percent_rank() OVER () x FROM generate_series(1,1000000000))",
    "SELECT max(x) FROM (SELECT cume_dist() OVER () x FROM generate_series(1,1000000000))",
    "SELECT count(*) FROM (SELECT unnest(range(0,100000)) FROM generate_series(1,8192))",
    "SELECT count(map(range(0,100000),range(0,100000))) FROM generate_series(1,8192)",
    "SELECT count(array_repeat(array_repeat(1,1000),8000)) FROM generate_series(1,8192)",
    "SELECT count(array_repeat(array_repeat(array_repeat(value,100),1000),1000)) FROM generate_series(1,8192)",
    "SELECT count(array_repeat(repeat('a',1000),8000)) FROM generate_series(1,8192)",
    "SELECT count(cast(range(0,1000000) AS text)) FROM generate_series(1,8192)",
    "SELECT count(cast(range(0,value*100000) AS text)) FROM generate_series(1,8192)",
    "SELECT count(h) FROM (SELECT histogram(value,0,100,10000) h FROM generate_series(1,10000000) GROUP BY value%1000000)",
    // A value that is written once for each row that it meets.
    "SELECT count(a.x || b.value::text) FROM (SELECT repeat('a',8000000) x) a, generate_series(1,8192) b(value)",
    "SELECT count(length(a.s) + b.value) FROM long a, generate_series(1,1000000) b(value)",
    "SELECT max(s) FROM (SELECT s, unnest(range(0,1000000)) u FROM long)",
    "SELECT count(x) FROM (SELECT first_value(repeat('a',1000000)) OVER () x FROM generate_series(1,1000000))",
    "SELECT count(x) FROM (SELECT max(s) OVER () x FROM long, generate_series(1,1000000))",
    "SELECT count(x) FROM (SELECT lag(s) OVER (ORDER BY s) x FROM long, generate_series(1,100000))",
    "SELECT count(x) FROM (SELECT repeat('a',1000000) x, c FROM (SELECT count(*) OVER () c FROM generate_series(1,1000000)))",
    "SELECT count(x) FROM (SELECT (SELECT repeat('a',8000000)) x FROM generate_series(1,8192))",
    "SELECT count(x) FROM (SELECT coalesce(nullif(value,value)::text, repeat('a',8000000)) x FROM generate_series(1,8192))",
    // Functions that make much of little.
    "SELECT count(repeat(value::text,1000000)) FROM generate_series(1,8192)",
    "SELECT count(repeat(repeat(value::text,10000),10000)) FROM generate_series(1,8192)",
    "SELECT count(lpad(value::text,100000000,'ab')) FROM generate_series(1,8192)",
    "SELECT count(rpad(value::text,value*1000000,'ab')) FROM generate_series(1,8192)",
    "SELECT count(replace(repeat('a',100000),'a',repeat('b',value))) FROM generate_series(1,8192)",
    "SELECT count(regexp_replace(repeat('a',100000),'a',repeat('b',value),'g')) FROM generate_series(1,8192)",
    "SELECT count(regexp_replace(repeat('a',value*100),'(.*)',repeat('\\1',1000))) FROM generate_series(1,8192)",
    "SELECT count(translate(repeat('a',value*10000),'a','b')) FROM generate_series(1,8192)",
    "SELECT count(upper(repeat(chr(223),2000000))) FROM generate_series(1,8192)",
    "SELECT count(encode(repeat('a',4000000),'hex')) FROM generate_series(1,8192)",
    "SELECT count(to_char(to_timestamp(value),repeat('%c',100000))) FROM generate_series(1,8192)",
    "SELECT count(concat(x,x,x,x)) FROM (SELECT repeat('a',1000000+value) x FROM generate_series(1,8192))",
    "SELECT count(make_array(x,x,x,x)) FROM (SELECT make_array(r,r,r,r) x FROM (SELECT range(0,value*100) r FROM generate_series(1,8192)))",
    "SELECT count(array_concat(r,r,r,r)) FROM (SELECT range(0,value*100) r FROM generate_series(1,8192))",
    "SELECT count(flatten(make_array(r,r,r))) FROM (SELECT range(0,value*100) r FROM generate_series(1,8192))",
    "SELECT count(struct(r,r,r)) FROM (SELECT range(0,value*100) r FROM generate_series(1,8192))",
    "SELECT count(array_resize(make_array(value),value*100000,1)) FROM generate_series(1,8192)",
    "SELECT count(string_to_array(repeat('a,',value*1000),',')) FROM generate_series(1,8192)",
    "SELECT count(array_to_string(range(0,value*1000),',')) FROM generate_series(1,8192)",
    "SELECT count(generate_series(0,value*100000)) FROM generate_series(1,8192)",
    "SELECT count(r) FROM (SELECT array_agg(r) r FROM (SELECT range(0,value) r FROM generate_series(1,100000)))",
    "SELECT length(string_agg(value::text, repeat(',',60000))) FROM generate_series(1,8192)",
    "SELECT array_length(array_agg(value)) FROM generate_series(1,1000000000)",
    "SELECT count(d) FROM (SELECT approx_distinct(value) d FROM generate_series(1,100000000) GROUP BY value%1000000)",
    "SELECT count(*) FROM (SELECT DISTINCT repeat(value::text,100) FROM generate_series(1,100000000))",
    "WITH RECURSIVE r AS (SELECT 1 n, 'a' s UNION ALL SELECT n+1, s||s FROM r) SELECT max(length(s)) FROM r",
    "SELECT count(*) FROM generate_series(1,1000000) a(value), generate_series(1,1000000) b(value) WHERE a.value+b.value<0",
    "SELECT a.value FROM generate_series(1,100000) a(value), generate_series(1,100000) b(value) ORDER BY a.value*b.value OFFSET 1000000000",
    "SELECT count(x) FROM (SELECT array_agg(n) OVER (ORDER BY n ROWS BETWEEN 1000 PRECEDING AND CURRENT ROW) x FROM big)",
    "SELECT count(x) FROM (SELECT string_agg(n::text,',') OVER (ORDER BY n) x FROM big)",
];

/// A setting of memory or time, as errors name them.
const SETTINGS: [&str; 4] = [
    "query-memory-bytes-max",
    "queries-memory-bytes-max",
    "memory-bytes-max",
    "query-ms-max",
];

fn filled(data: &Path) -> Server {
    let query_ms = QUERY_MS.to_string();
    let flags = [
        "--memory-bytes-max",
        BUDGET,
        "--query-ms-max",
        query_ms.as_str(),
    ];
    let server = Server::start(data, &flags);
    let rows = (0..20_000).map(|n| format!("big n={n}i {n}\n"));
    assert_eq!(server.write("d", &rows.collect::<String>()).status, 204);
    let text = "x".repeat(1_000_000);
    for n in 0..4 {
        let line = format!("long s=\"{n}{text}\" {n}\n");
        assert_eq!(server.write("d", &line).status, 204);
    }
    server
}

/// Bytes of the process that are in no file.
fn resident_bytes(server: &Server) -> Option<u64> {
    let pid = server.pid().as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Does something again and again until the statements are through, and says how often.
fn beside(ended: &AtomicBool, mut act: impl FnMut(u64)) -> u64 {
    let mut times = 0;
    while !ended.load(Ordering::Relaxed) {
        act(times);
        times += 1;
        thread::sleep(Duration::from_millis(20));
    }
    times
}

fn each_ends(server: &Server) {
    for sql in STATEMENTS {
        let started = Instant::now();
        let answer = server.try_query("d", sql, "json");
        let took = started.elapsed();
        assert!(
            took < Duration::from_millis(QUERY_MS) + LATE_MAX,
            "{sql}: it took {took:?}"
        );
        // What has begun to answer can only break off.
        let Ok(answer) = answer else {
            assert!(sql.starts_with("SELECT range"), "{sql}: {answer:?}");
            continue;
        };
        if answer.status == 200 {
            continue;
        }
        let text = answer.text();
        assert!(
            matches!(answer.status, 400 | 413 | 503 | 504),
            "{sql}: {}: {text}",
            answer.status
        );
        assert!(
            SETTINGS.iter().any(|setting| text.contains(setting)),
            "{sql}: no setting is named in {text}"
        );
    }
}

#[test]
fn a_statement_that_asks_for_too_much_ends_and_the_server_goes_on() {
    let dir = TempDir::new().expect("a scratch folder");
    let server = filled(&dir.path().join("data"));
    let ended = AtomicBool::new(false);
    let highest = AtomicU64::new(0);
    let refused = AtomicU64::new(0);
    let (written, read) = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            beside(&ended, |n| {
                let answer = server.write("d", &format!("beside v={n} {n}\n"));
                assert_eq!(answer.status, 204, "{}", answer.text());
            })
        });
        let reader = scope.spawn(|| {
            beside(&ended, |_| {
                let answer = server.try_query("d", "SELECT 1 AS one", "json");
                let status = answer.expect("the server lives").status;
                // All memory may be gone for as long as a statement has time.
                assert!(matches!(status, 200 | 503 | 504), "{status}");
                refused.fetch_add(u64::from(status != 200), Ordering::Relaxed);
            })
        });
        let watcher = scope.spawn(|| {
            beside(&ended, |_| {
                let now = resident_bytes(&server).unwrap_or(0);
                highest.fetch_max(now, Ordering::Relaxed);
            })
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| each_ends(&server)));
        ended.store(true, Ordering::Relaxed);
        let beside = (writer.join(), reader.join());
        watcher.join().expect("it only looks");
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
        (
            beside.0.expect("every batch was taken"),
            beside.1.expect("every question had an answer"),
        )
    });
    let refused = refused.load(Ordering::Relaxed);
    assert!(
        refused * 10 <= read,
        "{refused} of {read} questions were refused"
    );
    let rows = server.query("d", "SELECT count(*) AS n FROM beside");
    assert_eq!(rows[0]["n"], written);
    let highest = highest.load(Ordering::Relaxed);
    assert!(
        highest < PROCESS_BYTES,
        "{highest} bytes were resident at one time"
    );
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
    server.stop();
}
