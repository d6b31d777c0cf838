//! Suite `tstorage`: TStorage's published benchmark, over its own protocol.
//!
//! Does: load the data set cpu-only as records of TStorage (the client is the host, message and origin are 0, the payload ten
//! integers of 32 bits, highest byte first), and time its three read scenarios. As there, the client averages; through SQL, if that is
//! asked for, the database does. Does not: start a server, or empty one: load into an empty table.

mod client;
mod sql;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;

use crate::load::grouped;
use crate::queries::{QueryTiming, Spread};
use crate::workload::Spec;
use crate::{Error, Result};
use client::{Client, ClientBox};
use sql::Sql;

/// 2001-01-01 in nanoseconds since 1970, where the protocol's times begin.
const EPOCH_NS: i64 = 978_307_200_000_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;
/// How long the span of a query is.
const WINDOW_NS: i64 = 12 * HOUR_NS;
/// A window that does not begin with an hour meets so many.
const HOURS: usize = 13;
/// Integers of a payload.
const METRICS: usize = 10;
/// Bytes of a record in a PUT.
const RECORD_BYTES: usize = 8 + 24 + 4 * METRICS;
/// Requests are made before the clock starts; more than so many bytes of them are refused.
const REQUESTS_BYTES_MAX: u64 = 8 << 30;

/// What to run.
#[derive(Debug, Clone)]
pub struct TstorageOptions {
    /// Host and port.
    pub address: String,
    /// The data set; its workload is cpu-only.
    pub spec: Spec,
    /// Connections that load.
    pub workers: u32,
    /// Records of a PUT.
    pub put_records: u32,
    /// Queries of each scenario; each is asked twice, and the second is timed.
    pub queries: u32,
    /// The data set is there already.
    pub is_loaded: bool,
    /// Address over HTTP and table, to ask the scenarios through SQL too: the table has a payload schema.
    pub sql: Option<(String, String)>,
}

/// How loading went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TstorageLoad {
    /// Records written, synced and found again.
    pub records: u64,
    /// From the first request to the last acknowledgement.
    pub seconds: f64,
    /// Records by these seconds.
    pub records_per_second: f64,
    /// How long it took to read all of them once, in one answer.
    pub read_all_seconds: f64,
}

impl TstorageLoad {
    /// In a line.
    pub fn line(&self) -> String {
        format!(
            "{} records in {:.3} s: {:.0} records/s; all read in {:.3} s",
            grouped(self.records),
            self.seconds,
            self.records_per_second,
            self.read_all_seconds
        )
    }
}

/// Loads, unless the data set is there, and asks.
pub fn tstorage(options: &TstorageOptions) -> Result<(Option<TstorageLoad>, Vec<QueryTiming>)> {
    let load = if options.is_loaded {
        None
    } else {
        Some(load(options)?)
    };
    let mut client = Client::connect(&options.address)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(options.spec.seed);
    let scenarios = [
        Scenario::OneMetric,
        Scenario::AllMetrics,
        Scenario::EveryHost,
    ];
    let mut timings: Vec<QueryTiming> = scenarios
        .into_iter()
        .map(|scenario| time(options, scenario, &mut client, &mut random))
        .collect::<Result<_>>()?;
    if let Some((url, table)) = &options.sql {
        let sql = Sql::new(url, table)?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(options.spec.seed);
        for scenario in scenarios {
            timings.push(time_sql(options, scenario, &sql, &mut random)?);
        }
    }
    Ok((load, timings))
}

fn load(options: &TstorageOptions) -> Result<TstorageLoad> {
    let records = options.spec.rows()?;
    if records.saturating_mul(RECORD_BYTES as u64) > REQUESTS_BYTES_MAX {
        return Err(Error::Spec {
            what: format!(
                "{records} records do not fit into the {REQUESTS_BYTES_MAX} bytes of requests that are made in advance; give fewer hosts or a shorter time"
            ),
        });
    }
    let (seconds, last) = send(options, &requests(options)?)?;
    let mut client = Client::connect(&options.address)?;
    let all = ClientBox {
        cids: (0, i32::MAX),
        caps: (i64::MIN, i64::MAX),
    };
    let complete = client.complete(&all)?;
    if complete <= last {
        return Err(wrong(
            "GET_ACQ",
            format!("records are complete up to {complete}, and one of {last} was acknowledged"),
        ));
    }
    let begun = Instant::now();
    let found = client.get(&all, |_, _, _| {})? as u64;
    let read_all_seconds = begun.elapsed().as_secs_f64();
    if found != records {
        return Err(wrong(
            "GET",
            format!("it has {found} records, and {records} were written; load into an empty table"),
        ));
    }
    Ok(TstorageLoad {
        records,
        seconds,
        records_per_second: records as f64 / seconds,
        read_all_seconds,
    })
}

