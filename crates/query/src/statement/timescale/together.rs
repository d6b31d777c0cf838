//! Calls about all policies of a continuous aggregate at once: `add_policies` and its like.
//!
//! Does: read their arguments. Does not: carry them out (`write/call/together.rs` does).

use nilometer_service::define::{Age, Path, Policy};

use super::arguments::{Arguments, plan};
use super::what::What;
use crate::error::Error;

const OF_CHANGE: [&str; 6] = [
    "relation",
    "if_not_exists",
    "refresh_start_offset",
    "refresh_end_offset",
    "compress_after",
    "drop_after",
];
const OF_ALTER: [&str; 6] = [
    "relation",
    "if_exists",
    "refresh_start_offset",
    "refresh_end_offset",
    "compress_after",
    "drop_after",
];
/// Names of policies come one by one; there are three kinds, and one has two names.
const OF_REMOVE: [&str; 6] = [
    "relation",
    "if_exists",
    "policy_names",
    "policy_name_2",
    "policy_name_3",
    "policy_name_4",
];

/// A kind of policy that a continuous aggregate may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PolicyOfView {
    Refresh,
    Of(Policy),
}

impl PolicyOfView {
    pub(crate) const ALL: [Self; 3] = [
        Self::Refresh,
        Self::Of(Policy::Compression),
        Self::Of(Policy::Retention),
    ];

    fn named(name: &str) -> Option<Self> {
        match name {
            "policy_refresh_continuous_aggregate" => Some(Self::Refresh),
            "policy_compression" | "policy_columnstore" => Some(Self::Of(Policy::Compression)),
            "policy_retention" => Some(Self::Of(Policy::Retention)),
            _ => None,
        }
    }
}

/// What several policies are to be; `None` = it was not said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Policies {
    pub(crate) start: Option<Age>,
    pub(crate) end: Option<Age>,
    pub(crate) compress_after: Option<Age>,
    pub(crate) drop_after: Option<Age>,
}

impl Policies {
    /// The kinds that something is said of, in an order in which each is checked against those before.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = PolicyOfView> {
        let is_refresh = self.start.is_some() || self.end.is_some();
        let said = [
            is_refresh,
            self.compress_after.is_some(),
            self.drop_after.is_some(),
        ];
        let all = PolicyOfView::ALL.into_iter().zip(said);
        all.filter_map(|(kind, is_said)| is_said.then_some(kind))
    }
}

/// A call about several policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Together {
    /// Those that are there may be no error.
    Add(Policies, bool),
    /// Those that are missing may be no error.
    Alter(Policies, bool),
    /// Those that are missing may be no error.
    Remove(Vec<PolicyOfView>, bool),
    Show,
}

/// The arguments of a call by place; `None` = it is another call.
pub(super) fn places(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "add_policies" => &OF_CHANGE,
        "alter_policies" => &OF_ALTER,
        "remove_policies" => &OF_REMOVE,
        "remove_all_policies" => &["relation", "if_exists"],
        "show_policies" => &["relation"],
        _ => return None,
    })
}

/// Reads a call.
pub(super) fn read(function: &str, given: &mut Arguments) -> Result<What, Error> {
    let path: Path = given.table("relation")?;
    let call = match function {
        "add_policies" => {
            let new = said(given)?;
            Together::Add(new, given.is("if_not_exists", false)?)
        }
        "alter_policies" => {
            let new = said(given)?;
            Together::Alter(new, given.is("if_exists", false)?)
        }
        "remove_policies" => {
            let if_exists = given.is("if_exists", false)?;
            let mut kinds = Vec::new();
            for place in OF_REMOVE.iter().skip(2) {
                if let Some(name) = given.text(place)? {
                    let kind = PolicyOfView::named(&name).ok_or_else(|| {
                        plan(
                            format!(
                                "there is no policy {name:?}: they are policy_refresh_continuous_aggregate, policy_compression and policy_retention"
                            ),
                            given.position,
                        )
                    })?;
                    kinds.push(kind);
                }
            }
            if kinds.is_empty() {
                return Err(given.wrong("policy_names", "one name or more, and is missing"));
            }
            Together::Remove(kinds, if_exists)
        }
        "remove_all_policies" => {
            // Those that are there: not each has all.
            given.is("if_exists", false)?;
            Together::Remove(PolicyOfView::ALL.to_vec(), true)
        }
        _ => Together::Show,
    };
    Ok(What::Together(path, call))
}

fn said(given: &mut Arguments) -> Result<Policies, Error> {
    let mut age = |name: &str| {
        let value = given.take(name);
        value.map(|value| given.as_age(name, value)).transpose()
    };
    let said = Policies {
        start: age("refresh_start_offset")?,
        end: age("refresh_end_offset")?,
        compress_after: age("compress_after")?,
        drop_after: age("drop_after")?,
    };
    if said.kinds().next().is_none() {
        return Err(given.wrong(
            "relation",
            "followed by one policy or more: refresh_start_offset, refresh_end_offset, compress_after, drop_after",
        ));
    }
    Ok(said)
}
