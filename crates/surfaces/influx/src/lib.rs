//! The `InfluxDB` surface: what clients of its versions 1 and 2 write to and ask, in the words of version 1.
//!
//! Does: take line protocol at `/write` and `/api/v2/write`, answer InfluxQL at `/query`, and the addresses beside them that
//! clients know; say errors as those clients know them. Does not: listen for HTTP (`nilometer-http` does), or know InfluxQL (the
//! program hands the language to the service).
//!
//! Start at [`Influx`]. `write.rs` is for rows in, `query.rs` and `encode.rs` for rows out; [`Udp`] for lines in datagrams.

mod buckets;
mod encode;
mod predicate;
mod query;
mod status;
mod udp;
mod v2;
mod words;
mod write;

use std::sync::Arc;

use nilometer_http::{Http, Route, Routes};

pub use udp::{DATAGRAM_LINES_LOST, DATAGRAMS, Udp, UdpConfig};
use words::WORDS;

/// The routes of the `InfluxDB` surface.
#[derive(Debug, Default)]
pub struct Influx;

impl Routes for Influx {
    fn routes(&self, http: &Arc<Http>) -> Vec<Route> {
        let routes = [
            Route::new("/query").get(query::query).post(query::query),
            Route::new("/write").post(write::write_v1),
            Route::new("/ping").get(status::ping).open(),
            Route::new("/status").get(status::status).open(),
            Route::new("/debug/vars").get(status::debug_vars),
            Route::new("/api/v2/write").post(write::write_v2),
            Route::new("/api/v2/query").post(v2::query),
            Route::new("/api/v2/delete").post(v2::delete),
            Route::new("/api/v2/buckets")
                .get(buckets::list)
                .post(buckets::create),
            Route::new("/api/v2/buckets/{*bucket}")
                .get(buckets::retrieve)
                .patch(buckets::update)
                .delete(buckets::delete),
        ];
        let routes = routes.into_iter().map(|route| route.words(&WORDS));
        routes
            .map(|route| route.with_state(Arc::clone(http)))
            .collect()
    }
}
