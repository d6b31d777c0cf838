//! Who gets in, what heads may hold, and that no secret comes out.

use axum::body::Body;
use axum::http::Request;
use nilometer_service::Token;

use crate::support::{Answer, Server, ServerConfig, routes};

const SECRET: &str = "planted-secret-7f3a9c";

fn guarded() -> Server {
    Server::with(ServerConfig {
        token: Some(Token::new(SECRET, "the test").unwrap()),
        ..ServerConfig::default()
    })
}

async fn send(server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.send(request.body(Body::empty()).unwrap()).await
}

#[tokio::test]
async fn every_route_but_health_and_ping_needs_the_token() {
    let server = guarded();
    let bearer = format!("Bearer {SECRET}");
    let mut open = Vec::new();
    for route in routes() {
        let without = send(&server, route.method, route.path, &[]).await;
        let wrong = [("authorization", "Bearer planted-secret-7f3a9d")];
        let wrong = send(&server, route.method, route.path, &wrong).await;
        let right = [("authorization", bearer.as_str())];
        let right = send(&server, route.method, route.path, &right).await;
        assert_ne!(right.status, 401, "{route:?}");
        assert_ne!(right.status, 405, "{route:?}");
        if route.is_open {
            open.push(route.path);
            assert_eq!((without.status, wrong.status), (right.status, right.status));
            continue;
        }
        assert_eq!((without.status, wrong.status), (401, 401), "{route:?}");
        for answer in [&without, &wrong] {
            let challenges: Vec<_> = answer.headers.get_all("www-authenticate").iter().collect();
            assert_eq!(challenges.len(), 2, "{route:?}");
            assert!(!answer.text().contains("planted"), "{}", answer.text());
        }
        assert!(
            without
                .error()
                .starts_with("unable to parse authentication credentials")
        );
        assert!(wrong.error().starts_with("authorization failed"));
    }
    assert_eq!(open, ["/health", "/ping", "/status"]);
    // What is no route tells nobody that it is none; and no method gets around the question.
    for (method, path) in [
        ("GET", "/nowhere"),
        ("DELETE", "/metrics"),
        ("OPTIONS", "/write"),
        ("GET", "/health/../metrics"),
        ("GET", "//health"),
        ("HEAD", "/metrics"),
    ] {
        assert_eq!(
            send(&server, method, path, &[]).await.status,
            401,
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn the_token_is_taken_wherever_clients_put_it() {
    let server = guarded();
    // printf 'u:planted-secret-7f3a9c' | base64
    let basic = "Basic dTpwbGFudGVkLXNlY3JldC03ZjNhOWM=";
    for (path, header) in [
        ("/metrics".to_owned(), Some(format!("Bearer {SECRET}"))),
        ("/metrics".to_owned(), Some(format!("Token {SECRET}"))),
        ("/metrics".to_owned(), Some(format!("Token user:{SECRET}"))),
        ("/metrics".to_owned(), Some(basic.to_owned())),
        (format!("/metrics?u=user&p={SECRET}"), None),
        (format!("/metrics?p={SECRET}"), None),
    ] {
        let headers: Vec<(&str, &str)> = header
            .iter()
            .map(|value| ("authorization", value.as_str()))
            .collect();
        let answer = send(&server, "GET", &path, &headers).await;
        assert_eq!(answer.status, 200, "{path} {header:?}");
        // Not even to who knows it already.
        assert!(!answer.text().contains(SECRET));
        assert!(!format!("{:?}", answer.headers).contains(SECRET));
    }
    let text = format!(
        "{:?}",
        ServerConfig {
            token: Some(Token::new(SECRET, "the test").unwrap()),
            ..ServerConfig::default()
        }
    );
    assert!(text.contains("(set)") && !text.contains(SECRET), "{text}");
}

#[tokio::test]
async fn heads_over_their_limits_are_refused_with_the_limits_name() {
    let server = Server::with(ServerConfig {
        url_bytes_max: 100,
        header_bytes_max: 200,
        ..ServerConfig::default()
    });
    let at_limit = format!("/ping?{}", "x".repeat(100 - "/ping?".len()));
    assert_eq!(server.get(&at_limit).await.status, 204);
    let answer = server.get(&format!("{at_limit}x")).await;
    assert_eq!(answer.status, 414);
    assert!(
        answer.error().contains("url-bytes-max"),
        "{}",
        answer.error()
    );
    let long = "x".repeat(200 - "x-long".len());
    assert_eq!(
        send(&server, "GET", "/ping", &[("x-long", &long)])
            .await
            .status,
        204
    );
    let long = format!("{long}x");
    let answer = send(&server, "GET", "/ping", &[("x-long", &long)]).await;
    assert_eq!(answer.status, 431);
    assert!(
        answer.error().contains("header-bytes-max"),
        "{}",
        answer.error()
    );
    let text = server.get("/metrics").await.text().to_owned();
    assert!(text.contains("nilometer_limits_hit_total{setting=\"url-bytes-max\"} 1\n"));
}

#[tokio::test]
async fn errors_carry_the_id_of_their_request() {
    let server = Server::new();
    for path in [
        "/nowhere",
        "/api/v3/query_sql?db=d&q=SELECT+1",
        "/api/v3/query_sql",
    ] {
        let answer = send(&server, "GET", path, &[("x-request-id", "id-42")]).await;
        assert!(answer.status >= 400);
        assert_eq!(answer.json()["request_id"], "id-42", "{path}");
        let answer = send(&server, "GET", path, &[]).await;
        let id = answer.header("x-request-id").to_owned();
        assert_eq!(answer.json()["request_id"], id.as_str(), "{path}");
    }
}
