//! Conditions on tags: what the scan takes over means what SQL says, absent tags and NULL included.

use crate::support::Store;

/// Two hosts and a point without the tag `host`.
fn store() -> Store {
    let store = Store::new();
    store.write("m,host=a v=1i 1\nm,host=b v=2i 2\nm v=3i 3\nm,host=a,rack=x v=4i 4");
    store
}

#[tokio::test]
async fn conditions_on_an_absent_tag_follow_sqls_three_values() {
    let store = store();
    for (condition, expected) in [
        ("host = 'a'", "1 4"),
        ("'a' = host", "1 4"),
        ("host <> 'a'", "2"),
        ("host IN ('a', 'b')", "1 2 4"),
        ("host IN ('a', NULL)", "1 4"),
        ("host NOT IN ('a')", "2"),
        ("host NOT IN ('a', 'b')", ""),
        ("host NOT IN ('a', NULL)", ""),
        ("host IS NULL", "3"),
        ("host IS NOT NULL", "1 2 4"),
        ("host = NULL", ""),
        ("NOT (host = 'a')", "2"),
        ("host = 'a' AND rack IS NULL", "1"),
        ("host = 'a' AND rack = 'x'", "4"),
        ("host = 'a' OR rack = 'x'", "1 4"),
        ("host = 'a' OR host IS NULL", "1 3 4"),
        ("host = 'nobody'", ""),
        ("host <> 'nobody'", "1 2 4"),
        ("host = ''", ""),
        ("host = 'a' AND host = 'b'", ""),
        ("host LIKE 'a%'", "1 4"),
        ("host > 'a'", "2"),
        ("CAST(host AS VARCHAR) = 'b'", "2"),
    ] {
        let found = store
            .set(&format!("SELECT v FROM m WHERE {condition}"))
            .await
            .join(" ");
        let plan = store
            .rows(&format!("EXPLAIN SELECT v FROM m WHERE {condition}"))
            .await
            .join("\n");
        assert_eq!(found, expected, "{condition}: {plan}");
    }
}

#[tokio::test]
async fn equality_of_tags_is_the_scans_own_work_and_needs_no_filter_above_it() {
    let store = store();
    for condition in [
        "host = 'a'",
        "host <> 'a'",
        "host IN ('a', 'b')",
        "host NOT IN ('a', 'b')",
        "host IS NULL",
    ] {
        let plan = store
            .rows(&format!("EXPLAIN SELECT v FROM m WHERE {condition}"))
            .await
            .join("\n");
        let is_series_query = plan.contains("SeriesExec: from d.public.m; tags ");
        assert!(is_series_query, "{condition}: {plan}");
        assert!(plan.contains("host "), "{condition}: {plan}");
        assert!(!plan.contains("FilterExec"), "{condition}: {plan}");
    }
}

#[tokio::test]
async fn tags_group_and_join_by_value_and_an_absent_tag_is_a_group_of_its_own() {
    let store = store();
    let groups = store
        .rows("SELECT host, sum(v) FROM m GROUP BY host ORDER BY host NULLS FIRST")
        .await;
    assert_eq!(groups, ["-|3", "a|5", "b|2"]);
    let joined = store
        .set("SELECT x.v, y.v FROM m x JOIN m y ON x.host = y.host WHERE x.v < y.v")
        .await;
    assert_eq!(joined, ["1|4"]);
}

#[tokio::test]
async fn a_filter_on_a_field_is_not_mistaken_for_one_on_a_tag_of_the_same_name() {
    let store = Store::new();
    store.write("m,kind=a kind=1i 1\nm,kind=b kind=2i 2");
    assert_eq!(
        store
            .rows("SELECT kind, kind_1 FROM m WHERE kind_1 = 2")
            .await,
        ["b|2"]
    );
    assert_eq!(
        store
            .rows("SELECT kind, kind_1 FROM m WHERE kind = 'a'")
            .await,
        ["a|1"]
    );
}
