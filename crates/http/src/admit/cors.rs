//! Cross-origin requests: the pages of other servers that a browser may call this one from.
//!
//! Does: hold the list of origins, answer a browser's question before the request (the preflight), say with every answer
//! that the page may read it, and tell requests of pages that may not call: a browser sends those that need no preflight, a
//! form among them, without asking, and only hides the answer. Does not: keep other programs out, which say of themselves
//! what they like; the token does. Cookies are not used, so no credentials are allowed.

use std::str::FromStr;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::admit::hosts::authorities;

/// What a page may send beside what every page may.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Accept, Content-Type, Content-Encoding, Idempotency-Key, X-Request-Id",
);

/// What a page may read of an answer beside what every page may.
const ANSWER_HEADERS: HeaderValue = HeaderValue::from_static(
    "X-Request-Id, Request-Id, Retry-After, Idempotency-Replayed, X-Influxdb-Error, X-Influxdb-Version, X-Nilometer-Version",
);

const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST");

/// Seconds for which a browser need not ask again; a changed list counts after that long.
const ASK_AGAIN_S: HeaderValue = HeaderValue::from_static("600");

/// Sent when a page that is on a public address asks for one that is not, as a console on this machine is.
const PRIVATE_NETWORK: HeaderName =
    HeaderName::from_static("access-control-request-private-network");
const PRIVATE_NETWORK_ALLOWED: HeaderName =
    HeaderName::from_static("access-control-allow-private-network");

/// Origins whose pages may call; none unless said otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    any: bool,
    listed: Vec<HeaderValue>,
}

/// Why a text is no list of origins.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{origin:?} is no origin; write scheme, host and, if it is not the usual one, port, as in https://grafana.example.org or http://localhost:3000, with commas between several, or * for every page"
)]
pub struct NotAnOrigin {
    origin: String,
}

impl FromStr for Origins {
    type Err = NotAnOrigin;

    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        let mut origins = Self::default();
        for origin in text.split(',').map(str::trim) {
            let refused = || NotAnOrigin {
                origin: origin.to_owned(),
            };
            match origin {
                "" => {}
                "*" => origins.any = true,
                _ => origins.listed.push(listed(origin).ok_or_else(refused)?),
            }
        }
        Ok(origins)
    }
}

/// An origin as browsers send it: in small letters, without a path, and without the port that the scheme has anyway.
fn listed(origin: &str) -> Option<HeaderValue> {
    let origin = origin.strip_suffix('/').unwrap_or(origin);
    let (place, port) = place_of(origin)?;
    let scheme = if port == ":80" { "http" } else { "https" };
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if place.is_empty() || !place.bytes().all(is_part) {
        return None;
    }
    HeaderValue::try_from(format!("{scheme}://{place}")).ok()
}

/// What a browser is told about the page that asks.
#[derive(Debug, Clone)]
pub(crate) struct Allowed {
    origin: HeaderValue,
    /// The answer is another one for another origin, which caches must know.
    varies: bool,
}

impl Origins {
    /// Whether a request comes from a page that may call; `None` = from none, or from one that may not.
    pub(crate) fn allowed(&self, headers: &HeaderMap) -> Option<Allowed> {
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let origin = origins.next()?;
        // No browser sends two, and an answer can name one only.
        if origins.any(|other| other != origin) {
            return None;
        }
        if self.any {
            return Some(Allowed {
                origin: HeaderValue::from_static("*"),
                varies: false,
            });
        }
        self.listed.contains(origin).then(|| Allowed {
            origin: origin.clone(),
            varies: true,
        })
    }
}

/// Headers that browsers add by themselves, and that no page can change.
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

impl Origins {
    /// The page of another server that a request comes from, unless it may call; `None` = it comes from none, or may.
    pub(crate) fn stranger(&self, head: &Parts) -> Option<String> {
        if self.any {
            return None;
        }
        let says = |name, value: &str| head.headers.get(name).is_some_and(|it| it == value);
        if !head.headers.contains_key(header::ORIGIN) {
            // Images, scripts and the like come without an origin. A link that somebody follows is no call of a page.
            let is_call = says(SEC_FETCH_SITE, "cross-site") && !says(SEC_FETCH_MODE, "navigate");
            return is_call.then(|| "another site".to_owned());
        }
        // Whoever sends several is of each of them: which one a proxy before this server looked at is not known here.
        let mut origins = head.headers.get_all(header::ORIGIN).iter();
        let foreign = origins.find(|it| !self.listed.contains(it) && !is_own(it, head))?;
        Some(String::from_utf8_lossy(foreign.as_bytes()).into_owned())
    }
}

/// Whether a request may only read, whatever its route does: HEAD by its meaning, and a link on a page of another server,
/// which a browser follows, or a picture on a page of another port, which it loads, without asking anybody. Who has an origin
/// was admitted by it.
pub fn may_only_read(head: &Parts) -> bool {
    if head.method == Method::HEAD {
        return true;
    }
    let site = head.headers.get(SEC_FETCH_SITE);
    let is_own = site.is_none_or(|site| site == "same-origin" || site == "none");
    !is_own && !head.headers.contains_key(header::ORIGIN)
}

