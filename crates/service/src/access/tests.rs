//! Who is let in, and what they may do.

use std::path::Path as FilePath;

use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::{Options, SystemClock};

use super::*;
use crate::define::{self, Change};
use crate::{Class, QueryOptions, Scope, Threads};

mod roles;

const TOKEN: &str = "0123456789abcdef";

fn engine() -> Arc<Engine> {
    let (disk, clock) = (Arc::new(MemoryDisk::default()), Arc::new(SystemClock));
    let engine = Engine::open(disk, clock, FilePath::new("/data"), Options::default()).unwrap();
    engine.create_database("d").unwrap();
    engine.create_database("e").unwrap();
    Arc::new(engine)
}

fn context(engine: Arc<Engine>) -> LanguageContext {
    LanguageContext::new(engine, Threads::of_caller(), QueryOptions::default())
}

fn password(user: &str, password: &str) -> Credentials {
    Credentials::Password {
        user: user.to_owned(),
        password: password.to_owned(),
    }
}

fn create(name: &str, is_admin: bool) -> UserChange {
    UserChange::Create {
        name: name.to_owned(),
        password: format!("{name}'s"),
        is_admin,
    }
}

fn grant(user: &str, place: Place<'_>, privileges: Privileges) -> UserChange {
    UserChange::Grant {
        user: user.to_owned(),
        grant: Grant {
            database: place.database.to_owned(),
            schema: place.schema.map(str::to_owned),
            table: place.table.map(str::to_owned),
            privileges,
        },
    }
}

async fn class(access: &Arc<Access>, shown: &[Credentials]) -> Class {
    access.login(shown).await.unwrap_err().class()
}

#[tokio::test]
async fn nobody_is_asked_unless_somebody_said_so() {
    let access = Access::new(&context(engine()), (None, None), false);
    assert!(access.login(&[]).await.unwrap().is_admin());
    assert!(
        access
            .login(&[password("x", "y")])
            .await
            .unwrap()
            .is_admin()
    );
}

#[tokio::test]
async fn the_token_is_an_administrators_credential_wherever_it_is_shown() {
    let token = Token::new(TOKEN, "the test").unwrap();
    let access = Access::new(&context(engine()), (Some(token), None), false);
    for shown in [
        password("", TOKEN),
        password("anybody", TOKEN),
        Credentials::Token(TOKEN.into()),
    ] {
        assert!(access.login(&[shown]).await.unwrap().is_admin());
    }
    let both = [password("x", "y"), Credentials::Token(TOKEN.into())];
    assert!(access.login(&both).await.unwrap().is_admin());
    assert_eq!(class(&access, &[]).await, Class::Unauthorized);
    assert_eq!(
        class(&access, &[password("x", "y")]).await,
        Class::Unauthorized
    );
}

#[tokio::test]
async fn a_store_without_an_administrator_lets_its_first_be_made_and_nothing_else() {
    let engine = engine();
    let access = Access::new(&context(Arc::clone(&engine)), (None, None), true);
    let founder = access.login(&[]).await.unwrap();
    let refused = founder
        .check(Privilege::Read, Place::database("d"))
        .unwrap_err();
    assert!(
        refused.to_string().starts_with("create admin user first"),
        "{refused}"
    );
    change_users(&access.engine, &founder, create("reader", false)).unwrap_err();
    let create_database = Change::CreateDatabase {
        name: "f".to_owned(),
        if_not_exists: false,
    };
    let scope = Scope::of_database("d");
    define::run(&engine, &founder, &scope, create_database).unwrap_err();
    change_users(&access.engine, &founder, create("root", true)).unwrap();
    // From here on it is closed.
    assert_eq!(class(&access, &[]).await, Class::Unauthorized);
    let root = access.login(&[password("root", "root's")]).await.unwrap();
    assert!(root.is_admin() && root.name() == Some("root"));
}

