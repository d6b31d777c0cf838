//! Status of the server: `/ping`, `/status`, `/debug/vars`.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nilometer_http::{ErrorResponse, Http, Parameters, principal_of};
use nilometer_service::define::{Shard, shards_of};
use nilometer_service::{Principal, resident_bytes};
use serde_json::{Map, Value, json};

use crate::encode::rfc3339;
use crate::udp::{DATAGRAM_LINES_LOST, DATAGRAMS};
use crate::words::{INFLUXDB_VERSION, WORDS};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const VERSION_HEADER: HeaderName = HeaderName::from_static("x-nilometer-version");

/// As `InfluxDB` 1 has it: nothing, or with `verbose` the version, the one that the header says too.
pub(crate) async fn ping(RawQuery(query): RawQuery) -> Response {
    let parameters = Parameters::parse(query.unwrap_or_default().as_bytes());
    let mut response = match parameters.get("verbose") {
        None | Some("" | "0" | "false") => StatusCode::NO_CONTENT.into_response(),
        Some(_) => json_response(&json!({ "version": INFLUXDB_VERSION })),
    };
    let version = HeaderValue::from_static(VERSION);
    response.headers_mut().insert(VERSION_HEADER, version);
    response
}

/// Nothing, as soon as the server answers at all.
pub(crate) async fn status() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Statistics for collectors that know this form, and of databases those that the asker sees anything of. What is not counted
/// here is not in it; `/metrics` has more.
pub(crate) async fn debug_vars(State(http): State<Arc<Http>>, request: Request) -> Response {
    let (head, _) = request.into_parts();
    let principal = principal_of(&head);
    if let Err(refusal) = principal.check_known() {
        return ErrorResponse::from(refusal)
            .in_words(&WORDS)
            .into_response();
    }
    let service = http.service();
    let (counters, store) = (service.counters(), service.store_metrics());
    let mut vars = Map::new();
    let mut insert = |key: String, value: Value| vars.insert(key, value);
    insert(
        "build".to_owned(),
        json!({ "Branch": "", "BuildTime": "", "Commit": "", "Version": VERSION }),
    );
    insert("cmdline".to_owned(), json!(["nilometer"]));
    let (now_ns, started_ns) = (service.wall_ns(), http.started_ns());
    insert(
        "system".to_owned(),
        json!({
            "currentTime": rfc3339(now_ns),
            "started": rfc3339(started_ns),
            "uptime": now_ns.saturating_sub(started_ns).max(0) / SECOND_NS,
        }),
    );
    let address = http.address().map(|address| address.to_string());
    insert(
        match &address {
            Some(address) => format!("httpd:{address}"),
            None => "httpd".to_owned(),
        },
        statistic(
            "httpd",
            address.map_or_else(|| json!({}), |address| json!({ "bind": address })),
            requests(&http),
        ),
    );
    insert(
        "queryExecutor".to_owned(),
        statistic(
            "queryExecutor",
            json!({}),
            json!({
                "queriesActive": counters.queries_running.get(),
                "queriesCancelled": counters.queries_cancelled.get(),
                "rowsReturned": counters.rows_answered.get(),
            }),
        ),
    );
    let runs = service.language("influxql").map(|language| language.runs());
    let runs = runs.unwrap_or_default();
    insert(
        "cq".to_owned(),
        statistic(
            "cq",
            json!({}),
            json!({ "queryOk": runs.ok, "queryFail": runs.failed }),
        ),
    );
    insert(
        "write".to_owned(),
        statistic(
            "write",
            json!({}),
            json!({
                "pointReq": store.rows_written,
                "bytes": counters.body_bytes.get(),
                "writeError": counters.lines_rejected.get(),
            }),
        ),
    );
    insert(
        "udp".to_owned(),
        statistic(
            "udp",
            json!({}),
            json!({
                "readsOK": counters.counter(&DATAGRAMS).get(),
                "pointsDropped": counters.counter(&DATAGRAM_LINES_LOST).get(),
            }),
        ),
    );
    vars.extend(runtime());
    vars.extend(databases(&http, &principal));
    json_response(&Value::Object(vars))
}

