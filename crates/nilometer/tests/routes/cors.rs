//! Pages of other servers: none may call unless its origin is listed, and then its browser is told so.

use axum::body::Body;
use axum::http::Request;
use nilometer_service::Token;

use crate::support::{Answer, Server, ServerConfig};

const PAGE: &str = "https://grafana.example.org";
const QUERY: &str = "/api/v3/query_sql?db=d&q=select+1";
const SECRET: &str = "planted-secret-7f3a9c";

fn server(origins: &str) -> Server {
    Server::with(ServerConfig {
        cors_origins: origins.parse().unwrap(),
        token: Some(Token::new(SECRET, "the test").unwrap()),
        ..ServerConfig::default()
    })
}

async fn send(server: &Server, method: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(QUERY);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request.body(Body::empty()).unwrap()).await
}

fn asking(origin: &str) -> [(&str, &str); 3] {
    [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,content-type",
        ),
    ]
}

#[tokio::test]
async fn no_page_is_told_that_it_may_call_unless_it_is_listed() {
    for (origins, page) in [
        ("", PAGE),
        (PAGE, "https://evil.example.org"),
        (PAGE, "null"),
    ] {
        let server = server(origins);
        let preflight = send(&server, "OPTIONS", &asking(page)).await;
        // As for everybody who has not shown the token.
        assert_eq!(preflight.status, 401);
        let headers = [("origin", page), ("authorization", "Bearer wrong")];
        let request = send(&server, "GET", &headers).await;
        for answer in [preflight, request] {
            let told = answer.headers.keys();
            let told: Vec<_> = told
                .filter(|name| name.as_str().contains("access-control"))
                .collect();
            assert!(told.is_empty(), "{origins:?} {page}: {told:?}");
        }
    }
}

#[tokio::test]
async fn a_listed_page_may_ask_before_it_has_shown_the_token_and_then_call_with_it() {
    let server = server(&format!("http://localhost:3000,{PAGE}"));
    let preflight = send(&server, "OPTIONS", &asking(PAGE)).await;
    assert_eq!((preflight.status, preflight.text()), (204, ""));
    assert_eq!(preflight.header("access-control-allow-origin"), PAGE);
    assert_eq!(preflight.header("vary"), "Origin");
    let allowed = preflight.header("access-control-allow-headers");
    for name in ["authorization", "content-type", "idempotency-key"] {
        let mut names = allowed.split(", ");
        assert!(names.any(|it| it.eq_ignore_ascii_case(name)), "{allowed}");
    }
    assert!(
        preflight
            .header("access-control-allow-methods")
            .contains("POST")
    );
    assert_eq!(preflight.header("access-control-allow-credentials"), "");

    server.engine.create_database("d").unwrap();
    let bearer = format!("Bearer {SECRET}");
    let right = send(
        &server,
        "GET",
        &[("origin", PAGE), ("authorization", &bearer)],
    )
    .await;
    assert_eq!(right.status, 200, "{}", right.text());
    // A refusal has a reason that the page can show.
    let wrong = send(&server, "GET", &[("origin", PAGE)]).await;
    assert_eq!(wrong.status, 401);
    for answer in [right, wrong] {
        assert_eq!(answer.header("access-control-allow-origin"), PAGE);
        let exposed = answer.header("access-control-expose-headers");
        assert!(exposed.contains("X-Request-Id"), "{exposed}");
    }
    // The question needs all that makes it one.
    let bare = send(&server, "OPTIONS", &[("origin", PAGE)]).await;
    assert_eq!(bare.status, 401);
}

#[tokio::test]
async fn a_star_allows_every_page_and_what_no_page_sends_is_answered_as_ever() {
    let server = server("*");
    let preflight = send(&server, "OPTIONS", &asking("https://anywhere.example.org")).await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-origin"), "*");
    let plain = send(&server, "GET", &[]).await;
    assert_eq!(plain.status, 401);
    assert_eq!(plain.header("access-control-allow-origin"), "");
}
