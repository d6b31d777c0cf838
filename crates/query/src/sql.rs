//! The entry point: one statement, one snapshot, one result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::execution::TaskContext;
use datafusion::execution::context::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::{
    ExecutionPlan, SendableRecordBatchStream, displayable, execute_stream,
};
use datafusion::prelude::SessionConfig;
use futures::FutureExt;
use nilometer_engine::{DEFAULT_SCHEMA, Engine};
use nilometer_service::define::Change;
use nilometer_service::{Running, Statements, executor};
use tokio_util::sync::CancellationToken;

use crate::Params;
use crate::SqlOptions;
use crate::answer::Answer;
use crate::error::Error;
use crate::function;
use crate::limits::attempt::Attempt;
use crate::limits::batch_size;
use crate::limits::cooperate::cooperate;
use crate::limits::memory::pool;
use crate::limits::room;
use crate::limits::scope::{Scope, follow_tasks};
use crate::operators::aggregate::AggregateFromStatistics;
use crate::operators::window;
use crate::planning::few_rows::ThreadsByRows;
use crate::planning::narrow::NarrowScans;
use crate::planning::plain;
use crate::planning::plain::is_plain;
use crate::planning::plan::{explain_by_text, plan_as_asked, read_times, reads_information_schema};
use crate::planning::planner;
use crate::planning::templates::{Shape, Templates};
use crate::semantics::zone::Zone;
use crate::statement::name::NameScope;
use crate::statement::{self, Bounds, Question, Show, Statement, WrittenChange};
use crate::tables::catalogue::ReadContext;
use crate::tables::describe;
use crate::write::{self, Writing};

/// SQL over an engine. Cheap to share and to clone; each statement is on its own.
#[derive(Clone)]
pub struct Sql {
    shared: Arc<Shared>,
    read_only: bool,
    caller: CancellationToken,
    zone: Zone,
}

/// What all statements have in common.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: SqlOptions,
    /// Functions, rules and settings for plain queries; what differs between statements is put into a copy.
    pub(crate) session: SessionState,
    /// The same with all rules.
    all_rules: SessionState,
    runtime: Arc<RuntimeEnv>,
    pub(crate) statements: Arc<Statements>,
    pub(crate) templates: Templates,
}

