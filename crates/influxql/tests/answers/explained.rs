//! Promise: EXPLAIN shows what is read: conditions on tags, ranges and buckets go down to the series query.

use nilometer_influxql_syntax::ast::Statement;
use nilometer_influxql_syntax::{Params, parse};

use crate::store::Store;

#[test]
fn a_plan_shows_expressions_and_series_queries() {
    let store = Store::new(b"cpu,host=a v=1,n=2i 10\ncpu,host=b v=2 20");
    let text = "SELECT max(x) FROM (SELECT mean(v) AS x FROM cpu WHERE host = 'a' AND n > 1 GROUP BY time(1m), host) WHERE time >= 0 AND time < 60s";
    let Statement::Select(select) = &parse(text, &Params::default()).unwrap()[0] else {
        panic!("a SELECT")
    };
    let lines = store.explain(select);
    for wanted in [
        "EXPRESSION: max(x::float)",
        "SUBQUERY:",
        "    EXPRESSION: mean(v::float)",
        "        from db.public.cpu",
        "        time 1970-01-01T00:00:00Z .. 1970-01-01T00:01:00Z",
        "        tags host = 'a'",
        "        rows n > 1",
        "        group by host, bucket 1m",
    ] {
        assert!(
            lines.iter().any(|line| line == wanted),
            "{wanted:?} is not in\n{}",
            lines.join("\n")
        );
    }
}