/// Sends all requests over several connections: for how long, and the last stamp.
fn send(options: &TstorageOptions, requests: &[Vec<u8>]) -> Result<(f64, i64)> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    let clients = (0..options.workers.max(1)).map(|_| Client::connect(&options.address));
    let clients = clients.collect::<Result<Vec<Client>>>()?;
    let begun = Instant::now();
    let last = std::thread::scope(|scope| {
        let running: Vec<_> = clients
            .into_iter()
            .map(|mut client| {
                let (next, failed) = (&next, &failed);
                scope.spawn(move || {
                    let mut last = i64::MIN;
                    while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                        match client.put(request) {
                            Ok(stamp) => last = last.max(stamp),
                            Err(error) => {
                                // The others stop as well.
                                next.store(requests.len(), Ordering::Relaxed);
                                if let Ok(mut failed) = failed.lock() {
                                    failed.get_or_insert(error);
                                }
                            }
                        }
                    }
                    last
                })
            })
            .collect();
        let stamps = running.into_iter().filter_map(|it| it.join().ok());
        stamps.max().unwrap_or(i64::MIN)
    });
    let seconds = begun.elapsed().as_secs_f64();
    if let Some(error) = failed.into_inner().unwrap_or(None) {
        return Err(error);
    }
    Ok((seconds, last))
}

/// All PUTs, in the order of time.
fn requests(options: &TstorageOptions) -> Result<Vec<Vec<u8>>> {
    let mut rows = options.spec.cpu_rows()?;
    let mut requests = Vec::new();
    let mut left = options.spec.rows()?;
    while left > 0 {
        let records = left.min(options.put_records.max(1).into());
        left -= records;
        let records = usize::try_from(records).unwrap_or(usize::MAX);
        let mut request = Vec::with_capacity(records.saturating_mul(RECORD_BYTES));
        client::begin_put(&mut request);
        for (host, time_ns, percents) in rows.by_ref().take(records) {
            let mut payload = [0; 4 * METRICS];
            // The highest byte first, and none is above 100.
            for (bytes, percent) in payload.chunks_exact_mut(4).zip(percents) {
                bytes[3] = percent;
            }
            client::add_record(host, time_ns - EPOCH_NS, &payload, &mut request);
        }
        client::end_put(&mut request);
        requests.push(request);
    }
    Ok(requests)
}

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    OneMetric,
    AllMetrics,
    EveryHost,
}

impl Scenario {
    fn name(self) -> &'static str {
        match self {
            Self::OneMetric => "q1: one host, one metric, 12 h",
            Self::AllMetrics => "q2: one host, all metrics, 12 h",
            Self::EveryHost => "q3: every host, one metric, 12 h",
        }
    }

    fn name_in_sql(self) -> &'static str {
        match self {
            Self::OneMetric => "q1 through SQL",
            Self::AllMetrics => "q2 through SQL",
            Self::EveryHost => "q3 through SQL",
        }
    }

    /// The first time of a window, and the host if it is of one.
    fn draw(self, spec: &Spec, window: i64, random: &mut Xoshiro256PlusPlus) -> (i64, Option<i32>) {
        let span = spec.end_ns - spec.start_ns;
        let start_ns = spec.start_ns + random.random_range(0..=span - window);
        let host = random.random_range(0..spec.hosts).cast_signed();
        (start_ns, (self != Self::EveryHost).then_some(host))
    }

    fn metrics(self) -> usize {
        match self {
            Self::OneMetric | Self::EveryHost => 1,
            Self::AllMetrics => METRICS,
        }
    }
}

