//! Roles as SQL makes them: verifiers of clients, logins taken away, names, grants of what is renamed and dropped.

use nilometer_engine::{ColumnKind, Declared, DeclaredTable, PhysicalType, TableSettings};

use super::*;
use crate::define::{Column, Path, TableChange};

/// The verifier of RFC 7677's example, of the password `pencil`.
const PENCIL: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

fn options(password: &str, is_admin: bool) -> RoleOptions {
    RoleOptions {
        password: Some(NewPassword::of(password).unwrap()),
        is_admin: Some(is_admin),
        can_login: Some(true),
    }
}

fn made(engine: &Arc<Engine>, name: &str, options: RoleOptions) {
    let name = name.to_owned();
    change_users(
        engine,
        &Principal::anyone(),
        UserChange::CreateRole { name, options },
    )
    .unwrap();
}

fn altered(name: &str, options: RoleOptions) -> UserChange {
    let name = name.to_owned();
    UserChange::AlterRole { name, options }
}

/// A store that asks everybody, with an administrator and a role that sent its verifier.
fn peopled() -> (Arc<Engine>, Arc<Access>) {
    let engine = engine();
    let access = Access::new(&context(Arc::clone(&engine)), (None, None), true);
    made(&engine, "root", options("root's", true));
    made(&engine, "anna", options(PENCIL, false));
    (engine, access)
}

#[tokio::test]
async fn who_sent_a_verifier_logs_in_with_the_password() {
    let (engine, access) = peopled();
    for _ in 0..2 {
        assert!(access.login(&[password("anna", "pencil")]).await.is_ok());
        for wrong in ["Pencil", "", PENCIL] {
            let refused = class(&access, &[password("anna", wrong)]).await;
            assert_eq!(refused, Class::Unauthorized, "{wrong}");
        }
    }
    // Another password ends what was remembered of the first; so does the same one with another salt.
    let new = RoleOptions {
        password: Some(NewPassword::Nothing),
        ..RoleOptions::default()
    };
    change_users(&engine, &Principal::anyone(), altered("anna", new)).unwrap();
    for wrong in ["pencil", ""] {
        let refused = class(&access, &[password("anna", wrong)]).await;
        assert_eq!(refused, Class::Unauthorized, "{wrong}");
    }
}

#[tokio::test]
async fn a_login_that_was_taken_away_comes_back_with_its_password() {
    let (engine, access) = peopled();
    for (name, right) in [("anna", "pencil"), ("root", "root's")] {
        access.login(&[password(name, right)]).await.unwrap();
        let change = |can_login| {
            let options = RoleOptions {
                can_login: Some(can_login),
                ..RoleOptions::default()
            };
            change_users(&engine, &Principal::anyone(), altered(name, options)).unwrap();
        };
        change(false);
        for shown in [right, &format!("!{right}"), "!", ""] {
            let refused = class(&access, &[password(name, shown)]).await;
            assert_eq!(refused, Class::Unauthorized, "{shown}");
        }
        // A new password does not bring it back, and it is not to be had twice.
        let new = UserChange::SetPassword {
            name: name.to_owned(),
            password: "another".to_owned(),
        };
        change_users(&engine, &Principal::anyone(), new).unwrap();
        let refused = class(&access, &[password(name, "another")]).await;
        assert_eq!(refused, Class::Unauthorized);
        change(false);
        change(true);
        assert!(access.login(&[password(name, "another")]).await.is_ok());
    }
}

#[tokio::test]
async fn a_user_changes_their_own_password_and_nothing_else() {
    let (engine, access) = peopled();
    let anna = access.login(&[password("anna", "pencil")]).await.unwrap();
    let refused = |change| {
        let refused = change_users(&engine, &anna, change).unwrap_err();
        assert_eq!(refused.class(), Class::Forbidden, "{refused}");
    };
    refused(altered("anna", options("x", true)));
    refused(altered(
        "root",
        RoleOptions {
            password: Some(NewPassword::Text("x".to_owned())),
            ..RoleOptions::default()
        },
    ));
    refused(UserChange::CreateRole {
        name: "bert".to_owned(),
        options: options("x", false),
    });
    refused(UserChange::RenameRole {
        name: "anna".to_owned(),
        to: "root2".to_owned(),
    });
    refused(UserChange::DropRoles {
        names: vec!["root".to_owned()],
        if_exists: true,
    });
    let own = RoleOptions {
        password: Some(NewPassword::Text("mine".to_owned())),
        ..RoleOptions::default()
    };
    change_users(&engine, &anna, altered("anna", own)).unwrap();
    assert!(access.login(&[password("anna", "mine")]).await.is_ok());
}

