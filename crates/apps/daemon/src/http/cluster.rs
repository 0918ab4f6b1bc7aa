//! Routes of the cluster.

use axum::{Json, extract::State};
use cairn_api::v1::{ClusterSettings, ClusterSettingsPatch, ClusterStatus};

use super::{Api, Failure, json::Body};

/// The cluster in one view.
#[utoipa::path(get, path = "/cluster", tag = "cluster", operation_id = "cluster_status",
    responses((status = 200, description = "The cluster", body = ClusterStatus), Failure))]
pub async fn status(State(api): State<Api>) -> Result<Json<ClusterStatus>, Failure> {
    Ok(Json(api.cluster_status().await?))
}

/// The settings that hold for all hosts.
#[utoipa::path(get, path = "/cluster/settings", tag = "cluster", operation_id = "cluster_settings",
    responses((status = 200, description = "All settings", body = ClusterSettings), Failure))]
pub async fn settings(State(api): State<Api>) -> Result<Json<ClusterSettings>, Failure> {
    Ok(Json(api.cluster_settings().await?))
}

/// Changes settings; what is left out stays.
#[utoipa::path(patch, path = "/cluster/settings", tag = "cluster", operation_id = "cluster_settings_set",
    request_body = ClusterSettingsPatch,
    responses((status = 200, description = "All settings after the change", body = ClusterSettings), Failure))]
pub async fn settings_set(
    State(api): State<Api>,
    Body(patch): Body<ClusterSettingsPatch>,
) -> Result<Json<ClusterSettings>, Failure> {
    Ok(Json(api.cluster_settings_set(patch).await?))
}