fn time(
    options: &TstorageOptions,
    scenario: Scenario,
    client: &mut Client,
    random: &mut Xoshiro256PlusPlus,
) -> Result<QueryTiming> {
    let spec = &options.spec;
    let span = spec.end_ns - spec.start_ns;
    let window = WINDOW_NS.min(span);
    let hosts = match scenario {
        Scenario::EveryHost => spec.hosts as usize,
        // Sums of all hosts would be emptied and divided within the time of each answer.
        _ => 1,
    };
    let mut averages = Averages::new(hosts, scenario.metrics());
    let mut millis = Vec::new();
    let mut records = 0;
    for _ in 0..options.queries.max(1) {
        let (start_ns, host) = scenario.draw(spec, window, random);
        let cids = host.map_or((0, spec.hosts.cast_signed()), |host| (host, host + 1));
        let of = ClientBox {
            cids,
            caps: (start_ns - EPOCH_NS, start_ns - EPOCH_NS + window),
        };
        for is_timed in [false, true] {
            averages.clear();
            let begun = Instant::now();
            records = client.get(&of, |cid, cap, payload| {
                averages.add(cid - cids.0, (cap - of.caps.0) / HOUR_NS, payload);
            })?;
            averages.end();
            if is_timed {
                millis.push(begun.elapsed().as_secs_f64() * 1000.0);
            }
        }
        let expected = records_of(spec, start_ns, window) * (cids.1 - cids.0) as usize;
        if records != expected {
            return Err(wrong(
                scenario.name(),
                format!("it has {records} records, and the data set has {expected}"),
            ));
        }
    }
    Ok(timing(
        scenario.name(),
        millis,
        (records, client.answer_bytes),
        window,
    ))
}

/// The same through SQL, where the database averages.
fn time_sql(
    options: &TstorageOptions,
    scenario: Scenario,
    sql: &Sql,
    random: &mut Xoshiro256PlusPlus,
) -> Result<QueryTiming> {
    let spec = &options.spec;
    let window = WINDOW_NS.min(spec.end_ns - spec.start_ns);
    let (mut millis, mut answered) = (Vec::new(), (0, 0));
    for _ in 0..options.queries.max(1) {
        let (start_ns, host) = scenario.draw(spec, window, random);
        let statement = sql.statement(spec, scenario, host, (start_ns, window));
        sql.ask(&statement)?;
        let begun = Instant::now();
        let answer = sql.ask(&statement)?;
        millis.push(begun.elapsed().as_secs_f64() * 1000.0);
        let hosts = if host.is_some() { 1 } else { spec.hosts };
        let expected = sql::hours_of(spec, start_ns, window) * hosts as usize;
        answered = (Sql::rows(&answer)?, answer.len());
        if answered.0 != expected {
            return Err(wrong(
                scenario.name_in_sql(),
                format!(
                    "it has {} rows, and the data set has {expected} hours of hosts",
                    answered.0
                ),
            ));
        }
    }
    Ok(timing(scenario.name_in_sql(), millis, answered, window))
}

fn timing(
    name: &'static str,
    mut millis: Vec<f64>,
    (rows, answer_bytes): (usize, usize),
    window: i64,
) -> QueryTiming {
    let total_ms: f64 = millis.iter().sum();
    let spread = Spread::of(&mut millis);
    QueryTiming {
        name,
        clients: 1,
        runs: millis.len(),
        min_ms: spread.min,
        median_ms: spread.median,
        p99_ms: spread.p99,
        max_ms: spread.max,
        per_second: millis.len() as f64 * 1000.0 / total_ms,
        rows,
        answer_bytes,
        note: (window < WINDOW_NS).then(|| "the data set is shorter than 12 h".to_owned()),
    }
}

/// Records of a host within a window.
fn records_of(spec: &Spec, start_ns: i64, window_ns: i64) -> usize {
    let epochs = spec.epochs().unwrap_or_default().cast_signed();
    let before = |ns: i64| {
        let intervals = (ns - spec.start_ns).div_euclid(spec.interval_ns);
        let is_on_it = (ns - spec.start_ns).rem_euclid(spec.interval_ns) == 0;
        (intervals + i64::from(!is_on_it)).clamp(0, epochs)
    };
    usize::try_from(before(start_ns + window_ns) - before(start_ns)).unwrap_or_default()
}

/// Hourly averages of metrics of hosts.
#[derive(Debug)]
struct Averages {
    metrics: usize,
    /// Sums, and then averages, by host, hour and metric.
    values: Vec<f64>,
    /// Records by host and hour.
    counts: Vec<u32>,
}

impl Averages {
    fn new(hosts: usize, metrics: usize) -> Self {
        Self {
            metrics,
            values: vec![0.0; hosts * HOURS * metrics],
            counts: vec![0; hosts * HOURS],
        }
    }

    fn clear(&mut self) {
        self.values.fill(0.0);
        self.counts.fill(0);
    }

