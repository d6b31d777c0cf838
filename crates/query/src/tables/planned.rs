//! Scans that are planned without waiting.
//!
//! Does: spell the signature of `TableProvider::scan` out for providers that have their answer at once. An `async fn` in its
//! place holds the filters in its future, and the compiler proves for each provider anew that the expressions and plans of
//! the library may go to another thread: five seconds a provider and compilation, as these types refer to each other.

use std::pin::Pin;
use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;

/// A scan that is being planned.
pub(crate) type Planned<'a> =
    Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'a>>;

/// `scan` of a provider by its method `plan_scan`, which takes projection, filters and limit and gives the plan as a result.
macro_rules! scan_at_once {
    () => {
        $crate::tables::planned::scan_by!(|provider, _session, projection, filters, limit| {
            Box::pin(std::future::ready(
                provider.plan_scan(projection, filters, limit),
            ))
        });
    };
}

/// `scan` of a provider by a closure that gives a [`Planned`]. What waits there must not hold expressions or plans.
macro_rules! scan_by {
    (|$provider:ident, $session:ident, $projection:ident, $filters:ident, $limit:ident| $body:expr) => {
        fn scan<'provider, 'session, 'projection, 'filters, 'all>(
            &'provider self,
            $session: &'session dyn datafusion::catalog::Session,
            $projection: Option<&'projection Vec<usize>>,
            $filters: &'filters [datafusion::logical_expr::Expr],
            $limit: Option<usize>,
        ) -> $crate::tables::planned::Planned<'all>
        where
            'provider: 'all,
            'session: 'all,
            'projection: 'all,
            'filters: 'all,
            Self: 'all,
        {
            let $provider = self;
            $body
        }
    };
}

pub(crate) use {scan_at_once, scan_by};
