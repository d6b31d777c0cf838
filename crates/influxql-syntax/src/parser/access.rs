//! Users, privileges, and KILL.

use super::{Parsed, Parser, unexpected};
use crate::ast::{CreateUser, Grant, Privilege, SetPassword, Statement};
use crate::token::Kind;

impl Parser<'_> {
    pub(super) fn grant(&mut self) -> Parsed<Statement> {
        let privilege = self.privilege()?;
        let token = self.next();
        match token.kind {
            Kind::On => self.grant_on(privilege, Kind::To).map(Statement::Grant),
            Kind::To if privilege == Privilege::All => self.ident().map(Statement::GrantAdmin),
            Kind::To => Err(unexpected(&token, &["ON"])),
            _ if privilege == Privilege::All => Err(unexpected(&token, &["ON", "TO"])),
            _ => Err(unexpected(&token, &["ON"])),
        }
    }

    pub(super) fn revoke(&mut self) -> Parsed<Statement> {
        let privilege = self.privilege()?;
        let token = self.next();
        match token.kind {
            Kind::On => self.grant_on(privilege, Kind::From).map(Statement::Revoke),
            Kind::From if privilege == Privilege::All => self.ident().map(Statement::RevokeAdmin),
            Kind::From => Err(unexpected(&token, &["ON"])),
            _ if privilege == Privilege::All => Err(unexpected(&token, &["ON", "FROM"])),
            _ => Err(unexpected(&token, &["ON"])),
        }
    }

    fn grant_on(&mut self, privilege: Privilege, word: Kind) -> Parsed<Grant> {
        let database = self.ident()?;
        self.expect(word)?;
        Ok(Grant {
            privilege,
            database,
            user: self.ident()?,
        })
    }

    fn privilege(&mut self) -> Parsed<Privilege> {
        let token = self.next();
        match token.kind {
            Kind::Read => Ok(Privilege::Read),
            Kind::Write => Ok(Privilege::Write),
            Kind::All => {
                self.accept(Kind::Privileges);
                Ok(Privilege::All)
            }
            _ => Err(unexpected(&token, &["READ", "WRITE", "ALL [PRIVILEGES]"])),
        }
    }

    pub(super) fn create_user(&mut self) -> Parsed<CreateUser> {
        let name = self.ident()?;
        self.expect(Kind::With)?;
        self.expect(Kind::Password)?;
        let password = self.text()?;
        let admin = self.accept(Kind::With);
        if admin {
            self.expect(Kind::All)?;
            self.expect(Kind::Privileges)?;
        }
        Ok(CreateUser {
            name,
            password,
            admin,
        })
    }

    pub(super) fn set_password(&mut self) -> Parsed<SetPassword> {
        let user = self.ident()?;
        self.expect(Kind::Eq)?;
        Ok(SetPassword {
            user,
            password: self.text()?,
        })
    }

    pub(super) fn kill(&mut self) -> Parsed<Statement> {
        let id = self.id()?;
        let host = if self.accept(Kind::On) {
            Some(self.ident()?)
        } else {
            None
        };
        Ok(Statement::KillQuery { id, host })
    }
}