    fn add(&mut self, host: i32, hour: i64, payload: &[u8]) {
        let (Ok(host), Ok(hour)) = (usize::try_from(host), usize::try_from(hour)) else {
            return;
        };
        let at = host * HOURS + hour.min(HOURS - 1);
        if let Some(count) = self.counts.get_mut(at) {
            *count += 1;
        }
        let sums = self.values.get_mut(at * self.metrics..).unwrap_or_default();
        let (numbers, _) = payload.as_chunks::<4>();
        for (sum, number) in sums.iter_mut().take(self.metrics).zip(numbers) {
            let mut number = *number;
            number.reverse();
            *sum += f64::from(i32::from_le_bytes(number));
        }
    }

    /// Divides, as the answer of the scenario asks for.
    fn end(&mut self) {
        for (sums, count) in self.values.chunks_exact_mut(self.metrics).zip(&self.counts) {
            for sum in sums {
                *sum /= f64::from((*count).max(1));
            }
        }
    }
}

fn wrong(name: &str, why: String) -> Error {
    Error::Answer {
        name: name.to_owned(),
        format: "data set",
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Workload;

    pub(super) fn spec() -> Spec {
        let start_ns = EPOCH_NS + 473_299_200_000_000_000;
        Spec {
            workload: Workload::CpuOnly,
            hosts: 3,
            start_ns,
            end_ns: start_ns + 24 * HOUR_NS,
            interval_ns: 300_000_000_000,
            seed: 123,
        }
    }

    /// The example of the reference: client 0, time 473299200000000000, ten integers with the highest byte first.
    #[test]
    fn a_put_has_the_bytes_of_the_protocol() {
        let options = TstorageOptions {
            address: String::new(),
            spec: spec(),
            workers: 1,
            put_records: 2,
            queries: 1,
            is_loaded: false,
            sql: None,
        };
        let requests = requests(&options).unwrap();
        assert_eq!(requests.len(), 288 * 3 / 2);
        let request = &requests[0];
        assert_eq!(request.len(), 12 + 2 * (8 + 24 + 40) + 4);
        assert_eq!(request[..12], [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        // Client, bytes of the batch, bytes of the record, mid, moid.
        assert_eq!(request[12..24], [0, 0, 0, 0, 64, 0, 0, 0, 60, 0, 0, 0]);
        assert_eq!(request[24..36], [0; 12]);
        assert_eq!(request[36..44], 473_299_200_000_000_000_i64.to_le_bytes());
        let mut text = Vec::new();
        spec().points().unwrap().write_batch(1, &mut text);
        let text = String::from_utf8(text).unwrap();
        for (metric, bytes) in spec()
            .workload
            .metrics()
            .iter()
            .zip(request[44..84].chunks(4))
        {
            assert_eq!(bytes[..3], [0; 3]);
            let field = format!("{metric}={}i", bytes[3]);
            assert!(text.contains(&field), "{field} in {text}");
        }
        assert_eq!(request[84..88], [1, 0, 0, 0]);
        assert_eq!(request[request.len() - 4..], [0xff; 4]);
    }

    #[test]
    fn a_window_has_the_records_whose_times_it_holds() {
        let spec = spec();
        for (offset, window, expected) in [
            (0, WINDOW_NS, 144),
            (1, WINDOW_NS, 144),
            (0, 1, 1),
            (1, 1, 0),
            (299_999_999_999, 2, 1),
            (12 * HOUR_NS, WINDOW_NS, 144),
            (0, 24 * HOUR_NS, 288),
        ] {
            let found = records_of(&spec, spec.start_ns + offset, window);
            assert_eq!(found, expected, "{offset} {window}");
        }
    }

    #[test]
    fn averages_are_of_each_host_and_hour() {
        let mut averages = Averages::new(2, 2);
        let payload = |a: u8, b: u8| [0, 0, 0, a, 0, 0, 0, b, 9, 9, 9, 9];
        averages.add(1, 0, &payload(2, 10));
        averages.add(1, 0, &payload(4, 30));
        averages.add(0, 12, &payload(7, 8));
        averages.end();
        let at = |host: usize, hour: usize| &averages.values[(host * HOURS + hour) * 2..][..2];
        assert_eq!(at(1, 0), [3.0, 20.0]);
        assert_eq!(at(0, 12), [7.0, 8.0]);
        assert_eq!(at(0, 0), [0.0, 0.0]);
    }
}