/// Whether an origin is this server itself.
fn is_own(origin: &HeaderValue, head: &Parts) -> bool {
    let place = origin.to_str().ok().and_then(place_of);
    let Some((own, port)) = place else {
        return false;
    };
    let is_it = |host: &str| host.strip_suffix(port).unwrap_or(host) == own;
    authorities(head).any(|host| is_it(&host.to_ascii_lowercase()))
}

/// Host and port of an origin without the port that its scheme has anyway, and that port. A proxy may have taken TLS off, so
/// the scheme itself says nothing.
fn place_of(origin: &str) -> Option<(String, &'static str)> {
    let origin = origin.to_ascii_lowercase();
    let (scheme, place) = origin.split_once("://")?;
    let usual = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return None,
    };
    let place = place.strip_suffix(usual).unwrap_or(place);
    Some((place.to_owned(), usual))
}

impl Allowed {
    /// Says in an answer, whatever it is, that the page may read it.
    pub(crate) fn tell(self, headers: &mut HeaderMap) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
        if self.varies {
            headers.append(header::VARY, HeaderValue::from_static("Origin"));
        }
    }
}

/// The answer to a browser that asks for an allowed page before it sends the request; `None` = this is the request.
pub(crate) fn preflight(head: &Parts) -> Option<Response> {
    let asks = head
        .headers
        .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    if head.method != Method::OPTIONS || !asks {
        return None;
    }
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, ASK_AGAIN_S);
    if head.headers.contains_key(PRIVATE_NETWORK) {
        headers.insert(PRIVATE_NETWORK_ALLOWED, HeaderValue::from_static("true"));
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_compared_as_browsers_write_them() {
        let origins: Origins =
            "https://Grafana.example.org/, http://localhost:3000,http://[::1]:80"
                .parse()
                .unwrap();
        for (sent, is_allowed) in [
            ("https://grafana.example.org", true),
            ("http://localhost:3000", true),
            ("http://[::1]", true),
            ("http://grafana.example.org", false),
            ("https://grafana.example.org.evil.org", false),
            ("https://example.org", false),
            ("http://localhost", false),
            ("null", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ORIGIN, sent.parse().unwrap())]);
            assert_eq!(origins.allowed(&headers).is_some(), is_allowed, "{sent}");
        }
        assert!(origins.allowed(&HeaderMap::new()).is_none());
    }

    #[test]
    fn a_page_of_this_server_is_no_stranger_and_every_other_is() {
        let origins: Origins = "https://grafana.example.org".parse().unwrap();
        let stranger = |headers: &[(&str, &str)]| {
            let mut request = axum::http::Request::post("/write");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            origins.stranger(&head).is_some()
        };
        let host = ("host", "db.example.org:8086");
        for origin in [
            "null",
            "https://evil.example.org",
            "http://db.example.org",
            "http://db.example.org:8087",
            "http://db.example.org:8086.evil.example.org",
            "https://grafana.example.org:8443",
            "chrome-extension://abcdef",
            "",
        ] {
            assert!(stranger(&[host, ("origin", origin)]), "{origin}");
        }
        for origin in [
            "https://grafana.example.org",
            "http://db.example.org:8086",
            "https://DB.example.org:8086",
        ] {
            assert!(!stranger(&[host, ("origin", origin)]), "{origin}");
        }
        for host in ["db.example.org", "db.example.org:443"] {
            let headers = [("host", host), ("origin", "https://db.example.org")];
            assert!(!stranger(&headers), "{host}");
        }
        // Each of several counts, in whichever order they come.
        let (own, evil) = ("http://db.example.org:8086", "https://evil.example.org");
        assert!(stranger(&[host, ("origin", own), ("origin", evil)]));
        assert!(stranger(&[host, ("origin", evil), ("origin", own)]));
        assert!(!stranger(&[host, ("origin", own), ("origin", own)]));
        // What a browser says of a request without an origin.
        let site = |site| ("sec-fetch-site", site);
        let mode = |mode| ("sec-fetch-mode", mode);
        assert!(stranger(&[host, site("cross-site"), mode("no-cors")]));
        assert!(stranger(&[host, site("cross-site")]));
        assert!(!stranger(&[host, site("cross-site"), mode("navigate")]));
        assert!(!stranger(&[host, site("same-origin"), mode("cors")]));
        assert!(!stranger(&[host]));
    }

    #[test]
    fn what_is_no_origin_is_named() {
        for (text, named) in [
            ("grafana.example.org", "grafana.example.org"),
            ("https://a,ftp://b", "ftp://b"),
            ("https://a/path", "https://a/path"),
            ("https://", "https://"),
            ("https://*.example.org", "https://*.example.org"),
        ] {
            let error = text.parse::<Origins>().unwrap_err();
            assert_eq!(error.origin, named);
        }
        assert_eq!("".parse(), Ok(Origins::default()));
    }
}
