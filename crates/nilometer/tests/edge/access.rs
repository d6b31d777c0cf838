//! Promise: with a secret only a device that signs with its own key is heard, and without one the route asks for the login of the
//! others.

use std::sync::Arc;

use nilometer_edge::EdgeConfig;
use nilometer_service::{DeviceSecret, RevokedKeys, ServiceOptions, Token};

use crate::support::{Answer, Flash, Server, image_rows, small, stored};

const SECRET: &str = "0123456789abcdef";

fn guarded() -> Server {
    Server::with(EdgeConfig {
        secret: Some(DeviceSecret::new(SECRET, "the test").unwrap()),
        ..EdgeConfig::default()
    })
}

/// Signatures of the third page of the small image (its sequence is 3) for device `dev`, store 1, after 0. They are those of
/// `openssl dgst -sha256`: the key is that of `printf dev` under the secret, and what is signed begins with
/// `nilometer-edge-1\nedge\ndev\n1\n0\n7:1700000000000\n`.
const SIGNATURE: &str = "1056189723dfe65c946dff443f2fffb7c96471875c8bdd0c0fdae2dea84ddcfc";

/// The same for an empty body and no `after`.
const SIGNATURE_OF_NOTHING: &str =
    "7ce41fbe4fef459173a5596124f080780766402bcafcf56c167b15c237f1d5a7";

async fn push(server: &Server, path: &str, signature: Option<&str>, body: &[u8]) -> Answer {
    let header = signature.map(|it| ("X-Nilometer-Signature", it));
    let headers: Vec<(&str, &str)> = header.into_iter().collect();
    server.send("POST", path, &headers, body.to_vec()).await
}

#[tokio::test]
async fn a_device_that_signs_as_another_program_does_is_let_in() {
    let server = guarded();
    let page = small().remove(2);
    let path = Flash::of_image("dev", 1).path();
    let answer = push(&server, &path, Some(SIGNATURE_OF_NOTHING), &[]).await;
    assert_eq!(answer.progress(), (200, 0), "{}", answer.text);
    let path = format!("{path}&after=0");
    let answer = push(&server, &path, Some(SIGNATURE), &page).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    let rows = stored(&server, "dev").await;
    assert_eq!(rows, image_rows()[140 - rows.len()..]);
    // Replayed, it changes nothing.
    let answer = push(&server, &path, Some(SIGNATURE), &page).await;
    assert_eq!(answer.number("repeated"), 1, "{}", answer.text);
}

#[tokio::test]
async fn nothing_that_is_signed_can_be_changed() {
    let server = guarded();
    let page = small().remove(2);
    let right = "/api/edge/v1/pages?db=edge&device=dev&store=1&clock=7:1700000000000&after=0";
    for (from, to) in [
        ("db=edge", "db=edge2"),
        ("device=dev", "device=dev2"),
        ("store=1", "store=2"),
        ("after=0", "after=00"),
        ("&after=0", ""),
        ("clock=7:1700000000000", "clock=7:1700000000001"),
        ("&clock=7:1700000000000", ""),
    ] {
        let path = right.replacen(from, to, 1);
        assert_ne!(path, right);
        let answer = push(&server, &path, Some(SIGNATURE), &page).await;
        assert_eq!(answer.status, 401, "{to}: {}", answer.text);
    }
    for at in 0..page.len() {
        let mut changed = page.clone();
        changed[at] ^= 1;
        let answer = push(&server, right, Some(SIGNATURE), &changed).await;
        assert_eq!(answer.status, 401, "byte {at}: {}", answer.text);
    }
    for at in 0..SIGNATURE.len() {
        let other = if &SIGNATURE[at..=at] == "0" { "1" } else { "0" };
        let mut wrong = SIGNATURE.to_owned();
        wrong.replace_range(at..=at, other);
        let answer = push(&server, right, Some(&wrong), &page).await;
        assert_eq!(answer.status, 401, "{wrong}");
    }
    for wrong in [
        None,
        Some(""),
        Some("0"),
        Some(SIGNATURE_OF_NOTHING),
        Some(SECRET),
    ] {
        let answer = push(&server, right, wrong, &page).await;
        assert_eq!(answer.status, 401, "{wrong:?}");
        assert!(!answer.text.contains(SECRET) && !answer.text.contains(SIGNATURE));
    }
    let answer = push(&server, right, Some(SIGNATURE), &page).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
}

