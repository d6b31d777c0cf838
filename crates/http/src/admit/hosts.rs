//! Allowed host names of a server without a token.
//!
//! A server on a loopback address asks nobody for a token: who can reach it sits at the same machine. A page in a browser
//! on that machine can reach it too, under a name of the page's server that was made to point to 127.0.0.1 after the page
//! was loaded; then browser and page are of one origin, and only the name in `Host` says that something is wrong.
//!
//! Does: hold the list of names, compare, say what is no name at all. Does not: look names up, or know who asks.

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use axum::http::header;
use axum::http::request::Parts;

/// Names beside those of this machine itself; none unless said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    any: bool,
    listed: Vec<String>,
}

/// Why a text is no list of names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{host:?} is no name of a host; write it without scheme and port, as in db.example.org, nilometer or 192.0.2.7, with commas between several, or * for every name"
)]
pub struct NotAHost {
    host: String,
}

impl FromStr for Hosts {
    type Err = NotAHost;

    fn from_str(text: &str) -> Result<Self, NotAHost> {
        let mut hosts = Self::default();
        for host in text.split(',').map(str::trim) {
            let refused = || NotAHost {
                host: host.to_owned(),
            };
            match host {
                "" => {}
                "*" => hosts.any = true,
                _ => hosts.listed.push(listed(host).ok_or_else(refused)?),
            }
        }
        Ok(hosts)
    }
}

/// A name or an address as it is compared.
fn listed(host: &str) -> Option<String> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_name = host.bytes().all(is_part);
    is_name.then(|| host.trim_end_matches('.').to_ascii_lowercase())
}

impl Hosts {
    /// Whether somebody has said under which names the server is asked.
    pub(crate) fn is_empty(&self) -> bool {
        !self.any && self.listed.is_empty()
    }

    /// A name in the request that is neither this machine's own nor listed; `None` = there is none. Who sends no name at
    /// all is no browser.
    pub(crate) fn stranger(&self, head: &Parts) -> Option<String> {
        if self.any {
            return None;
        }
        authorities(head)
            .map(name_of)
            .find(|name| !is_loopback(name) && !self.listed.contains(name))
    }
}

/// Every place in which a request names the server.
pub(crate) fn authorities(head: &Parts) -> impl Iterator<Item = &str> {
    let values = head.headers.get_all(header::HOST).iter();
    // What is no text is no name of this server either.
    let values = values.map(|value| value.to_str().unwrap_or("?"));
    let target = head.uri.authority().map(axum::http::uri::Authority::as_str);
    target.into_iter().chain(values)
}

/// What is wrong with the way in which a request names the server; HTTP wants such requests answered with 400, so that no
/// two readers of one request take it for different servers'. `None` = nothing.
pub(crate) fn malformed(head: &Parts) -> Option<String> {
    let lines = head.headers.get_all(header::HOST).iter().count();
    if lines > 1 {
        return Some(format!("the request has {lines} Host headers; send one"));
    }
    let wrong = authorities(head).find(|authority| !is_authority(authority))?;
    Some(format!(
        "the Host {wrong:?} is no name of a server; send a name or an address, and after a colon the port if it is not the usual one, as in localhost:8086"
    ))
}

/// Whether a text is a name or an address, with or without a port. An empty one is what a client sends that knows none.
fn is_authority(text: &str) -> bool {
    let is_port = |port: &str| {
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        digits && (port.is_empty() || port.parse::<u16>().is_ok())
    };
    if let Some(rest) = text.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else {
            return false;
        };
        let port = port.strip_prefix(':').or(port.is_empty().then_some(""));
        return address.parse::<Ipv6Addr>().is_ok() && port.is_some_and(is_port);
    }
    let (name, port) = text.split_once(':').unwrap_or((text, ""));
    let may_stand = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte);
    name.bytes().all(may_stand) && is_port(port) && (!name.is_empty() || text.is_empty())
}

