//! `POST /write` and `POST /api/v2/write`: line protocol for the clients of `InfluxDB` 1 and 2, in the words of version 1.
//!
//! Does not: create a database. There a client that needs one makes it first, and a name that is wrong by a letter shall
//! not make another.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use nilometer_engine::ingest::{Beyond, BeyondPoint, Bound, WriteReport};
use nilometer_http::body::{Largest, receive};
use nilometer_http::{ErrorResponse, Http, Parameters, idempotency, principal_of};
use nilometer_influxql_syntax::format_clock as go_duration;
use nilometer_lineproto::Precision;
use nilometer_service::define::{
    DEFAULT_POLICY, PolicySettings, policy_of_schema, policy_settings, schema_of_policy,
};
use nilometer_service::{LineTarget, Place, Privilege, Sabotage, Scope};

use crate::encode::rfc3339;
use crate::words::WORDS;

pub(crate) async fn write_v1(
    State(http): State<Arc<Http>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let asked = InfluxParameters::of_v1(&Parameters::parse(query.unwrap_or_default().as_bytes()));
    answer(&http, asked, request).await
}

pub(crate) async fn write_v2(
    State(http): State<Arc<Http>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let asked = InfluxParameters::of_v2(&Parameters::parse(query.unwrap_or_default().as_bytes()));
    answer(&http, asked, request).await
}

/// What the parameters ask for, in the words of version 1.
#[derive(Debug, PartialEq, Eq)]
struct InfluxParameters {
    database: String,
    /// Empty = the default one.
    policy: String,
    precision: Precision,
}

impl InfluxParameters {
    fn of_v1(parameters: &Parameters) -> Result<Self, ErrorResponse> {
        let text = |name| parameters.get(name).unwrap_or_default();
        let precision = text("precision");
        let precision = Precision::from_v1(precision).ok_or_else(|| {
            ErrorResponse::bad_request(format!(
                "invalid precision {precision:?} (use n, u, ms, s, m or h)"
            ))
        })?;
        if text("db").is_empty() {
            return Err(ErrorResponse::bad_request("database is required"));
        }
        // One server is every quorum.
        if !matches!(text("consistency"), "" | "any" | "one" | "quorum" | "all") {
            return Err(ErrorResponse::bad_request("invalid consistency level"));
        }
        Ok(Self {
            database: text("db").to_owned(),
            policy: text("rp").to_owned(),
            precision,
        })
    }

    fn of_v2(parameters: &Parameters) -> Result<Self, ErrorResponse> {
        let text = |name| parameters.get(name).unwrap_or_default();
        let bucket = text("bucket");
        let not_found = |why| {
            let sentence = format!("bucket name {bucket:?} is {why}");
            Err(ErrorResponse::new(StatusCode::NOT_FOUND, sentence))
        };
        let (database, policy) = bucket.split_once('/').unwrap_or((bucket, ""));
        match (database, bucket) {
            ("", "") => {
                return not_found("missing a slash; not in \"database/retention-policy\" format");
            }
            ("", _) => return not_found("in db/rp form but has an empty database"),
            _ => {}
        }
        let precision = match text("precision") {
            "" => Some(Precision::Nanosecond),
            text => Precision::from_v2(text),
        };
        let precision = precision.ok_or_else(|| {
            let given = text("precision");
            ErrorResponse::bad_request(format!("invalid precision {given:?} (use ns, us, ms or s)"))
        })?;
        Ok(Self {
            database: database.to_owned(),
            policy: policy.to_owned(),
            precision,
        })
    }
}

async fn answer(
    http: &Arc<Http>,
    asked: Result<InfluxParameters, ErrorResponse>,
    request: Request,
) -> Response {
    match write(http, asked, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.in_words(&WORDS).into_response(),
    }
}

async fn write(
    http: &Arc<Http>,
    asked: Result<InfluxParameters, ErrorResponse>,
    request: Request,
) -> Result<Response, ErrorResponse> {
    let (head, body) = request.into_parts();
    let target = asked.and_then(|asked| {
        let principal = principal_of(&head);
        let policy = if http.service().has(Sabotage::PolicyIgnored) {
            ""
        } else {
            &asked.policy
        };
        let schema = schema_of(http, &asked.database, policy).map_err(|unknown| {
            // Who may not write there does not learn what is not there.
            let place = Place::database(&asked.database);
            let refused = principal.check(Privilege::Write, place);
            refused.err().map_or(unknown, ErrorResponse::from)
        });
        let target = LineTarget {
            principal,
            scope: Scope {
                schema: schema?,
                database: asked.database.clone(),
            },
            creates: false,
            precision: asked.precision,
            key: idempotency::key_of(&head.headers, &asked.database)?,
            keeps_policy: true,
        };
        Ok((asked, target))
    });
    let (asked, target) = match target {
        Ok((asked, target)) => (Some(asked), Ok(target)),
        Err(refusal) => (None, Err(refusal)),
    };
    // The body is read even if the parameters are wrong: a client that is still sending would not see the answer.
    let largest = Largest::of_rows(http);
    let received = receive(&head.headers, body, http, largest).await?;
    let written = http.service().write_lines(target?, || received.inflate());
    let report = written.await?;
    match asked.and_then(|asked| partly(http, &report, &asked)) {
        None => Ok(idempotency::answer(report.repeated)),
        Some(refusal) => Err(refusal),
    }
}