#[tokio::test]
async fn a_key_opens_the_databases_that_are_listed_and_no_other_route() {
    let page = small().remove(2);
    let server = Server::with(EdgeConfig {
        secret: Some(DeviceSecret::new(SECRET, "the test").unwrap()),
        databases: vec!["elsewhere".to_owned()],
        ..EdgeConfig::default()
    });
    let path = format!("{}&after=0", Flash::of_image("dev", 1).path());
    let answer = push(&server, &path, Some(SIGNATURE), &page).await;
    assert_eq!(answer.status, 403, "{}", answer.text);
    assert!(answer.text.contains("edge-databases"), "{}", answer.text);

    let options = ServiceOptions {
        token: Some(Token::new("planted-secret-7f3a9c", "the test").unwrap()),
        ..ServiceOptions::default()
    };
    let config = EdgeConfig {
        secret: Some(DeviceSecret::new(SECRET, "the test").unwrap()),
        ..EdgeConfig::default()
    };
    let server = Server::at(&Arc::default(), config, options);
    // The device needs no token, and the token is no signature.
    let answer = push(&server, &path, Some(SIGNATURE), &page).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
    let bearer = [("Authorization", "Bearer planted-secret-7f3a9c")];
    let answer = server.send("POST", &path, &bearer, page.clone()).await;
    assert_eq!(answer.status, 401, "{}", answer.text);
    let signed = [("X-Nilometer-Signature", SIGNATURE)];
    let query = "/query?db=edge&q=SHOW%20MEASUREMENTS";
    assert_eq!(server.send("GET", query, &signed, "").await.status, 401);
}

/// The same page signed with other keys of the device, by `hmac` of Python: those that are derived from `nilometer-edge-key\n`, the number,
/// `\n`, the database or nothing, `\ndev`.
const BY_SECOND: &str = "4a05f6c8acd71e3d12c507a2961022261221105107374ec30cbd0436fbbc2ff2";
const BY_EDGE: &str = "a2e3c14d63370b557e78edd484f1a42ac8fc554b0c41c68c71235de50cf26ce8";
const BY_SECOND_OF_EDGE: &str = "aa35cc80d333d12f9963b270d10eeecd8d5d7d94a2a29a2efc055142e72873b5";
const BY_OTHER: &str = "dc3a29edbe8d39822a083800b1f58f5cb6b7deb0ad2698a683367172d24cb4e6";

#[tokio::test]
async fn a_key_of_a_database_opens_that_one_and_a_revoked_key_none() {
    let page = small().remove(2);
    let path = format!("{}&after=0", Flash::of_image("dev", 1).path());
    let server = |list: &str| {
        Server::with(EdgeConfig {
            secret: Some(DeviceSecret::new(SECRET, "the test").unwrap()),
            revoked: RevokedKeys::parse(list, "the test").unwrap(),
            ..EdgeConfig::default()
        })
    };
    let all = [SIGNATURE, BY_EDGE, BY_SECOND, BY_SECOND_OF_EDGE, BY_OTHER];
    for (list, right) in [
        ("", &[SIGNATURE, BY_EDGE][..]),
        ("another\n", &[SIGNATURE, BY_EDGE]),
        ("1\tdev\n", &[BY_SECOND, BY_SECOND_OF_EDGE]),
        ("2\tdev\n", &[]),
        ("dev\n", &[]),
    ] {
        let server = server(list);
        for signature in all {
            let answer = push(&server, &path, Some(signature), &page).await;
            let status = if right.contains(&signature) { 200 } else { 401 };
            assert_eq!(
                answer.status, status,
                "{list:?} {signature}: {}",
                answer.text
            );
            assert!(
                status == 200 || answer.text.contains("edge-revoked-file"),
                "{}",
                answer.text
            );
        }
        let rows = stored(&server, "dev").await;
        assert_eq!(rows.is_empty(), right.is_empty(), "{list:?}");
    }
}

#[tokio::test]
async fn without_a_secret_the_route_asks_for_what_the_others_ask_for() {
    let options = ServiceOptions {
        token: Some(Token::new("planted-secret-7f3a9c", "the test").unwrap()),
        ..ServiceOptions::default()
    };
    let server = Server::at(&Arc::default(), EdgeConfig::default(), options);
    let page = small().remove(2);
    let path = format!("{}&after=0", Flash::of_image("dev", 1).path());
    let answer = push(&server, &path, Some(SIGNATURE), &page).await;
    assert_eq!(answer.status, 401, "{}", answer.text);
    let bearer = [("Authorization", "Bearer planted-secret-7f3a9c")];
    let answer = server.send("POST", &path, &bearer, page).await;
    assert_eq!(answer.progress(), (200, 3), "{}", answer.text);
}