impl std::fmt::Debug for Sql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sql")
            .field("options", &self.shared.options)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl Sql {
    /// Prepares what all statements have in common, for a program that has no other language.
    pub fn new(engine: Arc<Engine>, options: SqlOptions) -> Result<Self, Error> {
        let statements = Statements::new(&options, engine.budget());
        Self::among(Arc::new(statements), engine, options)
    }

    /// Prepares what all statements have in common. Those of other languages that were given the same list are shown and
    /// ended here too, and share the memory for queries.
    pub fn among(
        statements: Arc<Statements>,
        engine: Arc<Engine>,
        options: SqlOptions,
    ) -> Result<Self, Error> {
        follow_tasks();
        let runtime = RuntimeEnvBuilder::new()
            // A query over its memory ends with an error; it does not fill a disk that writes need.
            .with_disk_manager_builder(
                DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
            )
            .build_arc()?;
        let session = session(&options, &runtime, false)?;
        let all_rules = self::session(&options, &runtime, true)?;
        let read_only = options.read_only;
        Ok(Self {
            shared: Arc::new(Shared {
                templates: Templates::new(engine.budget()),
                engine,
                options,
                session,
                all_rules,
                runtime,
                statements,
            }),
            read_only,
            caller: CancellationToken::new(),
            zone: Zone::default(),
        })
    }

    /// The same for who may only read: what changes something is an error.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self {
            read_only: true,
            ..self.clone()
        }
    }

    /// The same for who may change their mind: a statement ends with [`Error::Cancelled`] soon after the token is
    /// cancelled, also where its answer is being waited for. A change that is on its way to the disk goes on.
    #[must_use]
    pub fn cancelled_by(&self, caller: &CancellationToken) -> Self {
        Self {
            caller: caller.clone(),
            ..self.clone()
        }
    }

    /// The same in another time zone than UTC, by its name (`Europe/Berlin`) or as an offset (`+02:00`): times that are
    /// text without an offset are read in it. Times that are answered say when they are, as ever.
    pub fn in_zone(&self, zone: &str) -> Result<Self, Error> {
        Ok(Self {
            zone: Zone::of(zone)?,
            ..self.clone()
        })
    }

    /// The name of the time zone that times without an offset are in.
    pub fn time_zone(&self) -> &str {
        self.zone.name()
    }

    pub(crate) fn zone(&self) -> &Zone {
        &self.zone
    }

    /// Carries out a statement without parameters; see [`Self::query_with`].
    pub async fn query(&self, database: &str, sql: &str) -> Result<Answer, Error> {
        self.query_with(database, sql, &Params::new()).await
    }

    /// Carries out a statement. A query is planned on the newest snapshot and starts to run; what writes is durable when
    /// this returns, and answers how many rows it wrote. `database` is where names without one are looked up; others are
    /// reached as `database.schema.table`.
    pub async fn query_with(
        &self,
        database: &str,
        sql: &str,
        params: &Params,
    ) -> Result<Answer, Error> {
        let done = AssertUnwindSafe(Box::pin(self.carry_out(database, sql, params)));
        let done = done.catch_unwind().await;
        done.unwrap_or_else(|panic| Err(Error::of_panic(panic.as_ref())))
    }

    async fn carry_out(&self, database: &str, sql: &str, params: &Params) -> Result<Answer, Error> {
        let shared = &self.shared;
        let bounds = Bounds::of(&shared.options);
        let tokens = statement::tokens(sql, bounds)?;
        // Values that come beside a statement stand in no token, and templates read their times in UTC.
        let is_like_others = params.is_empty() && self.zone.is_utc();
        let shape = is_like_others.then(|| Shape::of(&tokens)).flatten();
        if let Some(shape) = &shape
            && let Some(answer) = Box::pin(self.by_template(database, sql, shape)).await?
        {
            return Ok(answer);
        }
        let statement = statement::parse_tokens(tokens, sql, bounds, params)?;
        if self.read_only && statement.writes() {
            return Err(Error::ReadOnly);
        }
        let running = self.start(database, sql);
        if statement.needs_memory() {
            running.begin().await?;
        }
        let reading = self.reading();
        let place = place_of(&reading, database, &statement)?;
        match statement {
            // Boxed, because what waits for one of these would else be as large as the largest of them.
            Statement::Query(question) => {
                Box::pin(self.read(&reading, &place, *question, shape.as_ref(), running)).await
            }
            Statement::Insert(insert) => {
                let writing = self.writing(reading, place, running);
                Ok(self.written(Box::pin(write::insert(writing, *insert)).await?))
            }
            Statement::Update(update) => {
                let writing = self.writing(reading, place, running);
                Ok(self.written(Box::pin(write::update(writing, *update)).await?))
            }
            Statement::Delete(delete) => {
                let writing = self.writing(reading, place, running);
                Ok(self.written(Box::pin(write::delete(writing, *delete)).await?))
            }
            Statement::Show(show) => Box::pin(self.show(&reading, &place, show, running)).await,
            Statement::Change(change) => {
                Box::pin(self.change(&reading, place, change)).await?;
                Ok(Answer::of_rows(0, running, &shared.options))
            }
            Statement::Kill(id) => {
                if shared.statements.kill(id) {
                    Ok(Answer::of_rows(0, running, &shared.options))
                } else {
                    Err(Error::UnknownName {
                        what: "running query",
                        name: id.to_string(),
                        nearest: None,
                        position: None,
                    })
                }
            }
        }
    }

    /// Counts a statement among those that run.
    fn start(&self, database: &str, sql: &str) -> Running {
        let statements = &self.shared.statements;
        statements.start(database, sql, &self.caller)
    }

    /// The newest snapshot.
    pub(crate) fn reading(&self) -> ReadContext {
        ReadContext::new(&self.shared, self.zone.clone())
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    pub(crate) fn options(&self) -> &SqlOptions {
        &self.shared.options
    }

    fn writing(&self, reading: ReadContext, place: NameScope, running: Running) -> Writing<'_> {
        Writing {
            sql: self,
            reading,
            place,
            running,
        }
    }

    fn written(&self, (rows, writing): (u64, Writing<'_>)) -> Answer {
        Answer::of_rows(rows, writing.running, &self.shared.options)
    }

    async fn read(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        question: Question,
        shape: Option<&Shape>,
        running: Running,
    ) -> Result<Answer, Error> {
        let Question {
            statement,
            headings,
        } = question;
        let session = reading.session(place);
        let asked = plan_as_asked(reading, &session, place, &statement).await?;
        let plan = read_times(asked.clone(), &self.zone, &statement)?;
        let headings = headings.of(asked.schema());
        let placed = |error: Error| explain_by_text(error, &statement);
        let batches = match shape {
            Some(shape) if is_plain(&plan)? => {
                let optimized = session.optimize(&plan).map_err(|it| placed(it.into()))?;
                let templates = &self.shared.templates;
                templates.learn(place, shape, &asked, &optimized, headings.as_ref());
                let lists_functions = reads_information_schema(&plan)?;
                let planner = session.query_planner();
                let physical = planner.create_physical_plan(&optimized, &session).await?;
                self.execute(&session, physical, lists_functions, &running)?
            }
            _ => self.run(&session, &plan, &running).await.map_err(placed)?,
        };
        let answer = Answer::new(batches, running, &self.shared.options);
        Ok(answer.headed(headings.as_ref()))
    }

    /// The answer of a query whose shape has a template. Without one, and where anything is wrong, the whole way says what.
    async fn by_template(
        &self,
        database: &str,
        sql: &str,
        shape: &Shape,
    ) -> Result<Option<Answer>, Error> {
        let shared = &self.shared;
        let reading = self.reading();
        let Some(schema) = reading.snapshot.default_schema(database) else {
            return Ok(None);
        };
        let place = NameScope {
            database: database.to_owned(),
            schema,
        };
        let Some((plan, headings)) = shared.templates.plan(&reading, &place, shape) else {
            return Ok(None);
        };
        let running = self.start(database, sql);
        running.begin().await?;
        let session = &shared.session;
        let planned = session.query_planner().create_physical_plan(&plan, session);
        let Ok(plan) = planned.await else {
            return Ok(None);
        };
        let batches = self.execute(session, plan, false, &running)?;
        let answer = Answer::new(batches, running, &shared.options);
        Ok(Some(answer.headed(headings.as_ref())))
    }

    /// Starts a plan in the memory of a running statement.
    pub(crate) async fn run(
        &self,
        session: &SessionState,
        plan: &LogicalPlan,
        running: &Running,
    ) -> Result<SendableRecordBatchStream, Error> {
        let memory = pool(running);
        let lists_functions = reads_information_schema(plan)?;
        let plan = if is_plain(plan)? {
            session.create_physical_plan(plan).await?
        } else {
            let charged = window::charge(plan.clone(), &memory)?;
            self.with_all_rules(session)
                .create_physical_plan(&charged)
                .await?
        };
        self.execute(session, plan, lists_functions, running)
    }

    fn execute(
        &self,
        session: &SessionState,
        plan: Arc<dyn ExecutionPlan>,
        lists_functions: bool,
        running: &Running,
    ) -> Result<SendableRecordBatchStream, Error> {
        let scope = Scope::of(running);
        let plan = room::hold(plan)?;
        let default = session.config().batch_size();
        let rows = batch_size::batch_rows(&plan, default)?;
        let runtime = RuntimeEnvBuilder::from_runtime_env(&self.shared.runtime)
            .with_memory_pool(pool(running))
            .build_arc()?;
        if lists_functions {
            let plan = cooperate(batch_size::with_rows(plan, rows, default)?, &scope)?;
            let config = session.config().clone().with_batch_size(rows);
            let task = TaskContext::from(session)
                .with_session_config(config)
                .with_runtime(runtime);
            return Ok(scope.run(|| execute_stream(plan, Arc::new(task)))?);
        }
        let attempt = Attempt {
            plan,
            rows,
            session_id: session.session_id().to_owned(),
            config: session.config().clone(),
            runtime,
            scope,
        };
        attempt.start()
    }

    /// The same session for a query that is not plain: at the same time, with all rules.
    fn with_all_rules(&self, session: &SessionState) -> SessionState {
        let mut all = self.shared.all_rules.clone();
        *all.execution_props_mut() = session.execution_props().clone();
        all
    }

    /// How a plain query is planned, how it would be with all rules, and how from the template of its shape, of which it
    /// makes one if there is none and it can be; `None` = it is not plain. For tests.
    #[doc(hidden)]
    pub async fn plans(&self, database: &str, sql: &str) -> Result<Option<[String; 3]>, Error> {
        let bounds = Bounds::of(&self.shared.options);
        let tokens = statement::tokens(sql, bounds)?;
        let shape = Shape::of(&tokens);
        let statement = statement::parse_tokens(tokens, sql, bounds, &Params::new())?;
        let reading = self.reading();
        let place = place_of(&reading, database, &statement)?;
        let Statement::Query(question) = statement else {
            return Ok(None);
        };
        let session = reading.session(&place);
        let statement = question.statement;
        let asked = plan_as_asked(&reading, &session, &place, &statement).await?;
        let plan = read_times(asked.clone(), &self.zone, &statement)?;
        if !is_plain(&plan)? {
            return Ok(None);
        }
        let all = self.with_all_rules(&session);
        let shown =
            |plan: Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(false).to_string();
        let fewer = shown(session.create_physical_plan(&plan).await?);
        let all = shown(all.create_physical_plan(&plan).await?);
        let mut by_template = fewer.clone();
        if let Some(shape) = shape {
            let templates = &self.shared.templates;
            let mut bound = templates.plan(&reading, &place, &shape);
            if bound.is_none() {
                templates.learn(&place, &shape, &asked, &session.optimize(&plan)?, None);
                bound = templates.plan(&reading, &place, &shape);
            }
            if let Some((bound, _)) = bound {
                let session = &self.shared.session;
                let planner = session.query_planner();
                by_template = shown(planner.create_physical_plan(&bound, session).await?);
            }
        }
        Ok(Some([fewer, all, by_template]))
    }

    /// Number of templates. For tests.
    #[doc(hidden)]
    pub fn templates(&self) -> usize {
        self.shared.templates.len()
    }

    async fn show(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        show: Show,
        running: Running,
    ) -> Result<Answer, Error> {
        let options = &self.shared.options;
        describe::check(reading, place, &show)?;
        if let Some(query) = show.query(place, self.zone.name())? {
            let statement = statement::parse(&query, Bounds::of(options), &Params::new())?;
            // Names of the system's schema mean the same everywhere, but a database must be there to look them up in.
            let mut place = place.clone();
            if reading.snapshot.schemas(&place.database).is_none() {
                match reading.snapshot.databases().into_iter().next() {
                    Some(any) => place.database = any,
                    None => {
                        return Ok(Answer::of_batch(describe::no_databases(), running, options));
                    }
                }
            }
            return match statement {
                Statement::Query(question) => {
                    self.read(reading, &place, *question, None, running).await
                }
                _ => Err(Error::internal("what shows something is a query")),
            };
        }
        let batch = match show {
            Show::Columns { table } => {
                let name = table.table(place)?;
                describe::columns(reading, &name).await?
            }
            Show::Create { table } => describe::create(reading, &table.table(place)?)?,
            _ => return Err(Error::internal("nothing to show")),
        };
        Ok(Answer::of_batch(batch, running, options))
    }

    async fn change(
        &self,
        reading: &ReadContext,
        place: NameScope,
        written: WrittenChange,
    ) -> Result<(), Error> {
        if let Some((name, query)) = write::change::new_view(&place, &written)? {
            describe::check_view(reading, &name, query).await?;
        }
        let engine = Arc::clone(&self.shared.engine);
        blocking(move || write::change::run(&engine, place, written)).await
    }
}

