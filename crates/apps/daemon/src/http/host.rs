//! Routes of hosts.

use axum::{Json, extract::State};
use cairn_api::v1::{Host, HostMaintenance};

use super::{
    Api, Failure,
    json::{Body, Name},
};

/// Every host, by name.
#[utoipa::path(get, path = "/hosts", tag = "host", operation_id = "host_list",
    responses((status = 200, description = "The hosts", body = Vec<Host>), Failure))]
pub async fn list(State(api): State<Api>) -> Result<Json<Vec<Host>>, Failure> {
    Ok(Json(api.host_list().await?))
}

/// One host.
#[utoipa::path(get, path = "/hosts/{host}", tag = "host", operation_id = "host_show",
    params(("host" = String, Path, description = "Name or id")),
    responses((status = 200, description = "The host", body = Host), Failure))]
pub async fn show(State(api): State<Api>, Name(host): Name<String>) -> Result<Json<Host>, Failure> {
    Ok(Json(api.host_show(host).await?))
}

/// Enters or leaves maintenance.
#[utoipa::path(post, path = "/hosts/{host}/maintenance", tag = "host", operation_id = "host_maintenance",
    params(("host" = String, Path, description = "Name or id")),
    request_body = HostMaintenance,
    responses((status = 200, description = "The host", body = Host), Failure))]
pub async fn maintenance(
    State(api): State<Api>,
    Name(host): Name<String>,
    Body(request): Body<HostMaintenance>,
) -> Result<Json<Host>, Failure> {
    Ok(Json(api.host_maintenance(host, request).await?))
}
