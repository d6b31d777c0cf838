//! One snapshot's databases, schemas, tables, relations and views, as the planner asks for them: by name, one at a time.
//!
//! Does: hand out tables, expand views (their query is planned each time, in the place they are in), add the schema of
//! what the store says of itself. Does not: hold rows.

mod aggregates;

use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::information_schema::InformationSchemaProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF};
use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use nilometer_engine::{DEFAULT_SCHEMA, Snapshot};
use nilometer_service::define::{self, INFORMATION_SCHEMA, PG_CATALOG, SYSTEM_SCHEMA};
use nilometer_service::{AdvisoryLocks, Client, Place, Principal, Privilege, SessionNumbers};

use crate::Params;
use crate::error::Error;
use crate::function;
use crate::planning::acquisition::AsKnown;
use crate::planning::bounds::bound_tables;
use crate::planning::enum_order;
use crate::semantics::clocks;
use crate::semantics::merged;
use crate::semantics::times;
use crate::semantics::zone::Zone;
use crate::shared::{Shared, StoreState};
use crate::statement::name::{NameScope, TableName};
use crate::statement::types::ENUM_PLACE;
use crate::statement::{Bounds, Question, Statement, asks_names, parse, tokens};
use crate::tables::aggregate::{AggregateTable, Meant, Reads, Restriction};
use crate::tables::pg_catalog::{self, Catalogue, Reader, Reading};
use crate::tables::relation::{self, RelationTable};
use crate::tables::table::Table;
use crate::tables::{sequence, system};

/// Views inside views. Each level plans a query.
const VIEWS_NESTED_MAX: usize = 16;

/// Tables of the standard's schema that list functions and settings of the planner, which knows them.
const OF_FUNCTIONS: [&str; 3] = ["routines", "parameters", "df_settings"];

/// The name of the rows that an INSERT brings, in its DO UPDATE.
pub(crate) const EXCLUDED: &str = "excluded";

/// One snapshot, and what reading it needs.
#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is known of a statement; none follows from another"
)]
pub(crate) struct ReadContext {
    pub(crate) shared: Arc<Shared>,
    pub(crate) snapshot: Arc<Snapshot>,
    /// Where times without an offset are.
    pub(crate) zone: Zone,
    /// Who reads.
    pub(crate) principal: Principal,
    /// The connection that the statement came by, if it is kept.
    pub(crate) client: Option<Arc<Client>>,
    /// Where the asker's names without a schema are looked up.
    schema: Option<String>,
    /// Whether the statement calls functions that ask for names or for the session.
    pub(crate) asks_names: bool,
    /// The acquisition time below which the snapshot has all records.
    complete_ns: i64,
    /// Whether the statement is described before its parameters have values.
    pub(crate) is_described: bool,
    /// Whether it may change nothing, not even a sequence.
    pub(crate) is_read_only: bool,
    /// What the statement was given of sequences, of a sender that keeps no connection.
    own_numbers: Arc<SessionNumbers>,
    /// The names of the statement's database, once they are asked for.
    names: Arc<OnceLock<Arc<Catalogue>>>,
    /// Views around what is planned now.
    depth: usize,
    /// A view that is about to be made, and so must not be in its own query.
    making: Option<TableName>,
    /// A table whose rows are about to change, and so say which they are.
    changing: Option<TableName>,
    /// The rows that an INSERT brings, which its DO UPDATE reads under the name `excluded`.
    excluded: Option<Arc<dyn TableProvider>>,
    /// What was wrong with the first view that could not be expanded.
    view_error: Arc<Mutex<Option<ViewError>>>,
    /// Continuous aggregates around what is planned now, which want to know what it reads.
    reads: Vec<Reads>,
    /// The source of the innermost of them has only these buckets.
    restriction: Option<Arc<Restriction>>,
    /// What continuous aggregates stand for.
    meant: Meant,
    /// Whether stored answers may stand for what a query asks of the raw table.
    pub(crate) uses_aggregates: bool,
}

/// A table that is being looked for.
type Found<'a> = Pin<Box<dyn Future<Output = Option<Arc<dyn TableProvider>>> + Send + 'a>>;

/// A view that could not be expanded.
#[derive(Debug, Clone)]
pub(crate) struct ViewError {
    pub(crate) view: String,
    pub(crate) message: String,
}

impl std::fmt::Debug for ReadContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadContext")
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

