//! Routes of virtual disks. What can be checked without the cluster is checked here, before the shard is asked.

use axum::{Json, extract::State, http::StatusCode};
use cairn_api::v1::{Disk, DiskAttach, DiskCreate, DiskResize, DiskSummary, ObjectRecord};

use super::{
    Api, Failure,
    json::{Body, Name},
};

/// Every virtual disk, by name.
#[utoipa::path(get, path = "/disks", tag = "disk", operation_id = "disk_list",
    responses((status = 200, description = "The disks", body = Vec<DiskSummary>), Failure))]
pub async fn list(State(api): State<Api>) -> Result<Json<Vec<DiskSummary>>, Failure> {
    Ok(Json(api.disk_list().await?))
}

/// Makes a virtual disk. Space is taken when it is written, save what its policy reserves.
#[utoipa::path(post, path = "/disks", tag = "disk", operation_id = "disk_create",
    request_body = DiskCreate,
    responses((status = 201, description = "The disk", body = Disk), Failure))]
pub async fn create(
    State(api): State<Api>,
    Body(request): Body<DiskCreate>,
) -> Result<(StatusCode, Json<Disk>), Failure> {
    request.validate()?;
    let disk = api.disk_create(request).await?;
    Ok((StatusCode::CREATED, Json(disk)))
}

/// One virtual disk with its components.
#[utoipa::path(get, path = "/disks/{disk}", tag = "disk", operation_id = "disk_show",
    params(("disk" = String, Path, description = "Name or id")),
    responses((status = 200, description = "The disk", body = Disk), Failure))]
pub async fn show(State(api): State<Api>, Name(disk): Name<String>) -> Result<Json<Disk>, Failure> {
    Ok(Json(api.disk_show(disk).await?))
}

/// Deletes a virtual disk and what it holds.
#[utoipa::path(delete, path = "/disks/{disk}", tag = "disk", operation_id = "disk_delete",
    params(("disk" = String, Path, description = "Name or id")),
    responses((status = 204, description = "The deletion is decided"), Failure))]
pub async fn delete(State(api): State<Api>, Name(disk): Name<String>) -> Result<StatusCode, Failure> {
    api.disk_delete(disk).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Grows a virtual disk.
#[utoipa::path(post, path = "/disks/{disk}/resize", tag = "disk", operation_id = "disk_resize",
    params(("disk" = String, Path, description = "Name or id")),
    request_body = DiskResize,
    responses((status = 200, description = "The disk", body = Disk), Failure))]
pub async fn resize(
    State(api): State<Api>,
    Name(disk): Name<String>,
    Body(request): Body<DiskResize>,
) -> Result<Json<Disk>, Failure> {
    request.validate()?;
    Ok(Json(api.disk_resize(disk, request).await?))
}

/// Makes a host the owner of a disk (hand-over).
#[utoipa::path(post, path = "/disks/{disk}/attach", tag = "disk", operation_id = "disk_attach",
    params(("disk" = String, Path, description = "Name or id")),
    request_body = DiskAttach,
    responses((status = 200, description = "The disk", body = Disk), Failure))]
pub async fn attach(
    State(api): State<Api>,
    Name(disk): Name<String>,
    Body(request): Body<DiskAttach>,
) -> Result<Json<Disk>, Failure> {
    Ok(Json(api.disk_attach(disk, request).await?))
}

/// What every seat of a disk holds. For debugging: the shape of `config` may change.
#[utoipa::path(get, path = "/disks/{disk}/record", tag = "disk", operation_id = "disk_record",
    params(("disk" = String, Path, description = "Name or id")),
    responses((status = 200, description = "The record", body = ObjectRecord), Failure))]
pub async fn record(State(api): State<Api>, Name(disk): Name<String>) -> Result<Json<ObjectRecord>, Failure> {
    Ok(Json(api.disk_record(disk).await?))
}
