//! Who asks, and what they may do: privileges by database, schema and table.

use std::sync::Arc;

use super::Access;
use crate::error::Error;

/// What somebody may want to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Privilege {
    /// Read rows, and see that they are there.
    Read,
    /// Write, change and delete rows; a table or column that a write brings with it is made.
    Write,
    /// Create, change and drop what is in a database.
    Define,
    /// Create and drop databases and users, and see what everybody does.
    Administer,
}

/// A set of privileges over what is in a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Privileges(u8);

impl Privileges {
    /// To read.
    pub const READ: Self = Self(1);
    /// To write.
    pub const WRITE: Self = Self(2);
    /// To read, to write and to define.
    pub const ALL: Self = Self(7);

    /// Those of both.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not among the others.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether this one is among them.
    pub fn has(self, privilege: Privilege) -> bool {
        let bit = match privilege {
            Privilege::Read => 1,
            Privilege::Write => 2,
            Privilege::Define => 4,
            Privilege::Administer => return false,
        };
        self.0 & bit != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// As they are stored.
    pub(super) fn bits(self) -> i64 {
        i64::from(self.0)
    }

    /// As they were stored; what this version does not know is no privilege.
    pub(super) fn of_bits(bits: i64) -> Self {
        Self(u8::try_from(bits & 7).unwrap_or_default())
    }
}

/// What a privilege is about: a database, a schema of it, or a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The database.
    pub database: &'a str,
    /// `None` = all of it.
    pub schema: Option<&'a str>,
    /// `None` = all of the schema.
    pub table: Option<&'a str>,
}

impl<'a> Place<'a> {
    /// A whole database.
    pub fn database(database: &'a str) -> Self {
        Self {
            database,
            schema: None,
            table: None,
        }
    }

    /// A table.
    pub fn table(database: &'a str, schema: &'a str, table: &'a str) -> Self {
        Self {
            database,
            schema: Some(schema),
            table: Some(table),
        }
    }
}

/// Who asks.
#[derive(Debug, Clone)]
pub struct Principal(Who);

#[derive(Debug, Clone)]
enum Who {
    /// Nobody was asked who they are.
    Anyone,
    /// It was not found out who it is.
    Nobody,
    /// Whoever has the token.
    Token,
    /// Whoever comes first to a store that has no administrator yet.
    Founder,
    User {
        name: Arc<str>,
        access: Arc<Access>,
    },
}

impl Principal {
    /// For a program that embeds the store, and where nobody is asked who they are: everything is allowed.
    pub fn anyone() -> Self {
        Self(Who::Anyone)
    }

    /// For whom nobody has asked who they are, though they should have been: nothing is allowed.
    pub fn nobody() -> Self {
        Self(Who::Nobody)
    }

    pub(super) fn of_token() -> Self {
        Self(Who::Token)
    }

    pub(super) fn founder() -> Self {
        Self(Who::Founder)
    }

    pub(super) fn of_user(access: &Arc<Access>, name: &str) -> Self {
        Self(Who::User {
            name: Arc::from(name),
            access: Arc::clone(access),
        })
    }

    /// The name of the user; `None` = it is none.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Who::User { name, .. } => Some(name),
            _ => None,
        }
    }

    /// Whether everything is allowed. Asked of the store each time, so that what was taken away is gone at once.
    pub fn is_admin(&self) -> bool {
        match &self.0 {
            Who::Anyone | Who::Token => true,
            Who::Nobody | Who::Founder => false,
            Who::User { name, access } => access.is_admin(name),
        }
    }

    pub(super) fn is_founder(&self) -> bool {
        matches!(self.0, Who::Founder)
    }

    /// Refuses what somebody may not do.
    pub fn check(&self, privilege: Privilege, place: Place<'_>) -> Result<(), Error> {
        if self.is_admin() {
            return Ok(());
        }
        match &self.0 {
            Who::User { name, access } if access.granted(name, place).has(privilege) => Ok(()),
            Who::User { name, .. } => Err(Error::NotAllowed {
                user: name.to_string(),
                action: match privilege {
                    Privilege::Read => "read from",
                    Privilege::Write => "write to",
                    Privilege::Define => "change",
                    Privilege::Administer => "administer",
                },
                database: place.database.to_owned(),
            }),
            Who::Nobody => Err(Error::NoCredentials),
            _ => Err(Error::NoAdministrator),
        }
    }

    /// Refuses whoever is no administrator.
    pub fn check_admin(&self) -> Result<(), Error> {
        if self.is_admin() {
            return Ok(());
        }
        Err(match &self.0 {
            Who::User { name, .. } => Error::NotAdministrator {
                user: name.to_string(),
            },
            Who::Nobody => Error::NoCredentials,
            _ => Error::NoAdministrator,
        })
    }

    /// Whether anything of a database may be read or written.
    pub fn sees(&self, database: &str) -> bool {
        match &self.0 {
            _ if self.is_admin() => true,
            Who::User { name, access } => {
                let grants = super::store::grants(&access.engine.snapshot(), name);
                grants.iter().any(|grant| grant.database == database)
            }
            _ => false,
        }
    }
}