/// For the catalogue of `PostgreSQL`. The names of one database are made once in a statement.
#[async_trait]
impl Reading for ReadContext {
    fn names_of_database(&self, database: &str) -> Arc<Catalogue> {
        let made = || Arc::new(Catalogue::of(&self.snapshot, database, self.reader()));
        let first = self.names.get_or_init(made);
        if first.is_of(database) {
            Arc::clone(first)
        } else {
            made()
        }
    }

    fn reader(&self) -> Reader {
        Reader {
            principal: self.principal.clone(),
            client: self.client.clone(),
            schema: self
                .schema
                .clone()
                .unwrap_or_else(|| DEFAULT_SCHEMA.to_owned()),
        }
    }

    fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    fn next_number(&self, sequence: &define::TableName) -> std::result::Result<i64, Error> {
        if self.is_read_only {
            return Err(Error::ReadOnly);
        }
        let taken = self.shared.sequences.take(&self.shared.engine, sequence, 1);
        let number = taken.map_err(Error::of_service)?.pop();
        let number = number.ok_or_else(|| Error::internal("a sequence gave no number"))?;
        Self::numbers(self).given(sequence, number);
        Ok(number)
    }

    fn set_number(
        &self,
        sequence: &define::TableName,
        (value, is_called): (i64, bool),
    ) -> std::result::Result<(), Error> {
        if self.is_read_only {
            return Err(Error::ReadOnly);
        }
        let (sequences, engine) = (&self.shared.sequences, &self.shared.engine);
        let set = sequences.set(engine, sequence, (value, is_called));
        set.map_err(Error::of_service)?;
        if is_called {
            Self::numbers(self).set(sequence, value);
        }
        Ok(())
    }

    fn numbers(&self) -> &SessionNumbers {
        Self::numbers(self)
    }

    fn advisory_locks(&self) -> &Arc<AdvisoryLocks> {
        &self.shared.advisory_locks
    }

    async fn provider(&self, name: &TableName) -> Option<Arc<dyn TableProvider>> {
        Self::provider(self, name).await
    }
}

impl ReadContext {
    pub(crate) fn new(store: StoreState, zone: Zone, principal: Principal) -> Self {
        Self {
            principal,
            client: None,
            schema: None,
            asks_names: false,
            names: Arc::default(),
            shared: store.shared,
            snapshot: store.snapshot,
            complete_ns: store.complete_ns,
            is_described: false,
            is_read_only: false,
            own_numbers: Arc::default(),
            zone,
            depth: 0,
            making: None,
            changing: None,
            excluded: None,
            view_error: Arc::default(),
            reads: Vec::new(),
            restriction: None,
            meant: Meant::default(),
            uses_aggregates: true,
        }
    }

    /// The same, where times without an offset are in UTC.
    pub(crate) fn in_utc(self) -> Self {
        Self {
            zone: Zone::default(),
            ..self
        }
    }

    /// The same, for a statement of a session.
    pub(crate) fn of_session(self, client: Option<Arc<Client>>, schema: Option<&str>) -> Self {
        Self {
            client,
            schema: schema.map(str::to_owned),
            ..self
        }
    }

    /// The same, for a statement of these tokens.
    pub(crate) fn of_tokens(self, tokens: &[TokenWithSpan]) -> Self {
        Self {
            asks_names: asks_names(tokens),
            ..self
        }
    }

    /// The same on another moment of the store.
    pub(crate) fn at(&self, store: StoreState) -> Self {
        let new = Self::new(store, self.zone.clone(), self.principal.clone());
        Self {
            client: self.client.clone(),
            schema: self.schema.clone(),
            asks_names: self.asks_names,
            is_read_only: self.is_read_only,
            own_numbers: Arc::clone(&self.own_numbers),
            uses_aggregates: self.uses_aggregates,
            ..new
        }
    }

    /// What the session was given of sequences.
    pub(crate) fn numbers(&self) -> &SessionNumbers {
        match &self.client {
            Some(client) => &client.numbers,
            None => &self.own_numbers,
        }
    }

    /// The function that says where a label stands in its enumeration.
    pub(crate) fn enum_place(&self, database: &str) -> Option<Arc<ScalarUDF>> {
        let all = pg_catalog::functions(&self.as_reading(), database);
        all.into_iter().find(|it| it.name() == ENUM_PLACE)
    }

    fn as_reading(&self) -> Arc<dyn Reading> {
        Arc::new(self.clone())
    }

