//! Changes of names, carried out.
//!
//! Does: have what a change brings along looked at by the planner, and hand it to the service where blocking is allowed. Does not:
//! know what a change is (`statement/change.rs` reads it, `nilometer_service::define` carries it out).

use std::sync::Arc;

use nilometer_service::Running;
use nilometer_service::define::Change;

use super::Sql;
use crate::error::Error;
use crate::execution::changing;
use crate::statement::WrittenChange;
use crate::statement::name::NameScope;
use crate::tables::catalogue::ReadContext;
use crate::tables::describe;
use crate::write;

impl Sql {
    pub(super) async fn change(
        &self,
        reading: &ReadContext,
        place: NameScope,
        written: WrittenChange,
        running: &Running,
    ) -> Result<(), Error> {
        if let Some((name, query)) = write::change::new_view(&place, &written)? {
            describe::check_view(reading, &name, query).await?;
        }
        write::check_new(reading, &place, &written.change).await?;
        self.check_routine(&place, &written).await?;
        let engine = Arc::clone(&self.shared().engine);
        let principal = self.principal.clone();
        let sequences = Arc::clone(&self.shared().sequences);
        let altered = match &written.change {
            Change::AlterSequence { path, .. } => {
                let path = path.clone();
                path.table(&place.database, &place.schema).ok()
            }
            _ => None,
        };
        let change = move || {
            if let Some(name) = altered {
                let given_back = sequences.give_back(&engine, &name);
                given_back.map_err(Error::of_service)?;
            }
            write::change::run(&engine, &principal, place, written)
        };
        let by = (&self.shared().executor, running);
        changing(by, self.client.as_ref(), change).await
    }
}
