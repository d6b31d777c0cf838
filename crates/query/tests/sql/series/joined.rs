//! Promise: statements over series and relations that are answered from the template of their shape say what they would say
//! afresh, whatever has become of the relation in between, and in a transaction what that has written.
//!
//! Counts are those of a model that goes over all rows; everything else is compared with the planner's answer without series.

use std::collections::BTreeMap;
use std::sync::Arc;

use nilometer_query::{Sql, SqlOptions};

use super::data::Dice;
use super::questions::Question;
use super::{Cell, ask, compare};
use crate::support::Store;

const STEPS: usize = if cfg!(debug_assertions) { 60 } else { 400 };
const STORES: u64 = if cfg!(debug_assertions) { 3 } else { 12 };

/// Values that hosts and fleets have, and some that none has. `0` and `00` are two texts.
const NAMES: [&str; 6] = ["a", "b", "it''s", "", "00", "nobody"];
const STARTS: [&str; 4] = [
    "2016-01-01 00:00:00 +0000",
    "2016-01-01 00:00:30.5 +0000",
    "2016-01-01 02:00:00 +0200",
    "2015-12-31T23:59:00Z",
];
const ENDS: [&str; 3] = [
    "2016-01-01 00:01:10 +0000",
    "2016-01-01 00:00:31 +0000",
    "2017-01-01",
];

/// Statements that the next of their shape is answered without a planner for.
///
/// None leaves open which row it says: hosts that share a name and a time once made `DISTINCT ON` fail here, now and then, although
/// both answers were right.
const KEPT: [&str; 11] = [
    "SELECT count(*) AS n FROM cpu WHERE tags_id IN (SELECT id FROM tags WHERE hostname IN (LIST)) AND time >= 'START' AND time < 'END'",
    "SELECT time_bucket('1 minute', time) AS minute, max(v) FROM cpu WHERE tags_id IN (SELECT id FROM tags WHERE hostname = 'NAME' AND fleet IS NOT NULL) GROUP BY minute ORDER BY minute",
    "SELECT * FROM cpu WHERE v > 30 AND time >= 'START' AND tags_id IN (SELECT id FROM tags WHERE fleet = 'NAME')",
    "SELECT t.hostname, t.fleet, r.* FROM tags t INNER JOIN LATERAL (SELECT v, note FROM cpu r WHERE r.tags_id = t.id ORDER BY time DESC LIMIT 1) r ON true WHERE t.hostname IN (LIST)",
    "SELECT t.hostname, d.v FROM tags t INNER JOIN LATERAL (SELECT v FROM cpu d WHERE d.tags_id = t.id ORDER BY time DESC LIMIT 1) d ON true WHERE t.hostname IS NOT NULL AND d.v / t.capacity > 0.2 AND t.fleet = 'NAME'",
    "SELECT DISTINCT ON (t.hostname) * FROM tags t INNER JOIN LATERAL (SELECT * FROM cpu c WHERE c.tags_id = t.id ORDER BY time DESC LIMIT 1) AS b ON true ORDER BY t.hostname, b.time DESC, t.id",
    "SELECT t.fleet, count(*), avg(r.v) FROM tags t INNER JOIN cpu r ON r.tags_id = t.id WHERE time >= 'START' AND time < 'END' AND t.hostname IS NOT NULL AND t.fleet = 'NAME' GROUP BY t.fleet HAVING avg(r.v) < 90",
    "WITH q AS (SELECT time_bucket('1 minute', time) AS minute, tags_id, avg(v) AS mean FROM cpu WHERE time >= 'START' AND time < 'END' GROUP BY 1, 2) SELECT minute, tags.hostname, mean FROM q JOIN tags ON q.tags_id = tags.id ORDER BY minute, tags.hostname",
    "WITH s AS (SELECT tags_id, time_bucket('10 seconds', time) AS t, avg(v) > 40 AS is_high FROM cpu WHERE time < 'END' GROUP BY tags_id, t) SELECT g.hostname, count(*) FROM tags g JOIN (SELECT tags_id, is_high, lead(is_high) OVER (PARTITION BY tags_id ORDER BY t) AS later FROM s) x ON g.id = x.tags_id WHERE g.fleet = 'NAME' AND x.is_high = false AND x.later = true GROUP BY g.hostname",
    "SELECT t.fleet, y.hour, sum(y.n) / 4 AS part FROM tags t INNER JOIN (SELECT time_bucket('1 hour', time) AS hour, time_bucket('10 seconds', time) AS seconds, tags_id, count(*) AS n FROM cpu WHERE time >= 'START' GROUP BY hour, seconds, tags_id HAVING avg(v) < 60) y ON y.tags_id = t.id WHERE t.hostname IS NOT NULL GROUP BY t.fleet, y.hour ORDER BY y.hour",
    "SELECT id, fleet FROM tags WHERE hostname IN (LIST) AND capacity IS NOT NULL",
];