/// `ALTER ROLE root NOSUPERUSER` of the only administrator opened the store to whoever came first.
#[tokio::test]
async fn an_administrator_stays_one_by_their_own_word() {
    let (engine, access) = peopled();
    let root = access.login(&[password("root", "root's")]).await.unwrap();
    for (is_admin, can_login) in [(Some(false), None), (None, Some(false))] {
        let less = RoleOptions {
            is_admin,
            can_login,
            ..RoleOptions::default()
        };
        let refused = change_users(&engine, &root, altered("root", less.clone())).unwrap_err();
        assert!(
            refused.to_string().contains("another administrator"),
            "{refused}"
        );
        change_users(&engine, &root, altered("anna", less)).unwrap();
    }
    change_users(&engine, &root, altered("root", options("new", true))).unwrap();
    assert!(access.login(&[password("root", "new")]).await.is_ok());
}

#[tokio::test]
async fn who_founds_a_store_makes_an_administrator_who_can_log_in() {
    let engine = engine();
    let access = Access::new(&context(Arc::clone(&engine)), (None, None), true);
    let founder = access.login(&[]).await.unwrap();
    let create = |options| UserChange::CreateRole {
        name: "root".to_owned(),
        options,
    };
    let right = options("root's", true);
    for wrong in [
        options("root's", false),
        options("", true),
        RoleOptions {
            can_login: Some(false),
            ..right.clone()
        },
        RoleOptions {
            password: None,
            ..right.clone()
        },
    ] {
        change_users(&engine, &founder, create(wrong)).unwrap_err();
    }
    change_users(&engine, &founder, create(right)).unwrap();
    assert!(access.login(&[password("root", "root's")]).await.is_ok());
    assert_eq!(class(&access, &[]).await, Class::Unauthorized);
}

#[tokio::test]
async fn a_renamed_role_keeps_what_it_has() {
    let (engine, access) = peopled();
    let anyone = Principal::anyone();
    let place = Place::database("d");
    change_users(&engine, &anyone, grant("anna", place, Privileges::READ)).unwrap();
    let rename = |name: &str, to: &str| UserChange::RenameRole {
        name: name.to_owned(),
        to: to.to_owned(),
    };
    let taken = change_users(&engine, &anyone, rename("anna", "root")).unwrap_err();
    assert!(taken.to_string().contains("already exists"), "{taken}");
    for reserved in ["public", "none", "nilometer", "pg_read_all_data"] {
        change_users(&engine, &anyone, rename("anna", reserved)).unwrap_err();
    }
    let before = access.login(&[password("anna", "pencil")]).await.unwrap();
    change_users(&engine, &anyone, rename("anna", "berta")).unwrap();
    let berta = access.login(&[password("berta", "pencil")]).await.unwrap();
    assert!(berta.check(Privilege::Read, place).is_ok());
    assert!(before.check(Privilege::Read, place).is_err());
    assert_eq!(
        class(&access, &[password("anna", "pencil")]).await,
        Class::Unauthorized
    );
    assert!(grants_of(&engine.snapshot(), "anna").is_none());
    // Another one of the name before has nothing of it.
    made(&engine, "anna", options("x", false));
    assert_eq!(grants_of(&engine.snapshot(), "anna").unwrap(), []);
    // Nobody drops or renames who they are.
    let root = access.login(&[password("root", "root's")]).await.unwrap();
    change_users(&engine, &root, rename("root", "other")).unwrap_err();
    let drop = |name: &str| UserChange::DropRoles {
        names: vec!["anna".to_owned(), name.to_owned()],
        if_exists: false,
    };
    change_users(&engine, &root, drop("root")).unwrap_err();
    change_users(&engine, &root, drop("nobody")).unwrap_err();
    assert_eq!(users_of(&engine.snapshot()).len(), 3);
    change_users(&engine, &root, drop("berta")).unwrap();
    assert_eq!(users_of(&engine.snapshot()).len(), 1);
}

fn granted(engine: &Arc<Engine>, table: &str) -> bool {
    let place = Place::table("d", "public", table);
    let held = privileges_of(&engine.snapshot(), "anna", place);
    held.unwrap().has(Privilege::Read)
}