/// The schema that a retention policy stands for; `None` = the default one.
fn schema_of(http: &Http, database: &str, policy: &str) -> Result<Option<String>, ErrorResponse> {
    let unknown = || {
        let name = database.to_owned();
        ErrorResponse::from(nilometer_engine::Error::UnknownDatabase { name })
    };
    let snapshot = http.service().snapshot();
    snapshot.default_schema(database).ok_or_else(unknown)?;
    if policy.is_empty() {
        return Ok(None);
    }
    let schema = schema_of_policy(&snapshot, database, policy);
    schema.map(Some).ok_or_else(|| {
        ErrorResponse::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("retention policy not found: {policy}"),
        )
    })
}

/// What version 1 says when not every line was kept. If lines clash with their table, only that is said.
fn partly(http: &Http, report: &WriteReport, asked: &InfluxParameters) -> Option<ErrorResponse> {
    if report.rejected_total == 0 && report.beyond.is_none() {
        return None;
    }
    let clash = report.rejected.iter().find(|line| !line.parse);
    let beyond = report.beyond.as_deref();
    if clash.is_none() && beyond.is_none() && report.rows == 0 {
        return Some(ErrorResponse::bad_request(unparsed(report)));
    }
    let known_policy = || match asked.policy.as_str() {
        "" => default_policy(http, &asked.database),
        policy => policy.to_owned(),
    };
    let (reason, policy, dropped) = match (clash, beyond) {
        (Some(line), _) => (line.reason.clone(), known_policy(), report.dropped),
        (None, Some(beyond)) => {
            let policy = known_policy();
            let settings = Policy::of(http, &asked.database, &policy);
            let reason = settings.beyond(beyond);
            (reason, policy, beyond.retention + beyond.limits)
        }
        (None, None) => (unparsed(report), asked.policy.clone(), report.dropped),
    };
    let mut text = format!(
        "partial write: {reason} dropped={dropped} for database: {}",
        asked.database
    );
    if !policy.is_empty() {
        text.push_str(" for retention policy: ");
        text.push_str(&policy);
    }
    Some(ErrorResponse::bad_request(text))
}

/// What of a retention policy is said of points that are beyond it.
struct Policy {
    retention_ns: i64,
    limits: PolicySettings,
}

impl Policy {
    fn of(http: &Http, database: &str, policy: &str) -> Self {
        let snapshot = http.service().snapshot();
        let schema = schema_of_policy(&snapshot, database, policy).unwrap_or_default();
        Self {
            retention_ns: snapshot.schema_retention_ns(database, &schema).unwrap_or(0),
            limits: policy_settings(&snapshot, database, &schema),
        }
    }

    /// The oldest and the newest of the points, as 1.12.3 and later name them.
    fn beyond(&self, beyond: &Beyond) -> String {
        let mut text = format!(
            "dropped {} points outside retention policy of duration {}",
            beyond.retention,
            go_duration(self.retention_ns)
        );
        let (past, future) = (self.limits.past_limit_ns, self.limits.future_limit_ns);
        if past > 0 || future > 0 {
            let past = (past > 0).then(|| format!("-{}", go_duration(past)));
            let future = (future > 0).then(|| go_duration(future));
            let both: Vec<String> = past.into_iter().chain(future).collect();
            text = format!(
                "{text} and {} points outside write window ({})",
                beyond.limits,
                both.join(" to ")
            );
        }
        let point = |point: &BeyondPoint| {
            let bound = match point.bound {
                Bound::Retention => "Retention Policy Lower Bound",
                Bound::Past => "Write Window Lower Bound",
                Bound::Future => "Write Window Upper Bound",
            };
            format!(
                "point {} at {} dropped because it violates a {bound} at {}",
                point.series,
                rfc3339(point.time_ns),
                rfc3339(beyond.window.at(point.bound))
            )
        };
        format!(
            "{text} - oldest {}, newest {}",
            point(&beyond.oldest),
            point(&beyond.newest)
        )
    }
}

/// The policy that a name without one means.
fn default_policy(http: &Http, database: &str) -> String {
    let snapshot = http.service().snapshot();
    match snapshot.default_schema(database) {
        Some(schema) => policy_of_schema(&snapshot, database, &schema),
        None => DEFAULT_POLICY.to_owned(),
    }
}

/// The lines that are no line protocol, each with its reason.
fn unparsed(report: &WriteReport) -> String {
    let mut lines: Vec<String> = report
        .rejected
        .iter()
        .filter(|line| line.parse)
        .map(|line| format!("unable to parse '{}': {}", line.line, line.reason))
        .collect();
    let beyond = report.rejected_total - report.rejected.len() as u64;
    if beyond > 0 {
        lines.push(format!("and {beyond} more lines"));
    }
    lines.join("\n")
}