/// The name in a name with or without a port, as it is compared.
fn name_of(authority: &str) -> String {
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    match host.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => host.trim_end_matches('.').to_ascii_lowercase(),
    }
}

fn is_loopback(name: &str) -> bool {
    match name.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => name == "localhost" || name.ends_with(".localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn stranger(hosts: &str, host: &str) -> Option<String> {
        let request = Request::get("/write").header(header::HOST, host);
        let (head, ()) = request.body(()).unwrap().into_parts();
        hosts.parse::<Hosts>().unwrap().stranger(&head)
    }

    #[test]
    fn this_machine_is_known_by_every_name_it_has_by_itself_and_by_those_that_are_listed() {
        for host in [
            "localhost",
            "localhost:8086",
            "LocalHost.",
            "db.localhost:1",
            "127.0.0.1:8086",
            "127.8.8.8",
            "[::1]:8086",
            "[::ffff:127.0.0.1]:8086",
        ] {
            assert_eq!(stranger("", host), None, "{host}");
        }
        for host in [
            "evil.example.org:8086",
            "localhost.evil.example.org",
            "notlocalhost",
            "127.0.0.1.example.org",
            "192.0.2.7",
            "0.0.0.0:8086",
            "[2001:db8::1]:8086",
            "",
        ] {
            assert!(stranger("", host).is_some(), "{host}");
            assert!(stranger("db,192.0.2.8", host).is_some(), "{host}");
            assert_eq!(stranger("*", host), None, "{host}");
        }
        let listed = "Db.example.org, nilometer,192.0.2.7,[2001:db8::1]";
        for host in [
            "db.example.org:8086",
            "DB.example.org.",
            "nilometer:8086",
            "192.0.2.7:8086",
            "[2001:db8:0::1]:8086",
        ] {
            assert_eq!(stranger(listed, host), None, "{host}");
        }
        assert_eq!(
            stranger(listed, "x.db.example.org:8086"),
            Some("x.db.example.org".to_owned())
        );
    }

    #[test]
    fn every_place_that_names_the_server_counts_and_none_is_fine() {
        let hosts = Hosts::default();
        let of = |uri: &str, values: &[&str]| {
            let mut request = Request::get(uri);
            for value in values {
                request = request.header(header::HOST, *value);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            hosts.stranger(&head).is_some()
        };
        assert!(!of("/ping", &[]));
        assert!(of("http://evil.example.org/ping", &["localhost"]));
        assert!(of("/ping", &["localhost", "evil.example.org"]));
    }

    /// `Host: localhost:abc` and two hosts in one request were taken, by a reader that cut the one and chose from the other.
    #[test]
    fn what_names_no_server_or_two_is_malformed() {
        let of = |values: &[&[u8]]| {
            let mut request = Request::get("/ping");
            for value in values {
                request = request.header(header::HOST, *value);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            malformed(&head)
        };
        for host in [
            "localhost",
            "localhost:8086",
            "localhost:",
            "db_1.example.org.:65535",
            "192.0.2.7:8086",
            "[::1]",
            "[::1]:8086",
            "",
        ] {
            assert_eq!(of(&[host.as_bytes()]), None, "{host}");
        }
        for host in [
            &b"localhost:abc"[..],
            b"localhost:80 86",
            b"localhost:+80",
            b"localhost:65536",
            b"localhost:1:2",
            b"::1",
            b"[::1",
            b"[::1]8086",
            b"[localhost]",
            b":8086",
            b"a b",
            b"user@localhost",
            b"localhost/x",
            b"http://localhost",
            b"b\xfccher.example.org",
        ] {
            assert!(of(&[host]).is_some(), "{host:?}");
        }
        assert_eq!(of(&[]), None);
        assert!(
            of(&[b"localhost", b"localhost"])
                .unwrap()
                .contains("2 Host")
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["http://db", "db:8086", "a b", "db,x/y", "*.example.org"] {
            assert!(text.parse::<Hosts>().is_err(), "{text}");
        }
        assert_eq!("".parse(), Ok(Hosts::default()));
    }
}