/// Where names without a place are looked up. What concerns whole databases needs none.
fn place_of(
    reading: &ReadContext,
    database: &str,
    statement: &Statement,
) -> Result<NameScope, Error> {
    let schema = reading.snapshot.default_schema(database);
    let of_databases = matches!(
        statement,
        Statement::Change(WrittenChange {
            change: Change::CreateDatabase { .. }
                | Change::DropDatabase { .. }
                | Change::RenameDatabase { .. },
            ..
        }) | Statement::Show(Show::Databases { .. })
            | Statement::Kill(_)
    );
    if schema.is_none() && !of_databases {
        return Err(nilometer_engine::Error::UnknownDatabase {
            name: database.to_owned(),
        }
        .into());
    }
    Ok(NameScope {
        database: database.to_owned(),
        schema: schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned()),
    })
}

/// Does what waits for the disk where waiting is allowed. It goes on to its end even if nobody waits for it any more.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match executor::block(work).await {
        Ok(done) => done,
        Err(stopped) => Err(Error::internal(stopped.to_string())),
    }
}

/// What all statements plan with.
fn session(
    options: &SqlOptions,
    runtime: &Arc<RuntimeEnv>,
    all_rules: bool,
) -> Result<SessionState, Error> {
    let mut config = config(options);
    let mut rules = physical_rules();
    if !all_rules {
        config.options_mut().optimizer.max_passes = plain::PASSES;
        rules = plain::physical_rules(rules);
    }
    let rules = ThreadsByRows::new(rules, config.options());
    let session = SessionStateBuilder::new()
        .with_default_features()
        // What a function of functions makes is bounded by nothing.
        .with_higher_order_functions(Vec::new())
        .with_config(config)
        .with_runtime_env(Arc::clone(runtime))
        .with_physical_optimizer_rules(vec![Arc::new(rules)]);
    let mut session = planner::extend(session, options);
    session = session.with_optimizer_rules(if all_rules {
        planner::logical_rules()
    } else {
        plain::logical_rules()
    });
    let mut session = session.build();
    function::register(&mut session)?;
    Ok(session)
}

