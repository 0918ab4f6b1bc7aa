//! Routes of disk groups.

use axum::{Json, extract::State, http::StatusCode};
use cairn_api::v1::{DiskGroup, DiskGroupCreate};
use cairn_types::DiskGroupId;

use super::{
    Api, Failure,
    json::{Body, Name},
};

/// Every disk group, by host.
#[utoipa::path(get, path = "/disk-groups", tag = "disk-group", operation_id = "disk_group_list",
    responses((status = 200, description = "The disk groups", body = Vec<DiskGroup>), Failure))]
pub async fn list(State(api): State<Api>) -> Result<Json<Vec<DiskGroup>>, Failure> {
    Ok(Json(api.disk_group_list().await?))
}

/// Claims devices, or makes files, and opens a disk group on them.
#[utoipa::path(post, path = "/disk-groups", tag = "disk-group", operation_id = "disk_group_create",
    request_body = DiskGroupCreate,
    responses((status = 201, description = "The disk group", body = DiskGroup), Failure))]
pub async fn create(
    State(api): State<Api>,
    Body(request): Body<DiskGroupCreate>,
) -> Result<(StatusCode, Json<DiskGroup>), Failure> {
    let group = api.disk_group_create(request).await?;
    Ok((StatusCode::CREATED, Json(group)))
}

/// One disk group.
#[utoipa::path(get, path = "/disk-groups/{disk_group}", tag = "disk-group", operation_id = "disk_group_show",
    params(("disk_group" = String, Path, description = "Id, 32 hexadecimal digits")),
    responses((status = 200, description = "The disk group", body = DiskGroup), Failure))]
pub async fn show(State(api): State<Api>, Name(disk_group): Name<DiskGroupId>) -> Result<Json<DiskGroup>, Failure> {
    Ok(Json(api.disk_group_show(disk_group).await?))
}

/// Gives up a disk group; refused while it holds components.
#[utoipa::path(delete, path = "/disk-groups/{disk_group}", tag = "disk-group", operation_id = "disk_group_remove",
    params(("disk_group" = String, Path, description = "Id, 32 hexadecimal digits")),
    responses((status = 204, description = "It is gone"), Failure))]
pub async fn remove(State(api): State<Api>, Name(disk_group): Name<DiskGroupId>) -> Result<StatusCode, Failure> {
    api.disk_group_remove(disk_group).await?;
    Ok(StatusCode::NO_CONTENT)
}
