//! Answers packed with gzip and zstd, for clients that ask for it.

use std::io::Read;

use axum::body::Body;
use axum::http::Request;
use flate2::read::GzDecoder;

use crate::support::{Answer, Server};

async fn get(server: &Server, path: &str, encodings: &str) -> Answer {
    let request = Request::get(path).header("accept-encoding", encodings);
    server.send(request.body(Body::empty()).unwrap()).await
}

/// An answer of many megabytes of JSON travelled as it was, whatever the client could take.
#[tokio::test]
async fn who_takes_gzip_or_zstd_gets_the_same_answer_smaller() {
    let server = Server::new();
    let lines: Vec<String> = (0..5000)
        .map(|n| format!("m,host=h{} v={n}i {}\n", n % 7, n + 1))
        .collect();
    let lines = lines.concat();
    assert_eq!(server.write(lines).await.status, 204);
    for format in ["json", "jsonl", "csv", "pretty"] {
        let path = format!(
            "/api/v3/query_sql?db=d&format={format}&q=SELECT%20*%20FROM%20m%20ORDER%20BY%20time"
        );
        let plain = server.get(&path).await;
        assert_eq!(plain.status, 200, "{}", plain.text());
        assert_eq!(plain.header("content-encoding"), "", "{format}");
        let packed = get(&server, &path, "deflate, gzip;q=0.8").await;
        assert_eq!(packed.header("content-encoding"), "gzip", "{format}");
        assert_eq!(packed.header("vary"), "accept-encoding", "{format}");
        assert_eq!(packed.header("content-type"), plain.header("content-type"));
        let mut text = String::new();
        let mut decoder = GzDecoder::new(packed.body.as_slice());
        decoder.read_to_string(&mut text).unwrap();
        assert!(text == plain.text(), "{format}");
        assert!(
            packed.body.len() * 3 < text.len(),
            "{} of {}",
            packed.body.len(),
            text.len()
        );
        let small = get(&server, &path, "gzip, zstd;q=1.0").await;
        assert_eq!(small.header("content-encoding"), "zstd", "{format}");
        assert_eq!(small.header("vary"), "accept-encoding", "{format}");
        assert_eq!(small.header("content-length"), "", "{format}");
        let whole = zstd::decode_all(small.body.as_slice()).unwrap();
        assert!(whole == plain.body, "{format}");
        assert!(small.body.len() * 3 < whole.len(), "{format}");
    }
    // Small answers, refusals and streams that pack themselves stay as they are.
    for path in [
        "/ping",
        "/api/v3/query_sql?db=d&q=SELECT%20nothing",
        "/api/v3/query_sql?db=d&format=arrow&q=SELECT%20*%20FROM%20m",
    ] {
        let answer = get(&server, path, "gzip, zstd").await;
        assert_eq!(answer.header("content-encoding"), "", "{path}");
    }
    let refused = get(
        &server,
        "/api/v3/query_sql?db=d&q=SELECT%20v%20FROM%20m",
        "gzip;q=0",
    )
    .await;
    assert_eq!(refused.header("content-encoding"), "");
}
