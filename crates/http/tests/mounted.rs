//! A surface that a test brings along: what the listener does for it without knowing it.

#![expect(
    clippy::unwrap_used,
    reason = "what fails to unwrap fails the test, with the line"
)]

use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use http_body_util::BodyExt;
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Engine, Options, SystemClock};
use nilometer_http::body::{Largest, receive};
use nilometer_http::{ErrorResponse, Http, HttpConfig, Route, Routes, Words, router};
use nilometer_lineproto::Precision;
use nilometer_service::{Class, LineTarget, Scope, Service, ServiceOptions, Threads, Token};
use tower::ServiceExt;

/// Takes lines at one address, and says hello at another.
#[derive(Debug)]
struct Third;

/// Its clients know one status for everything that is wrong.
static WORDS: Words = Words {
    headers: &[("x-third", "yes")],
    error_header: Some("x-third-error"),
    names_request: false,
    say: |_, limit| match limit {
        Some(_) => (StatusCode::IM_A_TEAPOT, "too much: "),
        None => (StatusCode::BAD_REQUEST, "wrong: "),
    },
};

impl Routes for Third {
    fn routes(&self, http: &Arc<Http>) -> Vec<Route> {
        vec![
            Route::new("/third/hello").get(async || "hello").open(),
            Route::new("/third/lines")
                .post(take)
                .words(&WORDS)
                .with_state(Arc::clone(http)),
        ]
    }
}

async fn take(
    State(http): State<Arc<Http>>,
    request: Request,
) -> Result<&'static str, ErrorResponse> {
    let (head, body) = request.into_parts();
    let stored = async {
        let largest = Largest::of_rows(&http);
        let received = receive(&head.headers, body, &http, largest).await?;
        let target = LineTarget {
            principal: nilometer_service::Principal::anyone(),
            scope: Scope::of_database("third"),
            creates: true,
            precision: Precision::Second,
            key: None,
            keeps_policy: false,
        };
        let report = http
            .service()
            .write_lines(target, || received.inflate())
            .await?;
        match report.rejected_total {
            0 => Ok("stored"),
            _ => Err(ErrorResponse::of(Class::BadRequest, "not every line")),
        }
    };
    stored
        .await
        .map_err(|error: ErrorResponse| error.in_words(&WORDS))
}

fn service(options: ServiceOptions) -> Arc<Service> {
    let (disk, clock) = (Arc::new(MemoryDisk::default()), Arc::new(SystemClock));
    let engine = Engine::open(disk, clock, Path::new("/data"), Options::default()).unwrap();
    let executor = Threads::start(options.query.threads).unwrap();
    Service::new(Arc::new(engine), executor, options, |_| Ok(Vec::new())).unwrap()
}

async fn text(response: Response) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

async fn post(http: &Arc<Http>, body: &'static str, token: Option<&str>) -> Response {
    let surfaces: [Box<dyn Routes>; 1] = [Box::new(Third)];
    let mut request = Request::post("/third/lines");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Body::from(body)).unwrap();
    router(http, &surfaces).oneshot(request).await.unwrap()
}

#[tokio::test]
async fn a_third_surface_stores_lines_and_answers_errors_in_its_own_words() {
    let service = service(ServiceOptions::default());
    let http = Http::new(
        Arc::clone(&service),
        HttpConfig {
            body_bytes_max: 20,
            ..HttpConfig::default()
        },
    );
    let response = post(&http, "m v=1 1\nm v=2 2", None).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["x-third"], "yes");
    assert!(response.headers().contains_key("x-request-id"));
    assert_eq!(text(response).await, "stored");
    assert_eq!(service.store_metrics().rows_written, 2);
    assert_eq!(service.counters().body_bytes.get(), 15);

    let response = post(&http, "m v=oops 3", None).await;
    assert_eq!(response.status(), StatusCode::BAD_REQUEST);
    assert_eq!(response.headers()["x-third-error"], "wrong: not every line");
    assert_eq!(
        text(response).await,
        "{\"error\":\"wrong: not every line\"}\n"
    );

    let response = post(&http, "m v=1 1\nm v=2 2\nm v=3 3", None).await;
    assert_eq!(response.status(), StatusCode::IM_A_TEAPOT);
    let said = text(response).await;
    assert!(
        said.contains("too much: ") && said.contains("body-bytes-max"),
        "{said}"
    );
    let limits = http.service().counters().limits_hit.get();
    assert_eq!(limits["body-bytes-max"], 1);
    let by_request = http.metrics().by_request();
    let counted = by_request.requests[&("/third/lines".to_owned(), 418)];
    assert_eq!(counted, 1);
}

#[tokio::test]
async fn its_routes_ask_for_the_token_unless_they_are_open_and_nothing_else_exists() {
    const SECRET: &str = "0123456789abcdef";
    let token = Some(Token::new(SECRET, "the test").unwrap());
    let options = ServiceOptions {
        token,
        ..ServiceOptions::default()
    };
    let http = Http::new(service(options), HttpConfig::default());
    // Refused before its handler, and in its words all the same.
    let refused = post(&http, "m v=1 1", None).await;
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert!(
        text(refused)
            .await
            .contains("wrong: unable to parse authentication")
    );
    let stored = post(&http, "m v=1 1", Some(SECRET)).await;
    assert_eq!(stored.status(), StatusCode::OK);

    let surfaces: [Box<dyn Routes>; 1] = [Box::new(Third)];
    let get = async |path: &str| {
        let request = Request::get(path).body(Body::empty()).unwrap();
        router(&http, &surfaces).oneshot(request).await.unwrap()
    };
    assert_eq!(text(get("/third/hello").await).await, "hello");
    // What is not mounted needs the token to be told so.
    assert_eq!(get("/health").await.status(), StatusCode::UNAUTHORIZED);
    let open: Vec<_> = surfaces[0]
        .routes(&http)
        .iter()
        .flat_map(|route| {
            let infos = route.infos();
            infos
                .map(|info| (info.method, info.path, info.is_open))
                .collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(
        open,
        [
            ("GET", "/third/hello", true),
            ("POST", "/third/lines", false)
        ]
    );
}
