//! Which queries are planned with fewer rules. That their plans are those of all rules is checked for each query of these
//! tests, wherever it is asked (`Store::answer`).

use crate::support::Store;

#[tokio::test]
async fn what_dashboards_ask_is_planned_with_few_rules_and_what_needs_more_with_all() {
    let store = Store::new();
    store.write("cpu,hostname=host_1,region=eu usage_user=1i,usage_system=2i 1451606400000000000");
    let within = "time >= '2016-01-01T00:00:00Z' AND time < '2016-01-01T01:00:00Z'";
    for sql in [
        &format!(
            "SELECT time_bucket('1 minute', time) AS minute, max(usage_user) FROM cpu WHERE hostname IN ('host_1', 'host_2') AND {within} GROUP BY minute ORDER BY minute"
        ),
        &format!(
            "SELECT time_bucket('1 hour', time) AS hour, hostname, avg(usage_user) FROM cpu WHERE {within} GROUP BY hour, hostname ORDER BY hour"
        ),
        &format!("SELECT * FROM cpu WHERE usage_user > 90.0 AND hostname = 'host_1' AND {within}"),
        "SELECT time_bucket('1 minute', time) AS minute, max(usage_user) FROM cpu WHERE time < '2016-01-01T01:00:00Z' GROUP BY minute ORDER BY minute DESC LIMIT 5",
        "SELECT c.hostname, last(c.usage_user, c.time) FROM cpu c GROUP BY c.hostname",
        "SELECT * FROM cpu WHERE hostname = 'host_1' ORDER BY time DESC LIMIT 1",
        "SELECT table_name FROM information_schema.tables",
        "EXPLAIN SELECT count(*) FROM cpu WHERE usage_user BETWEEN 1 AND 5",
    ] {
        assert!(store.is_plain(sql).await, "{sql}");
        store.batches(sql).await.unwrap();
    }
    for sql in [
        "SELECT a.usage_user FROM cpu a JOIN cpu b ON a.time = b.time",
        "SELECT usage_user FROM cpu WHERE time = (SELECT max(time) FROM cpu)",
        "SELECT usage_user FROM cpu UNION ALL SELECT usage_system FROM cpu",
        "SELECT m FROM (SELECT max(usage_user) AS m FROM cpu GROUP BY hostname) q WHERE m > 1",
        "SELECT sum(usage_user) OVER (ORDER BY time) FROM cpu",
        "SELECT hostname, max(usage_user) AS m FROM cpu GROUP BY hostname HAVING max(usage_user) > 1",
        "SELECT DISTINCT hostname FROM cpu",
        "SELECT usage_user FROM cpu WHERE hostname = 'host_1' LIMIT 3",
        "SELECT usage_user FROM cpu WHERE 1 < usage_user",
        "SELECT usage_user FROM cpu WHERE true",
        "SELECT usage_user FROM cpu WHERE usage_user IN (1, usage_system, NULL)",
        "SELECT usage_user FROM cpu WHERE hostname IN ('host_1', 'host_2', 'host_1')",
    ] {
        assert!(!store.is_plain(sql).await, "{sql}");
        store.batches(sql).await.unwrap();
    }
}
