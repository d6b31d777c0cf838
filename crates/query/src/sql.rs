//! The entry point: one statement, one snapshot, one result.

mod acquisition;
mod aggregate;
mod analyzed;
mod call;
mod change;
mod described;
mod explained;
mod filled;
mod role;
mod routine;
mod session;
mod show;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::execution::context::SessionState;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use futures::FutureExt;
use nilometer_engine::{DEFAULT_SCHEMA, Engine, Transaction};
use nilometer_service::define::{self, Change};
use nilometer_service::{
    Client, LanguageContext, Laps, Principal, Running, Threads, TimedStep, Timings, elsewhere,
};
use tokio_util::sync::CancellationToken;

use crate::Params;
use crate::SqlOptions;
use crate::answer::Answer;
use crate::error::Error;
use crate::execution::Queries;
use crate::limits::memory::pool;
use crate::limits::plan_time;
use crate::limits::scope::{Scope, follow_tasks};
use crate::operators::series;
use crate::planning::query_planner::{BoundTemplate, PhysicalQuery, QueryPlanner};
use crate::planning::recognise::NoSeries;
use crate::planning::recognised::BoundSeries;
use crate::planning::templates::{Bound, Shape};
use crate::semantics::zone::Zone;
use crate::shared::{Shared, StoreState};
use crate::statement::brief;
use crate::statement::headings::Names;
use crate::statement::name::{NameScope, TableName};
use crate::statement::rewrite::acquisition::asks_acquisition;
use crate::statement::{self, Bounds, Question, Show, Statement, WrittenChange};
use crate::tables::catalogue::ReadContext;
use crate::tables::relation;
use crate::write::{self, Returning, Writer, Writing};
use session::session;

/// For a program that has no service: its own runtime does the work.
fn alone(engine: Arc<Engine>, options: SqlOptions) -> LanguageContext {
    LanguageContext::new(engine, Threads::of_caller(), options)
}

/// SQL over an engine. Cheap to share and to clone; each statement is on its own.
#[derive(Clone)]
pub struct Sql {
    queries: Arc<Queries>,
    read_only: bool,
    caller: CancellationToken,
    zone: Zone,
    principal: Principal,
    /// Who has logged in. Statements of an administrator run as those of anybody, which costs no look at the users.
    asker: Option<Principal>,
    /// Where names without a schema are looked up; `None` = in the database's default one.
    schema: Option<String>,
    client: Option<Arc<Client>>,
    /// What statements are part of.
    transaction: Option<Arc<Transaction>>,
    timings: Option<Arc<Timings>>,
    uses_aggregates: bool,
}

