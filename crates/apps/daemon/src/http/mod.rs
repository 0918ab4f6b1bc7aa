//! The management API over HTTP/JSON: TCP and a unix socket, on a thread of its own.
//!
//! Promises    every answer is JSON, errors too (save /metrics); a request body is at most [`BODY_BYTES_MAX`]
//! Assumes     whoever reaches the socket or the address may do everything: there is no authentication yet
//! Not here    what the calls do: `Management`

mod cluster;
mod disk;
mod disk_group;
mod failure;
mod health;
mod host;
mod json;
mod measure;
mod openapi;
mod policy;
mod resync;
mod server;

pub use failure::Failure;
pub use openapi::openapi_json;
pub use server::{ApiServer, ListenError};

use std::sync::Arc;

use axum::{Router, extract::DefaultBodyLimit};
use cairn_api::{ApiError, Management};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Bytes of a request body, at most: the largest request names eight paths and is under 40 KiB.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// What the handlers share.
type Api = Arc<dyn Management>;

/// Every route with its description.
fn described() -> OpenApiRouter<Api> {
    let v1 = OpenApiRouter::new()
        .routes(routes!(cluster::status))
        .routes(routes!(cluster::settings, cluster::settings_set))
        .routes(routes!(host::list))
        .routes(routes!(host::show))
        .routes(routes!(host::maintenance))
        .routes(routes!(disk_group::list, disk_group::create))
        .routes(routes!(disk_group::show, disk_group::remove))
        .routes(routes!(disk::list, disk::create))
        .routes(routes!(disk::show, disk::delete))
        .routes(routes!(disk::resize))
        .routes(routes!(disk::attach))
        .routes(routes!(disk::record))
        .routes(routes!(policy::list, policy::create))
        .routes(routes!(policy::show, policy::delete))
        .routes(routes!(health::health))
        .routes(routes!(resync::list))
        .routes(routes!(resync::settings, resync::settings_set))
        .routes(routes!(measure::counters))
        .routes(routes!(measure::disk_latencies))
        .routes(routes!(measure::latencies))
        .routes(routes!(measure::caches_clear));
    OpenApiRouter::new().nest("/api/v1", v1).routes(routes!(health::metrics))
}

/// The whole API as a router.
pub fn router(management: Arc<dyn Management>) -> Router {
    let (router, _) = described().split_for_parts();
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