#[tokio::test]
async fn another_password_is_refused_also_after_the_right_one_was_remembered() {
    let access = Access::new(&context(engine()), (None, None), true);
    let founder = access.login(&[]).await.unwrap();
    change_users(&access.engine, &founder, create("root", true)).unwrap();
    let root = access.login(&[password("root", "root's")]).await.unwrap();
    for _ in 0..2 {
        assert!(access.login(&[password("root", "root's")]).await.is_ok());
        assert_eq!(
            class(&access, &[password("root", "roots")]).await,
            Class::Unauthorized
        );
        assert_eq!(
            class(&access, &[password("Root", "root's")]).await,
            Class::Unauthorized
        );
    }
    let change = UserChange::SetPassword {
        name: "root".to_owned(),
        password: "new".to_owned(),
    };
    assert!(!format!("{change:?}").contains("new"));
    change_users(&access.engine, &root, change).unwrap();
    assert_eq!(
        class(&access, &[password("root", "root's")]).await,
        Class::Unauthorized
    );
    assert!(access.login(&[password("root", "new")]).await.is_ok());
    change_users(&access.engine, &root, create("other", true)).unwrap();
    change_users(
        &access.engine,
        &root,
        UserChange::Drop {
            name: "root".to_owned(),
        },
    )
    .unwrap();
    assert_eq!(
        class(&access, &[password("root", "new")]).await,
        Class::Unauthorized
    );
    // Who is still there with an answer from before may nothing any more.
    assert!(!root.is_admin());
}

#[tokio::test]
async fn privileges_are_those_of_the_place_and_of_what_it_is_in() {
    let engine = engine();
    let access = Access::new(&context(Arc::clone(&engine)), (None, None), true);
    let founder = access.login(&[]).await.unwrap();
    change_users(&access.engine, &founder, create("root", true)).unwrap();
    let root = access.login(&[password("root", "root's")]).await.unwrap();
    change_users(&access.engine, &root, create("anna", false)).unwrap();
    let anna = access.login(&[password("anna", "anna's")]).await.unwrap();
    let may = |privilege, place| anna.check(privilege, place).is_ok();
    let (cpu, disk) = (
        Place::table("d", "raw", "cpu"),
        Place::table("d", "raw", "disk"),
    );
    let raw = Place { table: None, ..cpu };
    assert!(!may(Privilege::Read, cpu) && !anna.sees("d"));
    change_users(&access.engine, &root, grant("anna", cpu, Privileges::READ)).unwrap();
    assert!(may(Privilege::Read, cpu) && anna.sees("d") && !anna.sees("e"));
    assert!(
        !may(Privilege::Read, disk) && !may(Privilege::Read, raw) && !may(Privilege::Write, cpu)
    );
    change_users(&access.engine, &root, grant("anna", raw, Privileges::WRITE)).unwrap();
    assert!(
        may(Privilege::Write, disk) && may(Privilege::Write, cpu) && !may(Privilege::Read, disk)
    );
    change_users(
        &access.engine,
        &root,
        grant("anna", Place::database("d"), Privileges::ALL),
    )
    .unwrap();
    assert!(may(Privilege::Define, disk) && may(Privilege::Read, disk));
    assert!(!may(Privilege::Administer, disk) && !may(Privilege::Read, Place::database("e")));
    // She may not change what she may.
    change_users(
        &access.engine,
        &anna,
        grant("anna", Place::database("e"), Privileges::READ),
    )
    .unwrap_err();
    let revoke = UserChange::Revoke {
        user: "anna".to_owned(),
        grant: Grant {
            database: "d".to_owned(),
            schema: None,
            table: None,
            privileges: Privileges::ALL,
        },
    };
    change_users(&access.engine, &root, revoke).unwrap();
    assert!(!may(Privilege::Read, disk) && may(Privilege::Read, cpu));
    assert_eq!(
        grants_of(&access.engine.snapshot(), "anna").unwrap().len(),
        2
    );
    assert!(grants_of(&access.engine.snapshot(), "bert").is_none());
    // A name that is like one is offered, and what is not there cannot be granted.
    let unknown =
        change_users(&access.engine, &root, grant("ana", cpu, Privileges::READ)).unwrap_err();
    assert!(unknown.to_string().contains("\"anna\""), "{unknown}");
    change_users(
        &access.engine,
        &root,
        grant("anna", Place::database("nowhere"), Privileges::READ),
    )
    .unwrap_err();
}