/// What each database has, of those that the asker sees anything of.
fn databases(http: &Http, principal: &Principal) -> Vec<(String, Value)> {
    let snapshot = http.service().snapshot();
    let mut found = Vec::new();
    for database in snapshot.databases() {
        if !principal.sees(&database) {
            continue;
        }
        let schemas = snapshot.schemas(&database).unwrap_or_default();
        found.extend(shards_of(&snapshot, &database, &schemas).iter().map(shard));
        let tables = schemas.iter().flat_map(|schema| {
            let names = snapshot.tables(&database, schema).unwrap_or_default();
            names
                .into_iter()
                .filter_map(|name| snapshot.table(&database, schema, &name))
                .collect::<Vec<_>>()
        });
        let (mut measurements, mut series) = (0u64, 0u64);
        for table in tables {
            measurements += 1;
            series += snapshot.series_count(&table, &[]).unwrap_or_default();
        }
        found.push((
            format!("database:{database}"),
            statistic(
                "database",
                json!({ "database": database }),
                json!({ "numMeasurements": measurements, "numSeries": series }),
            ),
        ));
    }
    found
}

/// A shard by its number in `SHOW SHARDS`.
fn shard(shard: &Shard) -> (String, Value) {
    let id = shard.id.to_string();
    let tags = json!({ "database": shard.database, "retentionPolicy": shard.policy, "id": id });
    let values = json!({ "diskBytes": shard.bytes });
    (format!("shard:{id}"), statistic("shard", tags, values))
}

/// What is true of a process without a garbage collector, by the names that Go has for it. `memstats` is left out: who reads
/// that takes 0 for what is not in it.
fn runtime() -> Option<(String, Value)> {
    let values = json!({ "Sys": resident_bytes()?, "NumGC": 0, "PauseTotalNs": 0 });
    let name = "runtime";
    Some((name.to_owned(), statistic(name, json!({}), values)))
}

fn statistic(name: &str, tags: Value, values: Value) -> Value {
    let members = [
        ("name", Value::from(name)),
        ("tags", tags),
        ("values", values),
    ];
    members.into_iter().collect()
}

const SECOND_NS: i64 = 1_000_000_000;

/// The requests that have an answer, as `InfluxDB` counts them; this one has none yet.
fn requests(http: &Http) -> Value {
    let by = http.metrics().by_request();
    let count = |is_meant: &dyn Fn(&str, u16) -> bool| {
        let all = by.requests.iter();
        let meant = all.filter(|((route, status), _)| is_meant(route, *status));
        meant.map(|(_, count)| count).sum::<u64>()
    };
    let of = |routes: &[&str]| count(&|route, _| routes.contains(&route));
    let spent_ns = |routes: &[&str]| {
        let all = by.latencies.iter();
        let meant = all.filter(|(route, _)| routes.is_empty() || routes.contains(&route.as_str()));
        let us = meant.map(|(_, latency)| latency.sum_us);
        us.fold(0, u64::saturating_add).saturating_mul(1000)
    };
    let writes = ["/write", "/api/v2/write"];
    json!({
        "req": count(&|_, _| true),
        "reqActive": http.metrics().running.get(),
        "reqDurationNs": spent_ns(&[]),
        "queryReq": of(&["/query"]),
        "queryReqDurationNs": spent_ns(&["/query"]),
        "writeReq": of(&writes),
        "writeReqDurationNs": spent_ns(&writes),
        "pingReq": of(&["/ping"]),
        "statusReq": of(&["/status"]),
        "authFail": count(&|_, status| status == 401),
        "clientError": count(&|_, status| (400..500).contains(&status)),
        "serverError": count(&|_, status| status >= 500),
    })
}

pub(crate) fn json_response(value: &Value) -> Response {
    let content_type = HeaderValue::from_static("application/json");
    ([(header::CONTENT_TYPE, content_type)], format!("{value}\n")).into_response()
}
