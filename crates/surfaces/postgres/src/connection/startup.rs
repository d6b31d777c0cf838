//! The beginning of a connection: what the client wants, who it is, where it goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use nilometer_service::{Error, Language, Params, Principal, Session};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::TransactionStatus;
use pgwire::messages::startup::{
    Authentication, BackendKeyData, NegotiateProtocolVersion, ParameterStatus, SecretKey,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use crate::config::LANGUAGE;
use crate::settings::Settings;
use crate::shared::{Number, Shared};
use crate::sqlstate::{
    FEATURE_NOT_SUPPORTED, NOT_AUTHORIZED, PROTOCOL_VIOLATION, Refused, UNKNOWN_DATABASE,
};
use crate::wire::cursor::{Cursor, Malformed};
use crate::wire::frames::{Frames, Message, ReadError, Received};
use crate::wire::replies::{put, ready};

const TLS_CODE: i32 = 80_877_103;
const GSS_CODE: i32 = 80_877_104;
const CANCEL_CODE: i32 = 80_877_102;
const MAJOR: i32 = 3;

/// The one way to prove a password.
const SCRAM: &str = "SCRAM-SHA-256";

/// Databases that tools connect to in order to make others; made when they are first wanted.
const WELL_KNOWN: [&str; 2] = ["postgres", "template1"];

/// The first message.
#[derive(Debug)]
pub(crate) enum First {
    Tls,
    Gss,
    Cancel { number: i32, secret: i32 },
    Startup(Startup),
    Refused(Refused),
}

/// What a client wants.
#[derive(Debug)]
pub(crate) struct Startup {
    /// The minor version of the protocol.
    minor: i32,
    parameters: BTreeMap<String, String>,
}

/// A client that was let in.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) session: Session,
    pub(crate) settings: Settings,
    pub(crate) language: Arc<dyn Language>,
}

/// Reads the first message of a connection.
pub(crate) async fn first<R: AsyncRead + Unpin>(
    frames: &mut Frames<R>,
) -> Result<First, ReadError> {
    let body = frames.first().await?;
    match read_first(body) {
        Ok(first) => Ok(first),
        Err(Malformed) => Ok(First::Refused(Refused::new(
            PROTOCOL_VIOLATION,
            "invalid startup packet",
        ))),
    }
}

fn read_first(body: Bytes) -> Result<First, Malformed> {
    let mut body = Cursor(body);
    match body.i32()? {
        TLS_CODE => Ok(First::Tls),
        GSS_CODE => Ok(First::Gss),
        CANCEL_CODE => Ok(First::Cancel {
            number: body.i32()?,
            secret: body.i32()?,
        }),
        version if version >> 16 == MAJOR => {
            let mut parameters = BTreeMap::new();
            loop {
                let name = body.text()?;
                if name.is_empty() {
                    break;
                }
                parameters.insert(name, body.text()?);
            }
            body.end()?;
            Ok(First::Startup(Startup {
                minor: version & 0xffff,
                parameters,
            }))
        }
        version => Ok(First::Refused(Refused::new(
            FEATURE_NOT_SUPPORTED,
            format!(
                "unsupported frontend protocol {}.{}: server supports 3.0",
                version >> 16,
                version & 0xffff
            ),
        ))),
    }
}