/// The story: `GRANT` of a table outlived it, so whoever had been granted `salaries` read the next table of that name; and a table
/// that was renamed had lost its grants.
#[tokio::test]
async fn grants_follow_their_table_and_schema_and_go_with_them() {
    let (engine, _) = peopled();
    let anyone = Principal::anyone();
    let scope = Scope {
        database: "d".to_owned(),
        schema: Some("public".to_owned()),
    };
    let run = |change| define::run(&engine, &anyone, &scope, change);
    let create = |name: &str| Change::CreateTable {
        path: name.into(),
        if_not_exists: true,
        columns: vec![Column {
            name: "v".to_owned(),
            kind: ColumnKind::Field(PhysicalType::F64),
            declared: Declared::default(),
        }],
        settings: TableSettings::default(),
        declared: DeclaredTable::default(),
        is_hypertable: false,
        payload: None,
    };
    let drop = |name: &str| Change::DropTable {
        path: name.into(),
        if_exists: false,
    };
    run(create("t")).unwrap();
    let give = |table: &str| {
        let place = Place::table("d", "public", table);
        change_users(&engine, &anyone, grant("anna", place, Privileges::READ)).unwrap();
    };
    give("t");
    // One that is there keeps them, whatever is asked of it.
    run(create("t")).unwrap();
    run(drop("nothing")).unwrap_err();
    assert!(granted(&engine, "t"));
    run(Change::AlterTable {
        path: "t".into(),
        if_exists: false,
        change: TableChange::Rename { to: "u".to_owned() },
        seen: None,
    })
    .unwrap();
    assert!(!granted(&engine, "t") && granted(&engine, "u"));
    run(drop("u")).unwrap();
    run(create("u")).unwrap();
    assert!(!granted(&engine, "u"));
    // All that a stop between the two records leaves: the table is gone, and its grant is there.
    give("u");
    engine.drop_table("d", "public", "u").unwrap();
    assert!(granted(&engine, "u"));
    run(create("u")).unwrap();
    assert!(!granted(&engine, "u"));
    // A schema takes along what is in it.
    give("u");
    let schema = Place::schema("d", "public");
    change_users(&engine, &anyone, grant("anna", schema, Privileges::WRITE)).unwrap();
    run(Change::RenameSchema {
        path: Path::from("public"),
        to: "renamed".to_owned(),
    })
    .unwrap();
    let held = |schema| {
        let place = Place::table("d", schema, "u");
        privileges_of(&engine.snapshot(), "anna", place).unwrap()
    };
    assert_eq!(held("public"), Privileges::default());
    assert_eq!(held("renamed"), Privileges::READ.with(Privileges::WRITE));
}

#[test]
fn what_is_held_for_a_wider_place_is_not_revoked_in_a_narrower_one() {
    let (engine, _) = peopled();
    let anyone = Principal::anyone();
    let (wide, narrow) = (Place::schema("d", "s"), Place::table("d", "s", "t"));
    for place in [wide, narrow] {
        change_users(&engine, &anyone, grant("anna", place, Privileges::READ)).unwrap();
    }
    let revoke = |place: Place<'_>, with_parts| {
        let grants = vec![Grant {
            database: place.database.to_owned(),
            schema: place.schema.map(str::to_owned),
            table: place.table.map(str::to_owned),
            privileges: Privileges::READ,
        }];
        let users = vec!["anna".to_owned()];
        change_users(
            &engine,
            &anyone,
            UserChange::RevokeAll {
                users,
                grants,
                with_parts,
            },
        )
    };
    let held = |place| privileges_of(&engine.snapshot(), "anna", place).unwrap();
    let refused = revoke(narrow, false).unwrap_err();
    assert!(refused.to_string().contains("schema \"s\""), "{refused}");
    assert_eq!(held(narrow), Privileges::READ);
    revoke(wide, false).unwrap();
    assert_eq!(
        (held(wide), held(narrow)),
        (Privileges::default(), Privileges::READ)
    );
    change_users(&engine, &anyone, grant("anna", wide, Privileges::READ)).unwrap();
    revoke(wide, true).unwrap();
    assert_eq!(held(narrow), Privileges::default());
}

/// The story: a change read a user, another one wrote the user, and the first wrote what it had read: a `NOSUPERUSER` beside a new
/// password was lost now and then.
#[test]
fn changes_at_the_same_moment_are_all_kept() {
    let (engine, _) = peopled();
    for round in 0..20 {
        let is_admin = round % 2 == 0;
        std::thread::scope(|scope| {
            for options in [
                RoleOptions {
                    password: Some(NewPassword::Scram(PENCIL.to_owned())),
                    ..RoleOptions::default()
                },
                RoleOptions {
                    is_admin: Some(is_admin),
                    ..RoleOptions::default()
                },
                RoleOptions {
                    can_login: Some(is_admin),
                    ..RoleOptions::default()
                },
            ] {
                let engine = &engine;
                scope.spawn(move || {
                    let anyone = Principal::anyone();
                    change_users(engine, &anyone, altered("anna", options)).unwrap();
                });
            }
        });
        let anna = store::user(&engine.snapshot(), "anna").unwrap();
        assert_eq!(
            (anna.is_admin, anna.can_login),
            (is_admin, is_admin),
            "{round}"
        );
        let made = std::thread::scope(|scope| {
            let engine = &engine;
            let create = |nth: usize| {
                let name = format!("made {round}");
                let options = options("", nth == 0);
                let anyone = Principal::anyone();
                change_users(engine, &anyone, UserChange::CreateRole { name, options }).is_ok()
            };
            let all = [0, 1, 2].map(|nth| scope.spawn(move || create(nth)));
            all.map(|one| one.join().unwrap())
        });
        assert_eq!(made.iter().filter(|it| **it).count(), 1, "{made:?}");
    }
}