    /// The store as the statement finds it.
    pub(crate) fn store(&self) -> StoreState {
        StoreState {
            shared: Arc::clone(&self.shared),
            snapshot: Arc::clone(&self.snapshot),
            complete_ns: self.complete_ns,
        }
    }

    /// Refuses what who asks may not do with a table, relation or view. Names are everybody's who may read all of a
    /// database; what others ask is an administrator's. Who may read a view reads through it what its maker could.
    pub(crate) fn allow(
        &self,
        privilege: Privilege,
        name: &TableName,
    ) -> std::result::Result<(), Error> {
        if self.principal.is_admin() {
            return Ok(());
        }
        let (database, schema, table) = (&name.database, &name.schema, &name.table);
        let is_of_others =
            schema == SYSTEM_SCHEMA && matches!(table.as_str(), "queries" | "settings");
        let checked = if is_of_others {
            self.principal.check_admin()
        } else if pg_catalog::is_catalogue(schema) {
            // Its rows are those of tables that the asker may read.
            Ok(())
        } else if schema == SYSTEM_SCHEMA {
            self.principal.check(privilege, Place::database(database))
        } else {
            let place = Place::table(database, schema, table);
            self.principal.check(privilege, place)
        };
        checked.map_err(|source| Error::Denied(Box::new(source)))
    }

    /// Whether nothing has this name.
    pub(crate) fn is_nothing(&self, name: &TableName) -> bool {
        let (database, schema, table) = (&name.database, &name.schema, &name.table);
        let is_there = define::is_reserved(schema)
            || self.snapshot.table(database, schema, table).is_some()
            || relation::find(&self.snapshot, name).is_some()
            || define::view(&self.snapshot, database, schema, table).is_some();
        !is_there
    }

    /// The same, for the query of a view that is about to be made.
    pub(crate) fn making(&self, view: TableName) -> Self {
        Self {
            making: Some(view),
            ..self.clone()
        }
    }

    /// The same, for a statement that changes rows of a table.
    pub(crate) fn changing(&self, table: TableName) -> Self {
        Self {
            changing: Some(table),
            ..self.clone()
        }
    }

    fn changes(&self, name: &TableName) -> bool {
        self.changing.as_ref().is_some_and(|it| is_same(it, name))
    }

    /// The same, for what an INSERT does where its rows are in the way of others.
    pub(crate) fn excluding(&self, rows: Arc<dyn TableProvider>) -> Self {
        Self {
            excluded: Some(rows),
            ..self.clone()
        }
    }