/// Lets a client in, and says what it has to know. `None` = it is gone.
pub(crate) async fn enter<R: AsyncRead + Unpin>(
    shared: &Arc<Shared>,
    startup: Startup,
    number: &Number,
    frames: &mut Frames<R>,
    socket: &mut (impl AsyncWrite + Unpin),
) -> Result<Begun, Option<Refused>> {
    let mut out = BytesMut::new();
    let Startup { minor, parameters } = startup;
    let asked = parameters.keys().filter(|name| name.starts_with("_pq_."));
    let asked: Vec<String> = asked.cloned().collect();
    if minor > 0 || !asked.is_empty() {
        let message = NegotiateProtocolVersion::new(MAJOR << 16, asked);
        put(
            &mut out,
            &PgWireBackendMessage::NegotiateProtocolVersion(message),
        );
    }
    let user = parameters.get("user").filter(|user| !user.is_empty());
    let Some(user) = user else {
        return Err(Some(Refused::new(
            NOT_AUTHORIZED,
            "no PostgreSQL user name specified in startup packet",
        )));
    };
    let wants_replication = parameters
        .get("replication")
        .is_some_and(|value| !matches!(value.as_str(), "false" | "off" | "no" | "0"));
    if wants_replication {
        return Err(Some(Refused::unsupported(
            "replication connections are not supported",
        )));
    }
    let principal = authenticate(shared, user, frames, socket, &mut out).await?;
    let language = shared.service.language(LANGUAGE);
    let language = Arc::clone(language.map_err(|error| Some(Refused::from(error)))?);
    let database = parameters.get("database").filter(|name| !name.is_empty());
    let database = database.unwrap_or(user).clone();
    let mut session = Session::new(&database, principal);
    find_database(shared, &*language, &session)
        .await
        .map_err(Some)?;
    let mut settings = Settings::new(user);
    apply(&parameters, &mut settings, &mut session, &*language).map_err(Some)?;
    if !session.principal.is_admin() {
        settings.note("is_superuser", "off");
    }
    session.client = Some(Arc::new(
        settings.client(number.of, session.zone.as_deref()),
    ));
    put(
        &mut out,
        &PgWireBackendMessage::Authentication(Authentication::Ok),
    );
    let zone = session.zone.clone().unwrap_or_else(|| "UTC".to_owned());
    let told = settings.told().into_iter();
    for (name, value) in told.chain([("TimeZone".to_owned(), zone)]) {
        let message = ParameterStatus::new(name, value);
        put(&mut out, &PgWireBackendMessage::ParameterStatus(message));
    }
    let key = BackendKeyData::new(number.of, SecretKey::I32(number.secret));
    put(&mut out, &PgWireBackendMessage::BackendKeyData(key));
    ready(&mut out, TransactionStatus::Idle);
    socket.write_all(&out).await.map_err(|_| None)?;
    socket.flush().await.map_err(|_| None)?;
    Ok(Begun {
        session,
        settings,
        language,
    })
}

/// Finds out who it is.
async fn authenticate<R: AsyncRead + Unpin>(
    shared: &Arc<Shared>,
    user: &str,
    frames: &mut Frames<R>,
    socket: &mut (impl AsyncWrite + Unpin),
    out: &mut BytesMut,
) -> Result<Principal, Option<Refused>> {
    let access = shared.service.access();
    if !access.asks() {
        return Ok(Principal::anyone());
    }
    if !access.is_guarded() {
        return Err(Some(Refused::new(
            NOT_AUTHORIZED,
            "there are no users yet; make the first one over HTTP: POST /query with q=CREATE USER admin WITH PASSWORD '...' WITH ALL PRIVILEGES",
        )));
    }
    let mut scram = access.scram(user);
    let offer = Authentication::SASL(vec![SCRAM.to_owned()]);
    put(out, &PgWireBackendMessage::Authentication(offer));
    socket
        .write_all(&std::mem::take(out))
        .await
        .map_err(|_| None)?;
    socket.flush().await.map_err(|_| None)?;
    let mut begin = Cursor(password(frames).await?);
    let (method, first) = initial(&mut begin)
        .map_err(|Malformed| Some(Refused::new(PROTOCOL_VIOLATION, "malformed SASL message")))?;
    if method != SCRAM {
        return Err(Some(Refused::new(
            PROTOCOL_VIOLATION,
            "client selected an invalid SASL authentication mechanism",
        )));
    }
    let failed = |error: Error| {
        Some(match error {
            Error::WrongPassword | Error::WrongToken => Refused::new(
                crate::sqlstate::WRONG_PASSWORD,
                format!("password authentication failed for user \"{user}\""),
            ),
            other => Refused::new(NOT_AUTHORIZED, other.to_string()),
        })
    };
    let answer = scram.first(&first).map_err(failed)?;
    let more = Authentication::SASLContinue(Bytes::from(answer));
    put(out, &PgWireBackendMessage::Authentication(more));
    socket
        .write_all(&std::mem::take(out))
        .await
        .map_err(|_| None)?;
    socket.flush().await.map_err(|_| None)?;
    let last = password(frames).await?;
    let (answer, principal) = scram.last(&last).map_err(failed)?;
    let end = Authentication::SASLFinal(Bytes::from(answer));
    put(out, &PgWireBackendMessage::Authentication(end));
    Ok(principal)
}

fn initial(body: &mut Cursor) -> Result<(String, Bytes), Malformed> {
    let method = body.text()?;
    let data = body.value()?.ok_or(Malformed)?;
    body.end()?;
    Ok((method, data))
}

/// The next message of a client that proves its password.
async fn password<R: AsyncRead + Unpin>(frames: &mut Frames<R>) -> Result<Bytes, Option<Refused>> {
    let violation = || Some(Refused::new(PROTOCOL_VIOLATION, "expected SASL response"));
    match frames.next().await {
        Ok(Received::Frame(frame)) => match Message::of(frame.kind, frame.body) {
            Ok(Message::Password(bytes)) => Ok(bytes),
            Ok(Message::Terminate) => Err(None),
            _ => Err(violation()),
        },
        Ok(Received::Refused { .. }) | Err(ReadError::Malformed(_)) => Err(violation()),
        Err(ReadError::Gone) => Err(None),
    }
}