/// Statements that are planned each time, for whose values the plan may be another.
const PLANNED: [&str; 5] = [
    "SELECT count(*) AS n FROM cpu WHERE tags_id NOT IN (SELECT id FROM tags WHERE hostname = 'NAME')",
    "SELECT count(*) AS n FROM cpu WHERE tags_id IN (SELECT id FROM tags WHERE hostname = 'NAME' AND fleet = 'NAME')",
    "SELECT count(*) AS n, 'NAME' AS name FROM cpu WHERE tags_id IN (SELECT id FROM tags WHERE hostname = 'NAME')",
    "SELECT count(*) AS n FROM cpu WHERE tags_id IN (SELECT id FROM tags WHERE hostname < 'NAME')",
    // What such an aggregate holds is charged to one statement.
    "SELECT g.hostname, sum(x.v) OVER (PARTITION BY g.fleet) AS total FROM tags g JOIN (SELECT tags_id, last(v, time) AS v FROM cpu GROUP BY tags_id) x ON g.id = x.tags_id WHERE g.hostname = 'NAME'",
];

/// A host of the relation, and how many rows a series has at which seconds.
#[derive(Default, Clone)]
struct Model {
    hosts: BTreeMap<i64, Option<String>>,
    rows: Vec<(i64, i64)>,
}

impl Model {
    /// Rows of the hosts with one of these names, from one second to another.
    fn count(&self, names: &[&str], seconds: std::ops::Range<f64>) -> usize {
        let is_named = |id: &i64| {
            let host = self.hosts.get(id).and_then(Option::as_deref);
            host.is_some_and(|host| names.contains(&host))
        };
        let rows = self.rows.iter();
        rows.filter(|(id, second)| seconds.contains(&(*second as f64)) && is_named(id))
            .count()
    }
}

fn text(value: Option<&str>) -> String {
    value.map_or("NULL".to_owned(), |value| format!("'{value}'"))
}

/// What is done to the store, and to the model.
async fn change(dice: &mut Dice, sql: &Sql, model: &mut Model) {
    let id = dice.below(6) as i64 + 1;
    let name = dice
        .one_in(5)
        .then_some(())
        .map_or(Some(dice.one(&NAMES[..5])), |()| None);
    let own = name.map(|name| name.replace("''", "'"));
    let fleet = dice
        .one_in(4)
        .then_some(())
        .map_or(Some(dice.one(&NAMES[..3])), |()| None);
    let statement = match dice.below(5) {
        0 => {
            model.hosts.remove(&id);
            format!("DELETE FROM tags WHERE id = {id}")
        }
        1 => {
            if let Some(host) = model.hosts.get_mut(&id) {
                host.clone_from(&own);
            }
            format!("UPDATE tags SET hostname = {} WHERE id = {id}", text(name))
        }
        2 => {
            let second = dice.below(90) as i64;
            if model.rows.contains(&(id, second)) {
                return;
            }
            model.rows.push((id, second));
            let (minute, rest) = (second / 60, second % 60);
            let note = if dice.one_in(3) { "'noted'" } else { "NULL" };
            format!(
                "INSERT INTO cpu VALUES ('2016-01-01 00:{minute:02}:{rest:02}+00', {id}, {}, {note})",
                dice.below(100)
            )
        }
        _ => {
            model.hosts.insert(id, own);
            format!(
                "INSERT INTO tags VALUES ({id}, {}, {}, 100.0) ON CONFLICT (id) DO UPDATE SET hostname = excluded.hostname, fleet = excluded.fleet",
                text(name),
                text(fleet)
            )
        }
    };
    let done = sql.query("d", &statement).await;
    done.unwrap_or_else(|error| panic!("{statement}: {error}"));
}

async fn store() -> Store {
    let store = Store::that_compacts();
    for statement in [
        "CREATE TABLE tags (id INTEGER PRIMARY KEY, hostname TEXT, fleet TEXT, capacity DOUBLE PRECISION)",
        "CREATE TABLE cpu (time TIMESTAMPTZ, tags_id INTEGER, v DOUBLE PRECISION, note TEXT) \
         WITH (tsdb.hypertable, tsdb.partition_column = 'time', tsdb.segmentby = 'tags_id')",
    ] {
        store.batches(statement).await.unwrap();
    }
    store
}

/// Asks one statement with series and without, and returns the number that the first says.
async fn asked(sqls: [&Sql; 2], statement: &str, what: &str) -> Option<usize> {
    let question = Question {
        statements: [String::new(), String::new()],
        is_ordered: false,
        is_grouped: true,
        off: 1e-9,
    };
    let found = ask(sqls[0], statement).await;
    let number = found
        .as_ref()
        .ok()
        .and_then(|found| match found.rows.as_slice() {
            [row] => match row.as_slice() {
                [Cell::Other(text)] => text.parse().ok(),
                _ => None,
            },
            _ => None,
        });
    compare(
        &format!("{what}\n{statement}"),
        &question,
        found,
        ask(sqls[1], statement).await,
    );
    number
}

