//! SHOW.

use super::{Parsed, Parser, unexpected};
use crate::ast::{Cardinality, KeyChoice, KeyOperator, Listing, Show, ShowMeasurements};
use crate::token::Kind;

impl Parser<'_> {
    pub(super) fn show(&mut self) -> Parsed<Show> {
        let token = self.next();
        match token.kind {
            Kind::Continuous => self.expect(Kind::Queries).map(|()| Show::ContinuousQueries),
            Kind::Databases => Ok(Show::Databases),
            Kind::Diagnostics => self.module().map(Show::Diagnostics),
            Kind::Field => self.show_field(),
            Kind::Grants => {
                self.expect(Kind::For)?;
                self.ident().map(Show::GrantsFor)
            }
            Kind::Measurement => {
                let token = self.next();
                match token.kind {
                    Kind::Exact => self.expect(Kind::Cardinality)?,
                    Kind::Cardinality => {}
                    _ => return Err(unexpected(&token, &["EXACT", "CARDINALITY"])),
                }
                let exact = token.kind == Kind::Exact;
                self.cardinality(exact).map(Show::MeasurementCardinality)
            }
            Kind::Measurements => self.show_measurements().map(Show::Measurements),
            Kind::Queries => Ok(Show::Queries),
            Kind::Retention => {
                self.expect(Kind::Policies)?;
                self.on().map(Show::RetentionPolicies)
            }
            Kind::Series => self.show_series(),
            Kind::Shard => self.expect(Kind::Groups).map(|()| Show::ShardGroups),
            Kind::Shards => Ok(Show::Shards),
            Kind::Stats => self.module().map(Show::Stats),
            Kind::Subscriptions => Ok(Show::Subscriptions),
            Kind::Tag => self.show_tag(),
            Kind::Users => Ok(Show::Users),
            _ => Err(unexpected(
                &token,
                &[
                    "CONTINUOUS",
                    "DATABASES",
                    "DIAGNOSTICS",
                    "FIELD",
                    "GRANTS",
                    "MEASUREMENT",
                    "MEASUREMENTS",
                    "QUERIES",
                    "RETENTION",
                    "SERIES",
                    "SHARD",
                    "SHARDS",
                    "STATS",
                    "SUBSCRIPTIONS",
                    "TAG",
                    "USERS",
                ],
            )),
        }
    }

    fn on(&mut self) -> Parsed<Option<String>> {
        if self.accept(Kind::On) {
            self.ident().map(Some)
        } else {
            Ok(None)
        }
    }

    fn module(&mut self) -> Parsed<Option<String>> {
        if self.accept(Kind::For) {
            self.text().map(Some)
        } else {
            Ok(None)
        }
    }

    fn show_field(&mut self) -> Parsed<Show> {
        let token = self.next();
        match token.kind {
            Kind::Key => {
                let exact = self.exact_cardinality()?;
                self.cardinality(exact).map(Show::FieldKeyCardinality)
            }
            Kind::Keys => {
                let mut listing = self.on_from()?;
                self.order_and_limits(&mut listing)?;
                Ok(Show::FieldKeys(listing))
            }
            _ => Err(unexpected(&token, &["KEY", "KEYS"])),
        }
    }

    fn show_tag(&mut self) -> Parsed<Show> {
        let token = self.next();
        match token.kind {
            Kind::Key => {
                let exact = self.exact_cardinality()?;
                self.cardinality(exact).map(Show::TagKeyCardinality)
            }
            Kind::Keys => {
                let mut listing = self.on_from()?;
                let with = self.accept(Kind::With);
                if with {
                    self.back();
                }
                let key = if with { Some(self.key_choice()?) } else { None };
                listing.condition = self.condition()?;
                self.order_and_limits(&mut listing)?;
                listing.slimit = self.limit(Kind::SLimit)?;
                listing.soffset = self.limit(Kind::SOffset)?;
                Ok(Show::TagKeys(key, listing))
            }
            Kind::Values => self.show_tag_values(),
            _ => Err(unexpected(&token, &["KEY", "KEYS", "VALUES"])),
        }
    }

    fn show_tag_values(&mut self) -> Parsed<Show> {
        let token = self.next();
        if matches!(token.kind, Kind::Exact | Kind::Cardinality) {
            let exact = token.kind == Kind::Exact;
            if exact {
                self.expect(Kind::Cardinality)?;
            }
            let Listing {
                database, sources, ..
            } = self.on_from()?;
            let key = self.key_choice()?;
            let mut cardinality = Cardinality {
                exact,
                database,
                sources,
                ..Cardinality::default()
            };
            self.rest_of_cardinality(&mut cardinality)?;
            return Ok(Show::TagValuesCardinality(key, cardinality));
        }
        self.back();
        let mut listing = self.on_from()?;
        let key = self.key_choice()?;
        listing.condition = self.condition()?;
        self.order_and_limits(&mut listing)?;
        Ok(Show::TagValues(key, listing))
    }

    fn show_series(&mut self) -> Parsed<Show> {
        let exact = self.accept(Kind::Exact);
        if self.accept(Kind::Cardinality) {
            return self.cardinality(exact).map(Show::SeriesCardinality);
        }
        let mut listing = self.on_from()?;
        listing.condition = self.condition()?;
        self.order_and_limits(&mut listing)?;
        Ok(Show::Series(listing))
    }

    fn show_measurements(&mut self) -> Parsed<ShowMeasurements> {
        let mut shown = ShowMeasurements::default();
        if self.accept(Kind::On) {
            let (every, name) = self.ident_or_all()?;
            (shown.every_database, shown.listing.database) = (every, name);
            if self.accept(Kind::Dot) {
                (shown.every_policy, shown.policy) = self.ident_or_all()?;
            }
        }
        if self.accept(Kind::With) {
            self.expect(Kind::Measurement)?;
            let token = self.next();
            if !matches!(token.kind, Kind::Eq | Kind::Match) {
                return Err(unexpected(&token, &["=", "=~"]));
            }
            shown.with = Some(self.source(false)?);
        }
        shown.listing.condition = self.condition()?;
        self.order_and_limits(&mut shown.listing)?;
        Ok(shown)
    }

    fn ident_or_all(&mut self) -> Parsed<(bool, Option<String>)> {
        let token = self.next();
        match token.kind {
            Kind::Ident => Ok((false, Some(token.text.into_owned()))),
            Kind::Mul => Ok((true, None)),
            _ => Err(unexpected(&token, &["identifier or *"])),
        }
    }

    fn exact_cardinality(&mut self) -> Parsed<bool> {
        let exact = self.accept(Kind::Exact);
        let token = self.next();
        match (token.kind, exact) {
            (Kind::Cardinality, _) => Ok(exact),
            (_, true) => Err(unexpected(&token, &["CARDINALITY"])),
            (_, false) => Err(unexpected(&token, &["EXACT", "CARDINALITY"])),
        }
    }

    /// `[ON database] [FROM sources]`
    fn on_from(&mut self) -> Parsed<Listing> {
        let database = self.on()?;
        let sources = if self.accept(Kind::From) {
            self.sources(false)?
        } else {
            Vec::new()
        };
        Ok(Listing {
            database,
            sources,
            ..Listing::default()
        })
    }

    fn order_and_limits(&mut self, listing: &mut Listing) -> Parsed<()> {
        listing.order = self.order()?;
        listing.limit = self.limit(Kind::Limit)?;
        listing.offset = self.limit(Kind::Offset)?;
        Ok(())
    }

    fn cardinality(&mut self, exact: bool) -> Parsed<Cardinality> {
        let Listing {
            database, sources, ..
        } = self.on_from()?;
        let mut cardinality = Cardinality {
            exact,
            database,
            sources,
            ..Cardinality::default()
        };
        self.rest_of_cardinality(&mut cardinality)?;
        Ok(cardinality)
    }

    fn rest_of_cardinality(&mut self, cardinality: &mut Cardinality) -> Parsed<()> {
        cardinality.condition = self.condition()?;
        cardinality.dimensions = self.dimensions()?;
        cardinality.limit = self.limit(Kind::Limit)?;
        cardinality.offset = self.limit(Kind::Offset)?;
        Ok(())
    }

    fn key_choice(&mut self) -> Parsed<KeyChoice> {
        self.expect(Kind::With)?;
        self.expect(Kind::Key)?;
        let token = self.next();
        let operator = match token.kind {
            Kind::Eq | Kind::Match => KeyOperator::Is,
            _ => KeyOperator::IsNot,
        };
        match token.kind {
            Kind::In => {
                self.expect(Kind::LeftParen)?;
                let keys = self.idents()?;
                self.expect(Kind::RightParen)?;
                Ok(KeyChoice::In(keys))
            }
            Kind::Eq | Kind::NotEq => self.ident().map(|key| KeyChoice::Name(operator, key)),
            Kind::Match | Kind::NotMatch => self
                .required_regex()
                .map(|pattern| KeyChoice::Pattern(operator, pattern)),
            _ => Err(unexpected(&token, &["IN", "=", "=~"])),
        }
    }
}
