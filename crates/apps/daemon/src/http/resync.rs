//! Routes of resync.

use axum::{Json, extract::State};
use cairn_api::v1::{Resync, ResyncSettings};

use super::{Api, Failure, json::Body};

/// Every resync that runs or waits.
#[utoipa::path(get, path = "/resyncs", tag = "resync", operation_id = "resync_list",
    responses((status = 200, description = "The resyncs", body = Vec<Resync>), Failure))]
pub async fn list(State(api): State<Api>) -> Result<Json<Vec<Resync>>, Failure> {
    Ok(Json(api.resync_list().await?))
}

/// How fast resync may go.
#[utoipa::path(get, path = "/resyncs/settings", tag = "resync", operation_id = "resync_settings",
    responses((status = 200, description = "The settings", body = ResyncSettings), Failure))]
pub async fn settings(State(api): State<Api>) -> Result<Json<ResyncSettings>, Failure> {
    Ok(Json(api.resync_settings().await?))
}

/// Changes how fast resync may go.
#[utoipa::path(put, path = "/resyncs/settings", tag = "resync", operation_id = "resync_settings_set",
    request_body = ResyncSettings,
    responses((status = 200, description = "The settings after the change", body = ResyncSettings), Failure))]
pub async fn settings_set(
    State(api): State<Api>,
    Body(request): Body<ResyncSettings>,
) -> Result<Json<ResyncSettings>, Failure> {
    Ok(Json(api.resync_settings_set(request).await?))
}