fn seconds_of(start: &str, end: &str) -> std::ops::Range<f64> {
    let from = match start {
        "2016-01-01 00:00:30.5 +0000" => 30.5,
        "2015-12-31T23:59:00Z" => -60.0,
        // Of an hour that is two before.
        _ => 0.0,
    };
    let to = match end {
        "2016-01-01 00:01:10 +0000" => 70.0,
        "2016-01-01 00:00:31 +0000" => 31.0,
        _ => f64::INFINITY,
    };
    from..to
}

async fn check(seed: u64) {
    let mut dice = Dice::new(seed);
    let store = store().await;
    let engine = &store.engine;
    let sql = Sql::new(Arc::clone(engine), SqlOptions::default()).unwrap();
    let plain = Sql::without_series(Arc::clone(engine), SqlOptions::default()).unwrap();
    let mut model = Model::default();
    let mut transaction = None;
    let mut before = model.clone();
    let (mut inside, mut plain_inside) = (sql.clone(), plain.clone());
    for step in 0..STEPS {
        match (&transaction, dice.below(8)) {
            (None, 0) => {
                let begun = engine.begin().unwrap();
                (inside, plain_inside) = (sql.within(&begun), plain.within(&begun));
                before = model.clone();
                transaction = Some(begun);
            }
            (Some(_), 1) => {
                if let Some(begun) = transaction.take() {
                    begun.rollback();
                }
                model = before.clone();
                (inside, plain_inside) = (sql.clone(), plain.clone());
            }
            (None, 2) => store.compact(),
            _ => change(&mut dice, &inside, &mut model).await,
        }
        let what = format!(
            "seed {seed}, step {step}, in a transaction: {}",
            transaction.is_some()
        );
        let sqls = [&inside, &plain_inside];
        let names: Vec<&str> = match dice.below(3) {
            0 => vec![dice.one(&NAMES)],
            1 => NAMES[..5].to_vec(),
            _ => vec!["b", "nobody"],
        };
        let list: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        let (start, end) = (dice.one(&STARTS), dice.one(&ENDS));
        let filled = |form: &str, name: &str| {
            let filled = form.replace("LIST", &list.join(", ")).replace("NAME", name);
            filled.replace("START", start).replace("END", end)
        };
        let own: Vec<String> = names.iter().map(|name| name.replace("''", "'")).collect();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let counted = asked(sqls, &filled(KEPT[0], ""), &what).await;
        let wanted = model.count(&own, seconds_of(start, end));
        assert_eq!(counted, Some(wanted), "{what} {names:?} {start} {end}");
        for _ in 0..3 {
            let form = if dice.one_in(4) {
                dice.one(&PLANNED)
            } else {
                dice.one(&KEPT)
            };
            let name = dice.one(&NAMES[1..]);
            asked(sqls, &filled(form, name), &what).await;
        }
    }
}

#[tokio::test]
async fn statements_over_relations_are_answered_as_afresh_whatever_became_of_these() {
    for seed in 1..=STORES {
        check(seed).await;
    }
}

/// Each of them was planned by all rules whenever it was asked, for longer than it took to answer.
#[tokio::test]
async fn statements_over_relations_have_a_template_each() {
    let store = store().await;
    let sql = Sql::new(Arc::clone(&store.engine), SqlOptions::default()).unwrap();
    let fill = |form: &str, name: &str| {
        let filled = form
            .replace("LIST", &format!("'{name}'"))
            .replace("NAME", name);
        filled.replace("START", STARTS[0]).replace("END", ENDS[0])
    };
    for (before, form) in KEPT.iter().enumerate() {
        for name in ["a", "b"] {
            ask(&sql, &fill(form, name)).await.unwrap();
            assert_eq!(sql.templates(), before + 1, "{form}");
        }
    }
    for form in PLANNED {
        ask(&sql, &fill(form, "a")).await.unwrap();
        assert_eq!(sql.templates(), KEPT.len(), "{form}");
    }
    // A relation of the same name is another one.
    let count = "SELECT id, fleet FROM tags WHERE hostname IN ('a') AND capacity IS NOT NULL";
    for statement in [
        "DROP TABLE tags",
        "CREATE TABLE tags (fleet TEXT, capacity REAL, id INTEGER PRIMARY KEY, hostname TEXT)",
        "INSERT INTO tags VALUES ('South', 7, 3, 'a')",
    ] {
        sql.query("d", statement).await.unwrap();
    }
    let found = ask(&sql, count).await.unwrap();
    let wanted = ["3", "South"].map(|text| Cell::Other(text.to_owned()));
    assert_eq!(found.rows, [wanted.to_vec()]);
}
