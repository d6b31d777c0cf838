//! SHOW: names and definitions, most of it by a query.

use nilometer_service::{Privilege, Running};

use super::Sql;
use crate::Params;
use crate::answer::Answer;
use crate::error::Error;
use crate::statement::name::NameScope;
use crate::statement::{self, Bounds, Show, Statement};
use crate::tables::catalogue::ReadContext;
use crate::tables::describe;

impl Sql {
    pub(super) async fn show(
        &self,
        reading: &ReadContext,
        place: &NameScope,
        show: Show,
        running: Running,
    ) -> Result<Answer, Error> {
        let options = self.options();
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
                reading.allow(Privilege::Read, &name)?;
                describe::columns(reading, &name).await?
            }
            Show::Create { table } => {
                let name = table.table(place)?;
                reading.allow(Privilege::Read, &name)?;
                describe::create(reading, &name)?
            }
            _ => return Err(Error::internal("nothing to show")),
        };
        Ok(Answer::of_batch(batch, running, options))
    }

    /// Ends a query of somebody's.
    pub(super) fn kill(&self, id: u64, running: Running) -> Result<Answer, Error> {
        let allowed = self.principal.check_admin();
        allowed.map_err(|error| Error::Denied(Box::new(error)))?;
        if self.shared().statements.kill(id) {
            return Ok(Answer::of_rows(0, running, self.options()));
        }
        Err(Error::UnknownName {
            what: "running query",
            name: id.to_string(),
            nearest: None,
            position: None,
        })
    }
}
