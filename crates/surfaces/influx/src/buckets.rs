//! `/api/v2/buckets`: retention policies as the buckets of version 2, as 1.12 has them. A bucket is `database/policy`.
//!
//! Does: list, make, change and drop them, by statements of the language, which know what may be and who may. Does not: keep
//! labels, members, owners or descriptions.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nilometer_http::body::{Largest, receive};
use nilometer_http::{ErrorResponse, Http, Parameters, principal_of};
use nilometer_influxql_syntax::quote_ident;
use nilometer_service::define::{policy_of_schema, policy_settings, schema_of_policy, shard_ns};
use nilometer_service::{Class, INTERNAL_DATABASE, Params, Place, Principal, Privilege, Session};
use serde_json::{Value, json};

use crate::words::WORDS;

/// Buckets of a list that asks for no other number.
const LISTED: usize = 100;
const SECOND_NS: i64 = 1_000_000_000;

type Answer = Result<Response, ErrorResponse>;

fn said(answer: Answer) -> Response {
    answer.unwrap_or_else(|refusal| refusal.in_words(&WORDS).into_response())
}

fn refuse<T>(status: StatusCode, text: String) -> Result<T, ErrorResponse> {
    Err(ErrorResponse::new(status, text))
}

/// A bucket by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Bucket {
    database: String,
    policy: String,
}

impl Bucket {
    /// `database/policy`; the policy may be missing.
    fn of(name: &str) -> Result<Self, String> {
        let (database, policy) = name.split_once('/').unwrap_or((name, ""));
        if name.is_empty() {
            return Err(format!(
                "bucket name {name:?} is missing a slash; not in \"database/retention-policy\" format"
            ));
        }
        if database.is_empty() {
            return Err(format!(
                "bucket name {name:?} is in db/rp form but has an empty database"
            ));
        }
        Ok(Self {
            database: database.to_owned(),
            policy: policy.to_owned(),
        })
    }

    /// One that an address names.
    fn of_path(name: &str) -> Result<Self, ErrorResponse> {
        let refusal = match Self::of(name) {
            Ok(bucket) if !bucket.policy.is_empty() => return Ok(bucket),
            Ok(_) => format!("bucket {name:?}: illegal bucket id, empty retention policy"),
            Err(why) => format!("bucket {name:?}: {why}"),
        };
        refuse(StatusCode::BAD_REQUEST, refusal)
    }

    fn name(&self) -> String {
        format!("{}/{}", self.database, self.policy)
    }

    /// Its schema; `None` = it is not there.
    fn schema(&self, http: &Http) -> Option<String> {
        let snapshot = http.service().snapshot();
        let is_named = !self.policy.is_empty() && self.database != INTERNAL_DATABASE;
        is_named
            .then(|| schema_of_policy(&snapshot, &self.database, &self.policy))
            .flatten()
    }

    /// As clients have it; `None` = it is not there.
    fn shown(&self, http: &Http) -> Option<String> {
        let schema = self.schema(http)?;
        let snapshot = http.service().snapshot();
        let kept = snapshot
            .schema_retention_ns(&self.database, &schema)
            .unwrap_or(0);
        let asked = policy_settings(&snapshot, &self.database, &schema).shard_ns;
        let name = json!(self.name());
        // In the order in which they are written there.
        Some(format!(
            "{{\"description\":\"\",\"name\":{name},\"retentionRules\":[{{\"type\":\"\",\"everySeconds\":{},\"shardGroupDurationSeconds\":{}}}],\"orgId\":\"\",\"schemaType\":\"implicit\",\"id\":{name},\"type\":\"\",\"rp\":{},\"createdAt\":\"0001-01-01T00:00:00Z\",\"updatedAt\":\"0001-01-01T00:00:00Z\"}}",
            kept / SECOND_NS,
            shard_ns(kept, asked) / SECOND_NS,
            json!(self.policy),
        ))
    }
}

/// Whether somebody may see what is in a database.
fn may_read(principal: &Principal, database: &str) -> bool {
    let place = Place::database(database);
    principal.check(Privilege::Read, place).is_ok()
}

fn json_text(status: StatusCode, text: String) -> Response {
    let content_type = HeaderValue::from_static("application/json");
    (status, [(header::CONTENT_TYPE, content_type)], text).into_response()
}

fn listed(buckets: &[String]) -> Response {
    let text = format!("{{\"buckets\":[{}]}}", buckets.join(","));
    json_text(StatusCode::OK, text)
}

