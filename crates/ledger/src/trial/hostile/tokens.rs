//! Wrong tokens, on a server that asks for one.

use super::case::{Case, Stage};

/// The right one.
pub(super) const TOKEN: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";

#[expect(clippy::too_many_lines, reason = "a flat list of cases")]
pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: &str, statuses: &[u16], head: String| {
        let case = Case::new("tokens", name, statuses, move |stage: &Stage| {
            stage.raw(format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{head}\r\n").as_bytes())
        });
        cases.push(case.may_close().right("nilometer_"));
    };
    case("none", &[401], String::new());
    case(
        "the right one",
        &[200],
        format!("Authorization: Bearer {TOKEN}\r\n"),
    );
    case(
        "the right one, cut",
        &[401],
        format!("Authorization: Bearer {}\r\n", &TOKEN[1..]),
    );
    case(
        "the right one, twice",
        &[401],
        format!("Authorization: Bearer {TOKEN}{TOKEN}\r\n"),
    );
    case(
        "the right one in capitals",
        &[401],
        format!("Authorization: Bearer {}\r\n", TOKEN.to_uppercase()),
    );
    case(
        "an empty one",
        &[401],
        "Authorization: Bearer \r\n".to_owned(),
    );
    case(
        "nothing but a scheme",
        &[401],
        "Authorization: Bearer\r\n".to_owned(),
    );
    case(
        "another scheme",
        &[401],
        format!("Authorization: Digest {TOKEN}\r\n"),
    );
    case(
        "no base64",
        &[401],
        "Authorization: Basic ?????\r\n".to_owned(),
    );
    case(
        "base64 of nothing",
        &[401],
        "Authorization: Basic \r\n".to_owned(),
    );
    case(
        "letters of another world",
        &[401, 400],
        "Authorization: Bearer \u{2603}\u{2603}\r\n".to_owned(),
    );
    for bytes in [20_000, 40_000, 1 << 20] {
        case(
            &format!("{bytes} bytes"),
            &[401, 431],
            format!("Authorization: Bearer {}\r\n", "a".repeat(bytes)),
        );
    }
    for (name, address) in [
        ("a wrong one in the address", "/metrics?p=wrong".to_owned()),
        (
            "a hundred in the address",
            format!("/metrics?{}", "p=wrong&".repeat(100)),
        ),
        (
            "20,000 bytes in the address",
            format!("/metrics?p={}", "a".repeat(20_000)),
        ),
        (
            "broken percents in the address",
            "/metrics?p=%ff%zz%".to_owned(),
        ),
    ] {
        cases.push(Case::new("tokens", name, &[401], move |stage: &Stage| {
            stage.raw(format!("GET {address} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
        }));
    }
    for path in [
        "/write?db=hostile",
        "/api/v2/write?bucket=hostile",
        "/api/v3/write_lp?db=hostile",
        "/api/v3/write_arrow?db=hostile&table=t",
        "/api/v3/query_sql",
        "/api/v3/accept_clock",
        "/nothing",
    ] {
        cases.push(Case::new(
            "tokens",
            format!("none for {path}"),
            &[401],
            move |stage: &Stage| stage.post(path, "", b"token v=1"),
        ));
    }
    cases
}
