//! Deeds as requests to `/write`, `/api/v2/write` and `/query`.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use super::store::{Lines, Policy};
use super::{Deed, How};
use crate::influxql;
use crate::plan::Encoding;
use crate::request;

impl Deed {
    /// The request, to a database.
    pub(crate) fn request(&self, database: &str, how: How) -> Request<Body> {
        if let Self::Write(lines) = self {
            return lines.request(database);
        }
        let (text, host) = self.text(database, how.params);
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("db", database).append_pair("q", &text);
        form.append_pair("epoch", "s");
        if let Some(host) = host {
            form.append_pair("params", &json!({ "h": host }).to_string());
        }
        if let Some(rows) = how.chunk_rows {
            form.append_pair("chunked", "true");
            form.append_pair("chunk_size", &rows.to_string());
        }
        let form = form.finish();
        if self.is_change() || how.posts {
            let kind = "application/x-www-form-urlencoded";
            let request = Request::post("/query").header("content-type", kind);
            return influxql::whole(request, form);
        }
        influxql::whole(Request::get(format!("/query?{form}")), Body::empty())
    }
}

impl Lines {
    fn request(&self, database: &str) -> Request<Body> {
        let policy = self.policy.map_or("", Policy::name);
        let path = match (self.is_v2, policy) {
            (true, "") => format!("/api/v2/write?bucket={database}&precision=s"),
            (true, policy) => format!("/api/v2/write?bucket={database}/{policy}&precision=s"),
            (false, "") => format!("/write?db={database}&precision=s"),
            (false, policy) => format!("/write?db={database}&rp={policy}&precision=s"),
        };
        let encoding = if self.is_gzip {
            Encoding::Gzip
        } else {
            Encoding::Identity
        };
        let body = request::compressed(self.body().into_bytes(), encoding);
        let request = Request::post(path);
        let request = match request::name_of_encoding(encoding) {
            Some(name) => request.header("content-encoding", name),
            None => request,
        };
        influxql::whole(request, body)
    }
}