/// Refuses a database that is not there; those that tools connect to first are made.
async fn find_database(
    shared: &Shared,
    language: &dyn Language,
    session: &Session,
) -> Result<(), Refused> {
    let name = &session.database;
    let is_own = name == nilometer_service::INTERNAL_DATABASE;
    if !is_own && shared.service.snapshot().schemas(name).is_some() {
        return Ok(());
    }
    if WELL_KNOWN.contains(&name.as_str()) && session.principal.is_admin() {
        let create = format!("CREATE DATABASE IF NOT EXISTS {name}");
        session.run(language, &create, &Params::new()).await?;
        return Ok(());
    }
    Err(Refused::new(
        UNKNOWN_DATABASE,
        format!("database \"{name}\" does not exist"),
    ))
}

/// Takes over what the client sets from the beginning.
fn apply(
    parameters: &BTreeMap<String, String>,
    settings: &mut Settings,
    session: &mut Session,
    language: &dyn Language,
) -> Result<(), Refused> {
    let mut set = |name: &str, value: &str| -> Result<(), Refused> {
        if name.eq_ignore_ascii_case("timezone") {
            let zone = language.time_zone(value).map_err(|error| {
                Refused::new(crate::sqlstate::INVALID_PARAMETER_VALUE, error.to_string())
            })?;
            session.zone = Some(zone).filter(|zone| zone != "UTC");
            return Ok(());
        }
        settings.set(name, Some(value)).map(drop)
    };
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => {
                for (name, value) in options(value) {
                    set(&name, &value)?;
                }
            }
            name if name.starts_with("_pq_.") => {}
            // What a client sends to every server that it knows need not be known here.
            name => {
                if let Err(refused) = set(name, value)
                    && refused.code != crate::sqlstate::UNKNOWN_SETTING
                {
                    return Err(refused);
                }
            }
        }
    }
    session.schema = settings.schema();
    session.is_read_only = settings.is_read_only();
    Ok(())
}

/// Names and values of `-c name=value --other=value`; a backslash makes a blank a part of a value.
fn options(text: &str) -> Vec<(String, String)> {
    let mut words = vec![String::new()];
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        let word = words.last_mut();
        match (letter, word) {
            ('\\', Some(word)) => word.extend(letters.next()),
            (blank, Some(word)) if blank.is_whitespace() => {
                if !word.is_empty() {
                    words.push(String::new());
                }
            }
            (letter, Some(word)) => word.push(letter),
            (_, None) => {}
        }
    }
    let mut found = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next()
        } else if let Some(rest) = word.strip_prefix("-c") {
            Some(rest.to_owned())
        } else {
            word.strip_prefix("--").map(str::to_owned)
        };
        if let Some((name, value)) = setting.as_deref().and_then(|it| it.split_once('=')) {
            found.push((name.replace('-', "_"), value.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let read = |text: &str| options(text);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            read("-c search_path=a,b --statement-timeout=5s -cx.y=a\\ b -e"),
            [
                pair("search_path", "a,b"),
                pair("statement_timeout", "5s"),
                pair("x.y", "a b")
            ]
        );
        assert_eq!(read(""), []);
    }

    #[test]
    fn first_messages_are_told_apart() {
        let read = |bytes: &[u8]| read_first(Bytes::copy_from_slice(bytes));
        assert!(matches!(read(&TLS_CODE.to_be_bytes()), Ok(First::Tls)));
        assert!(matches!(read(&GSS_CODE.to_be_bytes()), Ok(First::Gss)));
        let cancel = [
            CANCEL_CODE.to_be_bytes(),
            7i32.to_be_bytes(),
            9i32.to_be_bytes(),
        ]
        .concat();
        assert!(matches!(
            read(&cancel),
            Ok(First::Cancel {
                number: 7,
                secret: 9
            })
        ));
        let startup = b"\0\x03\0\0user\0ada\0database\0d\0\0";
        let Ok(First::Startup(startup)) = read(startup) else {
            panic!("it is one")
        };
        assert_eq!(startup.parameters["database"], "d");
        assert!(matches!(read(b"\0\x02\0\0\0"), Ok(First::Refused(_))));
        for cut in 4..25 {
            assert!(
                read(&b"\0\x03\0\0user\0ada\0database\0d\0\0"[..cut]).is_err(),
                "{cut}"
            );
        }
    }
}