pub(crate) async fn list(
    State(http): State<Arc<Http>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Response {
    let (head, _) = request.into_parts();
    let parameters = Parameters::parse(query.unwrap_or_default().as_bytes());
    said(list_asked(&http, &parameters, &principal_of(&head)))
}

fn list_asked(http: &Http, parameters: &Parameters, principal: &Principal) -> Answer {
    let text = |name: &str| parameters.get(name).unwrap_or_default();
    let (id, name) = (text("id"), text("name"));
    if !id.is_empty() || !name.is_empty() {
        if !id.is_empty() && !name.is_empty() && id != name {
            let why = format!("list buckets: name: {name:?} and id: {id:?} do not match");
            return refuse(StatusCode::BAD_REQUEST, why);
        }
        let name = if id.is_empty() { name } else { id };
        let bucket = Bucket::of(name)
            .or_else(|why| refuse(StatusCode::NOT_FOUND, format!("bucket {name:?}: {why}")))?;
        let shown = bucket
            .shown(http)
            .filter(|_| may_read(principal, &bucket.database));
        return match shown {
            Some(shown) => Ok(listed(&[shown])),
            None => refuse(StatusCode::NOT_FOUND, format!("bucket not found: {name:?}")),
        };
    }
    let number = |name: &str| match text(name) {
        "" => Ok(None),
        text => text.parse::<i64>().map(Some).or_else(|why| {
            let why = format!("list buckets parameter is not an integer - {name}={text:?}: {why}");
            refuse(StatusCode::BAD_REQUEST, why)
        }),
    };
    let limit = match number("limit")? {
        None => LISTED,
        Some(limit) => usize::try_from(limit)
            .ok()
            .filter(|limit| *limit > 0)
            .unwrap_or(usize::MAX),
    };
    let after = text("after");
    let offset = number("offset")?;
    if offset.is_some() && !after.is_empty() {
        let why = "list buckets cannot have both \"offset\" and \"after\" arguments";
        return refuse(StatusCode::BAD_REQUEST, why.to_owned());
    }
    let all = all(http, principal);
    let first = if after.is_empty() {
        usize::try_from(offset.unwrap_or(0)).unwrap_or_default()
    } else {
        let place = all.iter().position(|bucket| bucket.name() == after);
        let Some(place) = place else {
            let why = format!("list buckets \"after\" parameter not found: {after:?}");
            return refuse(StatusCode::NOT_FOUND, why);
        };
        place + 1
    };
    let shown = all.iter().skip(first).take(limit);
    let shown: Vec<String> = shown.filter_map(|bucket| bucket.shown(http)).collect();
    Ok(listed(&shown))
}

/// All that somebody may see, the oldest first.
fn all(http: &Http, principal: &Principal) -> Vec<Bucket> {
    let snapshot = http.service().snapshot();
    let mut databases = snapshot.databases();
    databases.retain(|name| name != INTERNAL_DATABASE && may_read(principal, name));
    databases.sort_by_key(|name| snapshot.database_id(name));
    let mut all = Vec::new();
    for database in databases {
        let mut schemas = snapshot.schemas(&database).unwrap_or_default();
        schemas.sort_by_key(|name| snapshot.schema_id(&database, name));
        all.extend(schemas.iter().map(|schema| Bucket {
            database: database.clone(),
            policy: policy_of_schema(&snapshot, &database, schema),
        }));
    }
    all
}

pub(crate) async fn retrieve(
    State(http): State<Arc<Http>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    let (head, _) = request.into_parts();
    let bucket = Bucket::of_path(&name);
    said(bucket.and_then(|bucket| {
        let is_seen = may_read(&principal_of(&head), &bucket.database);
        match bucket.shown(&http).filter(|_| is_seen) {
            Some(shown) => Ok(json_text(StatusCode::OK, shown)),
            None => refuse(StatusCode::NOT_FOUND, format!("bucket not found: {name:?}")),
        }
    }))
}

/// What the body of a request says of how long rows stay.
#[derive(Debug, Clone, Copy, Default)]
struct Rules {
    every_s: i64,
    shard_s: i64,
}

impl Rules {
    /// Those of the first rule; without one, for ever.
    fn of(body: &Value) -> Self {
        let number = |name: &str| {
            let value = body.pointer(&format!("/retentionRules/0/{name}"));
            value.and_then(Value::as_i64).unwrap_or(0).max(0)
        };
        Self {
            every_s: number("everySeconds"),
            shard_s: number("shardGroupDurationSeconds"),
        }
    }

    /// As clauses of a statement.
    fn clauses(self) -> String {
        let duration = match self.every_s {
            0 => "INF".to_owned(),
            seconds => format!("{seconds}s"),
        };
        let shard = match self.shard_s {
            0 => String::new(),
            seconds => format!(" SHARD DURATION {seconds}s"),
        };
        format!("DURATION {duration} REPLICATION 1{shard}")
    }
}

async fn body_of(
    http: &Arc<Http>,
    request: Request,
    what: &str,
) -> Result<(Principal, Value), ErrorResponse> {
    let (head, body) = request.into_parts();
    let received = receive(&head.headers, body, http, Largest::of_rows(http)).await?;
    let inflated = received.inflate()?;
    let body: Value = serde_json::from_slice(inflated.as_ref()).map_err(|error| {
        ErrorResponse::bad_request(format!("{what} - cannot parse request body: {error}"))
    })?;
    Ok((principal_of(&head), body))
}

/// Carries out a statement about a bucket.
async fn run(
    http: &Arc<Http>,
    principal: Principal,
    bucket: &Bucket,
    (what, statement): (&str, String),
) -> Result<(), ErrorResponse> {
    let session = Session::new(&bucket.database, principal);
    let language = http.service().language("influxql")?;
    let done = session.run(&**language, &statement, &Params::new()).await;
    done.map(|_| ()).map_err(|error| match error.class() {
        // Whoever may not is told so in the words for that.
        Class::Forbidden | Class::Unauthorized => ErrorResponse::from(error),
        _ => ErrorResponse::bad_request(format!("{what} {:?}: {error}", bucket.name())),
    })
}

pub(crate) async fn create(State(http): State<Arc<Http>>, request: Request) -> Response {
    said(create_asked(&http, request).await)
}

async fn create_asked(http: &Arc<Http>, request: Request) -> Answer {
    let (principal, body) = body_of(http, request, "buckets").await?;
    let text = |name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default();
    let bad = |why: String| refuse(StatusCode::BAD_REQUEST, why);
    let name = text("name");
    let bucket = match Bucket::of(name) {
        Ok(bucket) if bucket.policy.is_empty() => {
            return bad(format!("buckets - illegal bucket name: {name:?}"));
        }
        Ok(bucket) => bucket,
        Err(why) => return bad(format!("buckets - illegal bucket name: {why}")),
    };
    let policy = text("rp");
    if !policy.is_empty() && policy != bucket.policy {
        return bad(format!(
            "buckets - two retention policies specified: {:?} differs from {policy:?}",
            bucket.policy
        ));
    }
    let clauses = Rules::of(&body).clauses();
    let (database, name) = (quote_ident(&bucket.database), quote_ident(&bucket.policy));
    let is_there = http
        .service()
        .snapshot()
        .default_schema(&bucket.database)
        .is_some();
    let statement = if is_there {
        format!("CREATE RETENTION POLICY {name} ON {database} {clauses}")
    } else {
        format!("CREATE DATABASE {database} WITH {clauses} NAME {name}")
    };
    let what = ("buckets - cannot create bucket", statement);
    run(http, principal, &bucket, what).await?;
    match bucket.shown(http) {
        Some(shown) => Ok(json_text(StatusCode::CREATED, shown)),
        None => refuse(
            StatusCode::NOT_FOUND,
            format!("bucket not found: {:?}", bucket.name()),
        ),
    }
}

pub(crate) async fn update(
    State(http): State<Arc<Http>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    said(update_asked(&http, &name, request).await)
}

async fn update_asked(http: &Arc<Http>, name: &str, request: Request) -> Answer {
    let bucket = Bucket::of_path(name)?;
    let (principal, body) = body_of(http, request, "update bucket").await?;
    let statement = format!(
        "ALTER RETENTION POLICY {} ON {} {}",
        quote_ident(&bucket.policy),
        quote_ident(&bucket.database),
        Rules::of(&body).clauses()
    );
    let what = ("update bucket", statement);
    run(http, principal, &bucket, what).await?;
    let shown = bucket.shown(http).unwrap_or_default();
    Ok(json_text(StatusCode::OK, shown))
}

pub(crate) async fn delete(
    State(http): State<Arc<Http>>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    said(delete_asked(&http, &name, request).await)
}

async fn delete_asked(http: &Arc<Http>, name: &str, request: Request) -> Answer {
    let bucket = Bucket::of_path(name)?;
    let (head, _) = request.into_parts();
    if bucket.schema(http).is_none() {
        let why = format!("delete bucket - not found: {name:?}");
        return refuse(StatusCode::NOT_FOUND, why);
    }
    let statement = format!(
        "DROP RETENTION POLICY {} ON {}",
        quote_ident(&bucket.policy),
        quote_ident(&bucket.database)
    );
    let what = ("delete bucket", statement);
    run(http, principal_of(&head), &bucket, what).await?;
    Ok(StatusCode::OK.into_response())
}