impl std::fmt::Debug for Sql {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sql")
            .field("options", self.options())
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl Sql {
    /// Prepares what all statements have in common, for a program that has no other language.
    pub fn new(engine: Arc<Engine>, options: SqlOptions) -> Result<Self, Error> {
        Self::among(&alone(engine, options))
    }

    /// Prepares what all statements have in common, for a service that has other languages too.
    pub fn among(context: &LanguageContext) -> Result<Self, Error> {
        Self::with_series(context.clone(), true)
    }

    /// The same without series queries. For tests, which compare the answers.
    #[doc(hidden)]
    pub fn without_series(engine: Arc<Engine>, options: SqlOptions) -> Result<Self, Error> {
        Self::with_series(alone(engine, options), false)
    }

    fn with_series(context: LanguageContext, has_series: bool) -> Result<Self, Error> {
        let LanguageContext {
            engine,
            statements,
            executor,
            options,
            acquisitions,
            jobs,
        } = context;
        define::register_policies(&jobs);
        follow_tasks();
        let runtime = RuntimeEnvBuilder::new()
            // A query over its memory ends with an error; it does not fill a disk that writes need.
            .with_disk_manager_builder(
                DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
            )
            .build_arc()?;
        let mut session = session(&options, &runtime, false)?;
        let mut all_rules = self::session(&options, &runtime, true)?;
        if !has_series {
            session.config_mut().set_extension(Arc::new(NoSeries));
            all_rules.config_mut().set_extension(Arc::new(NoSeries));
        }
        let read_only = options.read_only;
        let planner = QueryPlanner::new(all_rules, engine.budget());
        let waited = (acquisitions, jobs);
        let shared = Shared::new(engine, options, session, statements, executor, waited);
        let shared = Arc::new(shared);
        let queries = Arc::new(Queries::new(shared, planner, runtime));
        aggregate::refresh_job::register(&queries);
        routine::register(&queries);
        Ok(Self {
            queries,
            read_only,
            caller: CancellationToken::new(),
            zone: Zone::default(),
            principal: Principal::anyone(),
            asker: None,
            schema: None,
            client: None,
            transaction: None,
            timings: None,
            uses_aggregates: true,
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

    /// The same without stored answers of continuous aggregates in place of raw rows, where a query names the raw table.
    #[must_use]
    pub fn without_aggregates(&self) -> Self {
        Self {
            uses_aggregates: false,
            ..self.clone()
        }
    }

    /// The same for somebody with privileges of their own.
    #[must_use]
    pub fn asked_by(&self, principal: &Principal) -> Self {
        Self {
            principal: principal.clone(),
            ..self.clone()
        }
    }

    /// The same for somebody who has logged in, whatever their privileges are.
    #[must_use]
    pub(crate) fn of_asker(&self, asker: &Principal) -> Self {
        Self {
            asker: Some(asker.clone()),
            ..self.clone()
        }
    }

    /// Who has logged in.
    fn asker(&self) -> &Principal {
        self.asker.as_ref().unwrap_or(&self.principal)
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

    /// The same for who looks names without a schema up in this one.
    #[must_use]
    pub fn in_schema(&self, schema: &str) -> Self {
        Self {
            schema: Some(schema.to_owned()),
            ..self.clone()
        }
    }

    /// The same for who keeps a connection.
    #[must_use]
    pub fn of_client(&self, client: &Arc<Client>) -> Self {
        Self {
            client: Some(Arc::clone(client)),
            ..self.clone()
        }
    }

    /// The same as part of a transaction: statements see what it has written, and what they write is its own until its end.
    #[must_use]
    pub fn within(&self, transaction: &Arc<Transaction>) -> Self {
        Self {
            transaction: Some(Arc::clone(transaction)),
            ..self.clone()
        }
    }

    /// The same, the times of statements added up for somebody.
    #[must_use]
    pub fn timed(&self, timings: &Arc<Timings>) -> Self {
        Self {
            timings: Some(Arc::clone(timings)),
            ..self.clone()
        }
    }

    /// The name of the time zone that times without an offset are in.
    pub fn time_zone(&self) -> &str {
        self.zone.name()
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
        let shared = self.shared();
        let bounds = Bounds::of(&shared.options);
        let timings = self.timings.clone();
        let timings = timings.unwrap_or_else(|| Timings::start(&shared.executor));
        if !brief::is_short(sql, params) {
            elsewhere().await;
        }
        let mut parsing = Laps::of(&timings);
        let (tokens, is_expanded) = self.expanded(database, statement::tokens(sql, bounds)?)?;
        let asks_names = statement::asks_names(&tokens);
        let asks_acquisition = asks_acquisition(&tokens);
        // What a function stands for may be another thing by the next statement of this shape.
        let shape = self.shape_of(&tokens, params).filter(|_| !is_expanded);
        parsing.end(TimedStep::Parse);
        if let Some(shape) = &shape
            && let Some(answer) = Box::pin(self.by_template(database, sql, shape)).await?
        {
            return Ok(answer);
        }
        if !brief::is_few_values(&tokens) {
            elsewhere().await;
        }
        parsing.leave_out();
        let statement = statement::parse_tokens(tokens, sql, bounds, params)?;
        parsing.end(TimedStep::Parse);
        if self.read_only && statement.writes() {
            return Err(Error::ReadOnly);
        }
        let running = self.begun(database, sql, &statement, &timings).await?;
        if asks_acquisition {
            self.complete_acquisitions().await?;
        }
        let mut reading = self.reading();
        reading.asks_names = asks_names;
        let place = self.place_of(&reading, database, &statement)?;
        self.check_transaction(&statement)?;
        match statement {
            // Boxed, because what waits for one of these would else be as large as the largest of them.
            Statement::Query(question) => {
                if explained::is_asked(&question.statement) {
                    return Box::pin(self.explained(&reading, &place, *question, running)).await;
                }
                Box::pin(self.read(&reading, &place, *question, shape.as_ref(), running)).await
            }
            Statement::Insert(mut insert) => {
                let returning = Returning::of(insert.returning.take());
                let writing = self.writing(reading, place, running, returning);
                Ok(self.written(Box::pin(write::insert(writing, *insert)).await?))
            }
            Statement::Update(mut update) => {
                let returning = Returning::of(update.returning.take());
                let writing = self.writing(reading, place, running, returning);
                Ok(self.written(Box::pin(write::update(writing, *update)).await?))
            }
            Statement::Delete(mut delete) => {
                let returning = Returning::of(delete.returning.take());
                let writing = self.writing(reading, place, running, returning);
                Ok(self.written(Box::pin(write::delete(writing, *delete)).await?))
            }
            Statement::Merge(merge) => {
                write::check_merge(&merge)?;
                let writing = self.writing(reading, place, running, None);
                Ok(self.written(Box::pin(write::merge(writing, *merge)).await?))
            }
            Statement::Truncate(truncate) => {
                let writing = self.writing(reading, place, running, None);
                let writing = Box::pin(write::truncate(writing, *truncate)).await?;
                Ok(self.written((0, writing)))
            }
            Statement::Show(show) => Box::pin(self.show(&reading, &place, show, running)).await,
            Statement::Call(call) => Box::pin(self.call(*call, place, running)).await,
            Statement::CallOfRows(calls) => Box::pin(self.call_rows(*calls, place, running)).await,
            Statement::Change(change) => {
                let running = Box::pin(self.change(reading, place, change, running)).await?;
                Ok(Answer::of_rows(0, running, &shared.options))
            }
            Statement::Role(statement) => {
                Box::pin(self.change_role(&reading, &place, *statement)).await?;
                Ok(Answer::of_rows(0, running, &shared.options))
            }
            Statement::Fill(table) => {
                let rows = Box::pin(self.fill(database, *table)).await?;
                Ok(Answer::of_rows(rows, running, &shared.options))
            }
            Statement::Aggregate(statement) => {
                Box::pin(self.aggregate(&reading, &place, statement)).await?;
                Ok(Answer::of_rows(0, running, &shared.options))
            }
            Statement::Procedure(call) => {
                Box::pin(self.call_procedure(*call, place)).await?;
                Ok(Answer::of_rows(0, running, &shared.options))
            }
            Statement::Kill(id) => self.kill(id, running),
        }
    }

    /// Refuses what cannot be in a transaction.
    fn check_transaction(&self, statement: &Statement) -> Result<(), Error> {
        let is_definition = matches!(
            statement,
            Statement::Change(_)
                | Statement::Role(_)
                | Statement::Fill(_)
                | Statement::Call(_)
                | Statement::CallOfRows(_)
                | Statement::Aggregate(_)
        );
        if !is_definition || self.transaction.is_none() {
            return Ok(());
        }
        Err(Error::Unsupported {
            statement: "a definition (CREATE, ALTER, DROP and the like) in a transaction"
                .to_owned(),
            instead: "send it before BEGIN or after COMMIT, in a message of its own",
        })
    }

    fn place_of(
        &self,
        reading: &ReadContext,
        database: &str,
        statement: &Statement,
    ) -> Result<NameScope, Error> {
        place_of(reading, database, self.schema.as_deref(), statement)
    }

    /// Counts a statement among those that run.
    fn start(&self, database: &str, sql: &str) -> Running {
        let statements = &self.shared().statements;
        let running = statements.start(database, sql, &self.caller);
        running.timed(self.timings.as_ref())
    }

    /// The same of a statement, once there is memory for it.
    async fn begun(
        &self,
        database: &str,
        sql: &str,
        statement: &Statement,
        timings: &Arc<Timings>,
    ) -> Result<Running, Error> {
        let shown = statement.shown();
        let mut running = self.start(database, shown.as_deref().unwrap_or(sql));
        if let Statement::Query(question) = statement
            && analyzed::is_analyze(&question.statement)
        {
            running = running.timed(Some(timings));
        }
        if statement.needs_memory() {
            running.begin().await?;
        }
        Ok(running)
    }

    /// The newest snapshot.
    pub(crate) fn reading(&self) -> ReadContext {
        let store = StoreState::newest(self.shared(), self.transaction.as_ref());
        let mut reading = ReadContext::new(store, self.zone.clone(), self.principal.clone());
        reading.is_read_only = self.read_only;
        reading.uses_aggregates = self.uses_aggregates;
        reading.of_session(self.client.clone(), self.schema.as_deref())
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.queries.shared
    }

    fn options(&self) -> &SqlOptions {
        &self.shared().options
    }

    fn writing(
        &self,
        reading: ReadContext,
        place: NameScope,
        running: Running,
        returning: Option<Returning>,
    ) -> Writing<'_> {
        Writing {
            queries: &self.queries,
            reading,
            place,
            running,
            returning,
            writer: Writer {
                engine: Arc::clone(&self.shared().engine),
                transaction: self.transaction.clone(),
            },
        }
    }

    /// Rows for a table as its defaults and conditions complete them.
    pub(crate) async fn completed(
        &self,
        table: &define::TableName,
        rows: RecordBatch,
    ) -> Result<RecordBatch, Error> {
        let running = self.start(&table.database, &format!("COPY \"{}\"", table.table));
        running.begin().await?;
        let place = NameScope {
            database: table.database.clone(),
            schema: table.schema.clone(),
        };
        let name = TableName::at(None, table.clone());
        let writing = self.writing(self.reading(), place, running, None);
        write::completed(writing, &name, rows).await
    }

    fn written(&self, (rows, writing): (u64, Writing<'_>)) -> Answer {
        let returned = writing.returning.and_then(Returning::into_rows);
        match returned {
            Some(rows) => Answer::of_batch(rows, writing.running, self.options()),
            None => Answer::of_rows(rows, writing.running, self.options()),
        }
    }

    async fn read(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        question: Question,
        shape: Option<&Shape>,
        running: Running,
    ) -> Result<Answer, Error> {
        let session = reading.session(place);
        let memory = pool(&running);
        let planner = &self.queries.planner;
        let analyzes = analyzed::is_analyze(&question.statement);
        let timings = running.timings().filter(|_| analyzes).cloned();
        let began = timings.as_ref().map(|timings| timings.now());
        let planning = planner.plan(reading, &session, place, question, shape, &memory);
        let mut query = plan_time::within(&running, planning).await?;
        let (Some(timings), Some(began)) = (timings, began) else {
            return self.answer(&session, query, running);
        };
        let planning_took = timings.now().saturating_sub(began);
        let headings = query.headings.take();
        let batches = self.queries.start(&session, query, &running)?;
        let batches = analyzed::with_times(batches, &timings, planning_took);
        let answer = Answer::new(batches, running, self.options());
        Ok(answer.headed(headings.as_ref()))
    }

    fn answer(
        &self,
        session: &SessionState,
        mut query: PhysicalQuery,
        running: Running,
    ) -> Result<Answer, Error> {
        let headings = query.headings.take();
        let batches = self.queries.start(session, query, &running)?;
        let answer = Answer::new(batches, running, self.options());
        Ok(answer.headed(headings.as_ref()))
    }

    /// The template of a shape, with a statement's values.
    fn template(
        &self,
        reading: &ReadContext,
        database: &str,
        shape: &Shape,
    ) -> Option<BoundTemplate> {
        let schema = reading.snapshot.default_schema(database)?;
        let place = NameScope {
            database: database.to_owned(),
            schema: self.schema.clone().unwrap_or(schema),
        };
        self.queries.planner.template(reading, &place, shape)
    }

    /// The shape of a statement that may have a template: those ask nobody what they may.
    fn shape_of(&self, tokens: &[TokenWithSpan], params: &Params) -> Option<Shape> {
        let is_like_others = self.principal.is_admin()
            && !statement::asks_names(tokens)
            && !asks_acquisition(tokens);
        is_like_others.then(|| Shape::of(tokens, params)).flatten()
    }

    /// The answer of a query whose shape has a template. Without one, and where anything is wrong, the whole way says what.
    async fn by_template(
        &self,
        database: &str,
        sql: &str,
        shape: &Shape,
    ) -> Result<Option<Answer>, Error> {
        let reading = self.reading();
        let Some(BoundTemplate { bound, headings }) = self.template(&reading, database, shape)
        else {
            return Ok(None);
        };
        let running = self.start(database, sql);
        running.begin().await?;
        let plan = match bound {
            Bound::Series(series) => {
                elsewhere().await;
                let answer = self.by_series(&reading, series, headings.as_ref(), running);
                return Ok(Some(answer));
            }
            Bound::Whole(plan) => plan,
        };
        if let Some(rows) = relation::few_rows(plan.as_ref()) {
            let answer = Answer::new(rows, running, self.options());
            return Ok(Some(answer.headed(headings.as_ref())));
        }
        elsewhere().await;
        let query = PhysicalQuery {
            plan,
            lists_functions: false,
            headings,
        };
        self.answer(self.shared().session(), query, running)
            .map(Some)
    }

    /// The answer of a series query, without a plan.
    fn by_series(
        &self,
        reading: &ReadContext,
        asked: BoundSeries,
        headings: Option<&Names>,
        running: Running,
    ) -> Answer {
        let scope = Scope::of(&running);
        let stream = series::start(asked, Arc::clone(&reading.snapshot), &scope);
        let answer = Answer::new(Box::pin(stream), running, self.options());
        answer.headed(headings)
    }

    /// How a plain query is planned, how it would be with all rules, and how from the template of its shape, of which it
    /// makes one if there is none and it can be; `None` = it is not plain. For tests.
    #[doc(hidden)]
    pub async fn plans(&self, database: &str, sql: &str) -> Result<Option<[String; 3]>, Error> {
        let bounds = Bounds::of(self.options());
        let tokens = statement::tokens(sql, bounds)?;
        let shape = Shape::of(&tokens, &Params::new());
        let statement = statement::parse_tokens(tokens, sql, bounds, &Params::new())?;
        let reading = self.reading();
        let place = self.place_of(&reading, database, &statement)?;
        let Statement::Query(question) = statement else {
            return Ok(None);
        };
        let planner = &self.queries.planner;
        planner
            .ways(&reading, &place, *question, shape.as_ref())
            .await
    }

    /// Number of templates. For tests.
    #[doc(hidden)]
    pub fn templates(&self) -> usize {
        self.queries.planner.templates()
    }
}

/// Where names without a place are looked up. What concerns whole databases needs none.
fn place_of(
    reading: &ReadContext,
    database: &str,
    own_schema: Option<&str>,
    statement: &Statement,
) -> Result<NameScope, Error> {
    let schema = reading.snapshot.default_schema(database);
    // One that is not there is said where a name is looked up in it.
    let schema = match (schema, own_schema) {
        (Some(_), Some(own)) => Some(own.to_owned()),
        (default, _) => default,
    };
    let of_databases = matches!(
        statement,
        Statement::Change(WrittenChange {
            change: Change::CreateDatabase { .. }
                | Change::DropDatabase { .. }
                | Change::RenameDatabase { .. },
            ..
        }) | Statement::Show(Show::Databases { .. })
            | Statement::Kill(_)
            | Statement::Role(_)
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