    /// What was wrong with a view, if one could not be expanded.
    pub(crate) fn view_error(&self) -> Option<ViewError> {
        let view_error = self.view_error.lock();
        view_error.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn complain(&self, view: &TableName, message: String) {
        let mut view_error = self
            .view_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        view_error.get_or_insert(ViewError {
            view: view.table.clone(),
            message,
        });
    }

    /// A session in which names without a place mean this one.
    pub(crate) fn session(&self, place: &NameScope) -> SessionState {
        let mut session = self.shared.session().clone();
        session.register_catalog_list(Arc::new(Databases(self.clone())));
        // Always there: without it the planner passes over the clause. It fails never.
        let _ = session.register_relation_planner(Arc::new(self.as_known()));
        let names = &mut session.config_mut().options_mut().catalog;
        names.default_catalog.clone_from(&place.database);
        names.default_schema.clone_from(&place.schema);
        if self.asks_names {
            for function in pg_catalog::functions(&self.as_reading(), &place.database) {
                // A name that is taken is replaced, which cannot fail.
                let _ = session.register_udf(function);
            }
        }
        if self.sums_numeric() {
            // Names that are taken are replaced, which cannot fail.
            let _ = function::register_numeric(&mut session);
        }
        // The time that now() means in this statement.
        session.mark_start_execution();
        session
    }

    /// Whether `sum` and `avg` of integers answer `numeric`: for who keeps a connection of `PostgreSQL`'s, but not where answers
    /// are stored.
    pub(crate) fn sums_numeric(&self) -> bool {
        self.client.is_some() && self.reads.is_empty() && matches!(self.meant, Meant::Answer)
    }

    /// What plans tables as they were known at a time. In a view times mean the same in every session.
    fn as_known(&self) -> AsKnown {
        let is_view = self.depth > 0 || self.making.is_some();
        AsKnown {
            zone: if is_view {
                Zone::default()
            } else {
                self.zone.clone()
            },
            complete_ns: self.complete_ns,
            is_described: self.is_described,
        }
    }

    /// The plan of a view, if it can be read.
    async fn expand(&self, name: &TableName, query: &str) -> Option<LogicalPlan> {
        let problem = if self.depth >= VIEWS_NESTED_MAX {
            format!("views nest deeper than {VIEWS_NESTED_MAX}")
        } else if self
            .making
            .as_ref()
            .is_some_and(|making| is_same(making, name))
        {
            "its query would contain itself".to_owned()
        } else {
            match self.plan_view(name, query).await {
                Ok(plan) => return Some(plan),
                Err(error) => error.to_string(),
            }
        };
        self.complain(name, problem);
        None
    }

    async fn plan_view(
        &self,
        name: &TableName,
        query: &str,
    ) -> std::result::Result<LogicalPlan, Error> {
        match define::aggregate(&self.snapshot, &name.database, &name.schema, &name.table) {
            Some(aggregate) => self.plan_aggregate(name, query, &aggregate).await,
            None => self.plan_query(name, query).await,
        }
    }

    /// The plan of the query of a view.
    pub(crate) async fn plan_query(
        &self,
        name: &TableName,
        query: &str,
    ) -> std::result::Result<LogicalPlan, Error> {
        let deeper = Self {
            depth: self.depth + 1,
            ..self.clone()
        };
        let place = NameScope {
            database: name.database.clone(),
            schema: name.schema.clone(),
        };
        let bounds = Bounds::of(&self.shared.options);
        let deeper = deeper.of_tokens(&tokens(query, bounds)?);
        match parse(query, bounds, &Params::new())? {
            Statement::Query(question) => {
                let Question {
                    statement,
                    headings,
                } = *question;
                let session = deeper.session(&place);
                let plan = merged::plan(&session, &statement).await?;
                bound_tables(&plan, bounds.operators_max)?;
                // A view means the same in every session.
                let plan = times::read(plan, &Zone::default())?;
                let plan = clocks::settle_view(plan, &self.zone)?;
                let ordered = enum_order::settled(&plan, || deeper.enum_place(&place.database))?;
                let plan = ordered.unwrap_or(plan);
                Ok(match headings.of(plan.schema()) {
                    Some(names) => renamed(plan, &names)?,
                    None => plan,
                })
            }
            _ => Err(Error::internal("the query of a view is none")),
        }
    }

    /// A table, a view or one of the system's tables. Boxed, for the reason that [`planned`](super::planned) gives.
    pub(crate) fn provider<'a>(&'a self, name: &'a TableName) -> Found<'a> {
        Box::pin(self.find(name))
    }

    async fn find(&self, name: &TableName) -> Option<Arc<dyn TableProvider>> {
        if name.schema == SYSTEM_SCHEMA {
            return system::table(self.store(), self.principal.clone(), &name.table);
        }
        if name.schema == INFORMATION_SCHEMA && OF_FUNCTIONS.contains(&name.table.as_str()) {
            let databases = Arc::new(Databases(self.clone()));
            let functions = InformationSchemaProvider::new(databases);
            return functions.table(&name.table).await.ok().flatten();
        }
        if pg_catalog::is_catalogue(&name.schema) {
            return pg_catalog::table(self.as_reading(), &name.database, &name.schema, &name.table);
        }
        if let Some(rows) = &self.excluded
            && name.table == EXCLUDED
        {
            return Some(Arc::clone(rows));
        }
        let found = self
            .snapshot
            .table(&name.database, &name.schema, &name.table);
        if let Some(schema) = found {
            for reads in &self.reads {
                reads.table(&name.shown(), schema.kept_id());
            }
            let time = schema.time().0.to_owned();
            let table = Table::new(
                Arc::clone(&self.snapshot),
                schema,
                name.clone(),
                self.shared.options.threads,
            );
            let table = if self.changes(name) {
                table.with_row_columns()
            } else {
                table
            };
            return self.restrict(name, Arc::new(table), &time);
        }
        if let Some(reader) = relation::find(&self.snapshot, name) {
            for reads in &self.reads {
                reads.relation(reader.schema().id);
            }
            let table = RelationTable::new(reader, name.clone());
            return Some(Arc::new(table.with_row_number(self.changes(name))));
        }
        let (database, schema) = (&name.database, &name.schema);
        let Some(query) = define::view(&self.snapshot, database, schema, &name.table) else {
            if let Some(found) = sequence::find(&self.snapshot, name) {
                return Some(found);
            }
            // PostgreSQL looks its catalogue's names up without a schema, too.
            return pg_catalog::table(self.as_reading(), database, PG_CATALOG, &name.table);
        };
        let aggregate = define::aggregate(&self.snapshot, database, schema, &name.table);
        let looked_at = aggregate.and_then(|it| AggregateTable::of(&self.snapshot, &it));
        if let Some(table) = looked_at
            .clone()
            .filter(|_| matches!(self.meant, Meant::Columns))
        {
            return Some(Arc::new(table));
        }
        if matches!(self.meant, Meant::Columns) {
            self.refuse_view(name);
            return None;
        }
        let plan = self.expand(name, &query).await?;
        let view = Arc::new(ViewTable::new(plan, Some(query)));
        match looked_at {
            Some(table) => self.restrict(name, view, table.time().0),
            None => Some(view),
        }
    }
}

/// The plan with other names for its columns.
fn renamed(plan: LogicalPlan, names: &[String]) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().zip(names);
    let columns: Vec<Expr> = columns
        .map(|(column, name)| Expr::Column(column).alias(name))
        .collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

fn is_same(one: &TableName, other: &TableName) -> bool {
    one.shown() == other.shown()
}

/// All databases of a snapshot.
#[derive(Debug)]
struct Databases(ReadContext);

impl CatalogProviderList for Databases {
    /// Nothing registers itself in a snapshot; the planner never asks.
    fn register_catalog(
        &self,
        _name: String,
        _catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        let mut databases = self.0.snapshot.databases();
        databases.retain(|database| self.0.principal.sees(database));
        databases
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        self.0.snapshot.schemas(name)?;
        Some(Arc::new(Database {
            reading: self.0.clone(),
            name: name.to_owned(),
        }))
    }
}

#[derive(Debug)]
struct Database {
    reading: ReadContext,
    name: String,
}

impl CatalogProvider for Database {
    fn schema_names(&self) -> Vec<String> {
        let mut schemas = self
            .reading
            .snapshot
            .schemas(&self.name)
            .unwrap_or_default();
        schemas.retain(|schema| schema != SYSTEM_SCHEMA);
        schemas.push(SYSTEM_SCHEMA.to_owned());
        schemas.push(PG_CATALOG.to_owned());
        schemas
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name != SYSTEM_SCHEMA && !pg_catalog::is_catalogue(name) {
            self.reading.snapshot.tables(&self.name, name)?;
        }
        Some(Arc::new(Schema {
            reading: self.reading.clone(),
            database: self.name.clone(),
            name: name.to_owned(),
        }))
    }
}

#[derive(Debug)]
struct Schema {
    reading: ReadContext,
    database: String,
    name: String,
}

impl Schema {
    fn named(&self, table: &str) -> TableName {
        TableName {
            database: self.database.clone(),
            schema: self.name.clone(),
            table: table.to_owned(),
            position: None,
        }
    }
}

#[async_trait]
impl SchemaProvider for Schema {
    fn table_names(&self) -> Vec<String> {
        if self.name == SYSTEM_SCHEMA {
            return system::TABLES.map(str::to_owned).to_vec();
        }
        if pg_catalog::is_catalogue(&self.name) {
            return pg_catalog::names_of(&self.name);
        }
        let snapshot = &self.reading.snapshot;
        let mut names = snapshot
            .tables(&self.database, &self.name)
            .unwrap_or_default();
        let relations = define::relations(snapshot, &self.database, &self.name);
        let views = define::views(snapshot, &self.database, &self.name);
        for other in relations.into_iter().chain(views) {
            if !names.contains(&other) {
                names.push(other);
            }
        }
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.reading.provider(&self.named(name)).await)
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        let snapshot = &self.reading.snapshot;
        let is_table = snapshot.table(&self.database, &self.name, name).is_some()
            || relation::find(snapshot, &self.named(name)).is_some();
        let kind = if is_table {
            TableType::Base
        } else {
            TableType::View
        };
        Ok(self.table_exist(name).then_some(kind))
    }

    fn table_exist(&self, name: &str) -> bool {
        if self.name == SYSTEM_SCHEMA {
            return system::TABLES.contains(&name);
        }
        if pg_catalog::is_catalogue(&self.name) {
            return pg_catalog::has(&self.name, name);
        }
        let snapshot = &self.reading.snapshot;
        snapshot.table(&self.database, &self.name, name).is_some()
            || relation::find(snapshot, &self.named(name)).is_some()
            || define::view(snapshot, &self.database, &self.name, name).is_some()
    }
}
