//! Routes of health and metrics.

use axum::{
    Json,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use cairn_api::v1::Health;

use super::{Api, Failure};

/// The named checks, worst first.
#[utoipa::path(get, path = "/health", tag = "health", operation_id = "health",
    responses((status = 200, description = "The checks", body = Health), Failure))]
pub async fn health(State(api): State<Api>) -> Result<Json<Health>, Failure> {
    Ok(Json(api.health().await?))
}

/// Counters of this host in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "health", operation_id = "metrics",
    responses((status = 200, description = "Counters", body = String, content_type = "text/plain"), Failure))]
pub async fn metrics(State(api): State<Api>) -> Result<Response, Failure> {
    let text = api.metrics().await?;
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}
