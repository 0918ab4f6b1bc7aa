//! The management API over HTTP/JSON: TCP and a unix socket, on a thread of its own.
//!
//! Promises    every answer is JSON, errors too (save /metrics); a request body is at most [`BODY_BYTES_MAX`]
//! Assumes     whoever reaches the socket or the address may do everything: there is no authentication yet
//! Not here    what the calls do: `Management`

mod failure;
mod json;
mod openapi;
mod routes;
mod server;

pub use failure::Failure;
pub use openapi::openapi_json;
pub use server::{ApiServer, ListenError};

use std::sync::Arc;

use axum::{Router, extract::DefaultBodyLimit};
use cairn_api::{ApiError, Management};

/// Bytes of a request body, at most: the largest request names eight paths and is under 40 KiB.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// What the handlers share.
type Api = Arc<dyn Management>;

/// The whole API as a router.
pub fn router(management: Arc<dyn Management>) -> Router {
    let (router, _) = routes::described().split_for_parts();
    router
        .route("/openapi.json", axum::routing::get(openapi::serve))
        .fallback(no_such_path)
        .method_not_allowed_fallback(no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(management)
}

async fn no_such_path(uri: axum::http::Uri) -> Failure {
    let error = ApiError::not_found(format!("there is nothing at {}", uri.path()));
    Failure(error.remedy("GET /openapi.json lists what there is"))
}

async fn no_such_method(method: axum::http::Method, uri: axum::http::Uri) -> Failure {
    let error = ApiError::invalid(format!("{method} is not possible on {}", uri.path()));
    Failure(error.remedy("GET /openapi.json lists what is"))
}
