//! Running queries, and the server's report of itself.

use nilometer_service::{Error as ServiceError, Set};

use super::duration::go_duration;
use crate::statements::context::Context;
use crate::statements::sets::Table;

const MS_NS: i64 = 1_000_000;

pub(super) fn queries(context: &Context) -> Vec<Set> {
    let running = context.statements.list();
    let duration =
        |ms: u64| go_duration(i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(MS_NS));
    let ids = running
        .iter()
        .map(|it| i64::try_from(it.id).unwrap_or(i64::MAX));
    let all = running.iter();
    let table = Table::default()
        .ints("qid", ids.collect())
        .texts("query", all.clone().map(|it| &it.text))
        .texts("database", all.clone().map(|it| &it.database))
        .texts("duration", all.clone().map(|it| duration(it.ms)))
        .texts("status", all.clone().map(|_| "running"))
        // Nobody has a name yet.
        .texts("user", all.map(|_| ""));
    vec![table.set()]
}

/// The statistics that there are here; those of a module that is not there are none.
pub(super) fn stats(context: &Context, module: Option<&str>) -> Result<Vec<Set>, ServiceError> {
    let metrics = context.engine.metrics();
    let snapshot = context.engine.snapshot();
    let int = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let mut sets = Vec::new();
    let is_wanted = |name: &str| module.is_none_or(|module| module.eq_ignore_ascii_case(name));
    if is_wanted("queryExecutor") {
        let active = context.statements.list().len() as u64;
        let table = Table::named("queryExecutor");
        sets.push(table.ints("queriesActive", vec![int(active)]).set());
    }
    if is_wanted("write") {
        let table = Table::named("write");
        sets.push(
            table
                .ints("pointReq", vec![int(metrics.rows_written)])
                .set(),
        );
    }
    if is_wanted("cq") {
        let runs = context.continuous.runs();
        let table = Table::named("cq").ints("queryFail", vec![int(runs.failed)]);
        sets.push(table.ints("queryOk", vec![int(runs.ok)]).set());
    }
    if is_wanted("database") {
        let (mut measurements, mut series, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for database in snapshot.databases() {
            let (mut tables, mut count) = (0, 0);
            for schema in snapshot.schemas(&database).unwrap_or_default() {
                for name in snapshot.tables(&database, &schema).unwrap_or_default() {
                    if let Some(table) = snapshot.table(&database, &schema, &name) {
                        tables += 1;
                        count += snapshot.series_count(&table, &[])?;
                    }
                }
            }
            names.push(database);
            measurements.push(tables);
            series.push(int(count));
        }
        let table = Table::named("database")
            .texts("database", names)
            .ints("numMeasurements", measurements)
            .ints("numSeries", series);
        sets.push(table.set());
    }
    Ok(sets)
}

pub(super) fn diagnostics(context: &Context, module: Option<&str>) -> Vec<Set> {
    let is_wanted = |name: &str| module.is_none_or(|module| module.eq_ignore_ascii_case(name));
    let mut sets = Vec::new();
    if is_wanted("build") {
        let table = Table::named("build")
            .texts("Branch", [""])
            .texts("Build Time", [""])
            .texts("Commit", [""])
            .texts("Version", [env!("CARGO_PKG_VERSION")]);
        sets.push(table.set());
    }
    if is_wanted("runtime") {
        let table = Table::named("runtime")
            .texts("ARCH", [std::env::consts::ARCH])
            .texts("OS", [std::env::consts::OS]);
        sets.push(table.set());
    }
    if is_wanted("system") {
        let table = Table::named("system")
            .ints("PID", vec![i64::from(std::process::id())])
            .times("currentTime", vec![context.engine.wall_ns()]);
        sets.push(table.set());
    }
    sets
}