/// A database that was dropped and made again is another one; one with another name is the same.
#[tokio::test]
async fn grants_follow_their_database_and_go_with_it() {
    let engine = engine();
    let access = Access::new(&context(Arc::clone(&engine)), (None, None), false);
    let anyone = Principal::anyone();
    change_users(&access.engine, &anyone, create("anna", false)).unwrap();
    for database in ["d", "e"] {
        change_users(
            &access.engine,
            &anyone,
            grant("anna", Place::database(database), Privileges::READ),
        )
        .unwrap();
    }
    let scope = Scope::of_database("d");
    let run = |change| define::run(&engine, &anyone, &scope, change);
    run(Change::DropDatabase {
        name: "d".to_owned(),
        if_exists: false,
    })
    .unwrap();
    run(Change::CreateDatabase {
        name: "d".to_owned(),
        if_not_exists: false,
    })
    .unwrap();
    run(Change::RenameDatabase {
        name: "e".to_owned(),
        to: "f".to_owned(),
    })
    .unwrap();
    let grants = grants_of(&access.engine.snapshot(), "anna").unwrap();
    let databases: Vec<&str> = grants.iter().map(|grant| grant.database.as_str()).collect();
    assert_eq!(databases, ["f"]);
}

/// Whoever could write there could make themselves an administrator.
#[test]
fn what_the_store_keeps_for_itself_is_nobody_elses() {
    let engine = engine();
    let access = Access::new(&context(Arc::clone(&engine)), (None, None), false);
    let anyone = Principal::anyone();
    change_users(&access.engine, &anyone, create("anna", false)).unwrap();
    let scope = Scope::of_database(INTERNAL_DATABASE);
    let drop = Change::DropDatabase {
        name: INTERNAL_DATABASE.to_owned(),
        if_exists: true,
    };
    let table = Change::DropTable {
        path: "system users".into(),
        if_exists: false,
    };
    for change in [drop, table] {
        let refused = define::run(&engine, &anyone, &scope, change).unwrap_err();
        assert_eq!(refused.class(), Class::Forbidden, "{refused}");
    }
    let snapshot = engine.snapshot();
    let schema = snapshot.default_schema(INTERNAL_DATABASE).unwrap();
    assert!(define::relations(&snapshot, INTERNAL_DATABASE, &schema).is_empty());
    for name in ["system users", "system grants"] {
        assert!(define::find_relation(&snapshot, INTERNAL_DATABASE, &schema, name).is_none());
    }
    assert_eq!(users_of(&access.engine.snapshot()).len(), 1);
}

/// A password of more than a kilobyte was refused at once where the user was there, and hashed where not, which told who is.
#[tokio::test]
async fn a_wrong_password_costs_one_hash_whether_the_user_is_there_or_not() {
    use super::password::runs;

    let engine = engine();
    change_users(&engine, &Principal::anyone(), create("root", true)).unwrap();
    let access = Access::new(&context(engine), (None, None), true);
    let long = "a long one ".repeat(200);
    for wrong in ["a wrong one", long.as_str()] {
        for (user, count) in [("root", 1), ("nobody", 2), ("root", 3)] {
            assert_eq!(
                class(&access, &[password(user, wrong)]).await,
                Class::Unauthorized
            );
            assert_eq!(runs::of(wrong), count, "{user}");
        }
    }
    // The right one is hashed once, and known then.
    for _ in 0..3 {
        access.login(&[password("root", "root's")]).await.unwrap();
    }
    let before = runs::of("root's");
    access.login(&[password("root", "root's")]).await.unwrap();
    assert_eq!(runs::of("root's"), before);
}