/// Rules that hand conditions down by the names of their columns: below a join that puts out few of its columns they take
/// one side's for the other's (`DataFusion` 55.2). What they are for are scans that take conditions while a query runs,
/// and none of ours does.
const PUSHED_BY_NAME: [&str; 2] = ["FilterPushdown", "FilterPushdown(Post)"];

/// The planner's rules, and first ours: what it recognises is plainest before others have changed it.
fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> =
        vec![Arc::new(AggregateFromStatistics), Arc::new(NarrowScans)];
    rules.extend(PhysicalOptimizer::new().rules);
    rules.retain(|rule| !PUSHED_BY_NAME.contains(&rule.name()));
    rules
}

fn config(options: &SqlOptions) -> SessionConfig {
    let mut config = SessionConfig::new()
        .with_target_partitions(options.threads.max(1))
        .with_information_schema(true)
        .with_create_default_catalog_and_schema(false);
    let settings = config.options_mut();
    settings.execution.time_zone = Some("UTC".to_owned());
    settings.sql_parser.dialect = datafusion::config::Dialect::Generic;
    settings.sql_parser.collect_spans = true;
    // A scan has as many partitions as its rows are worth; dealing a small one out to more threads only costs.
    settings.optimizer.enable_round_robin_repartition = false;
    // It refuses what is right: a grouped `b IS FALSE` is never NULL, and the operator for it does not know.
    settings.execution.skip_physical_aggregate_schema_check = true;
    // One text type everywhere: comparing tags with literals then needs no casts.
    settings.sql_parser.map_string_types_to_utf8view = false;
    config
}
