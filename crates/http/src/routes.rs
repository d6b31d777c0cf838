//! Routes of surfaces on the one HTTP listener.
//!
//! Does: say what a surface gives, mount the routes of several, answer what none of them knows. Does not: know a surface.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::MethodRouter;

use crate::error::{ErrorResponse, Words};
use crate::http::Http;
use crate::request;

/// A surface that is spoken over HTTP.
pub trait Routes: fmt::Debug + Send + Sync {
    /// Its routes. Their handlers keep what they need of `http`: the service, the limits of bodies.
    fn routes(&self, http: &Arc<Http>) -> Vec<Route>;
}

/// One address and what holds for it. Without more said, it asks for the token and answers errors in our own words.
#[derive(Debug)]
#[must_use]
pub struct Route<S = ()> {
    path: &'static str,
    methods: Vec<&'static str>,
    is_open: bool,
    is_signed: bool,
    words: &'static Words,
    handlers: MethodRouter<S>,
}

impl<S: Clone + Send + Sync + 'static> Route<S> {
    /// An address without a method yet.
    pub fn new(path: &'static str) -> Self {
        Self {
            path,
            methods: Vec::new(),
            is_open: false,
            is_signed: false,
            words: Words::own(),
            handlers: MethodRouter::new(),
        }
    }

    /// Takes GET, and HEAD with it.
    pub fn get<T: 'static>(mut self, handler: impl Handler<T, S>) -> Self {
        self.methods.push("GET");
        self.handlers = self.handlers.get(handler);
        self
    }

    /// Takes POST.
    pub fn post<T: 'static>(mut self, handler: impl Handler<T, S>) -> Self {
        self.methods.push("POST");
        self.handlers = self.handlers.post(handler);
        self
    }

    /// Takes PATCH.
    pub fn patch<T: 'static>(mut self, handler: impl Handler<T, S>) -> Self {
        self.methods.push("PATCH");
        self.handlers = self.handlers.patch(handler);
        self
    }

    /// Takes DELETE.
    pub fn delete<T: 'static>(mut self, handler: impl Handler<T, S>) -> Self {
        self.methods.push("DELETE");
        self.handlers = self.handlers.delete(handler);
        self
    }

    /// Nobody is asked for the token.
    pub fn open(mut self) -> Self {
        self.is_open = true;
        self
    }

    /// Nobody is asked for the token, because the handler checks a signature of the whole request.
    pub fn signed(mut self) -> Self {
        self.is_signed = true;
        self
    }

    /// Answers errors in these words.
    pub fn words(mut self, words: &'static Words) -> Self {
        self.words = words;
        self
    }

    /// With what its handlers share.
    pub fn with_state(self, state: S) -> Route {
        let Self {
            path,
            methods,
            is_open,
            is_signed,
            words,
            handlers,
        } = self;
        Route {
            path,
            methods,
            is_open,
            is_signed,
            words,
            handlers: handlers.with_state(state),
        }
    }
}

impl Route {
    /// What can be known of it, by method.
    pub fn infos(&self) -> impl Iterator<Item = RouteInfo> {
        self.methods.iter().map(|&method| RouteInfo {
            method,
            path: self.path,
            is_open: self.is_open,
        })
    }
}

/// What a test, or a page about the routes, can know of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteInfo {
    /// The method; HEAD comes with GET.
    pub method: &'static str,
    /// The path.
    pub path: &'static str,
    /// Whether it answers without the token.
    pub is_open: bool,
}

/// What holds for every request of a route.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) path: &'static str,
    /// Nobody is asked for the token.
    pub(crate) is_open: bool,
    /// Nobody is asked for the token, because the handler checks a signature.
    pub(crate) is_signed: bool,
    pub(crate) words: &'static Words,
}

/// All routes that are mounted. What is not here does not exist, and needs the token to be told so.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) http: Arc<Http>,
    rules: BTreeMap<&'static str, Rules>,
}

impl Mounted {
    /// The rules of the route with this path.
    pub(crate) fn rules(&self, path: &str) -> Option<Rules> {
        self.rules.get(path).copied()
    }
}

/// The routes of all surfaces over a service, without a socket. Needs a tokio runtime around it when it is called. Two
/// surfaces with one address are a fault of the program that mounts both, and a panic.
pub fn router(http: &Arc<Http>, surfaces: &[Box<dyn Routes>]) -> Router {
    let mut router = Router::new();
    let mut rules = BTreeMap::new();
    for route in surfaces.iter().flat_map(|surface| surface.routes(http)) {
        let Route {
            path,
            is_open,
            is_signed,
            words,
            ..
        } = route;
        router = router.route(path, route.handlers);
        rules.insert(
            path,
            Rules {
                path,
                is_open,
                is_signed,
                words,
            },
        );
    }
    let mounted = Mounted {
        http: Arc::clone(http),
        rules,
    };
    router
        .fallback(async |request: Request| unknown(&request))
        .method_not_allowed_fallback(async |request: Request| wrong_method(&request))
        .layer(from_fn_with_state(Arc::new(mounted), request::around))
}

fn unknown(request: &Request) -> ErrorResponse {
    let path: String = request.uri().path().chars().take(200).collect();
    ErrorResponse::new(StatusCode::NOT_FOUND, format!("no such route: {path}"))
}

fn wrong_method(request: &Request) -> ErrorResponse {
    let (method, path) = (request.method(), request.uri().path());
    ErrorResponse::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{path} does not take {method}"),
    )
}
