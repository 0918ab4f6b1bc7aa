//! Routes for measuring: counters, latencies, and caches that are cleared before.

use axum::{Json, extract::State};
use cairn_api::v1::{CacheClear, CachesCleared, Counters, Latencies};

use super::{
    Api, Failure,
    json::{Body, Name},
};

/// Counters and gauges of all hosts that answer.
#[utoipa::path(get, path = "/counters", tag = "measure", operation_id = "counters",
    responses((status = 200, description = "Counters since each host was started and each disk group was opened",
        body = Counters), Failure))]
pub async fn counters(State(api): State<Api>) -> Result<Json<Counters>, Failure> {
    Ok(Json(api.counters().await?))
}

/// How long each stage of a disk's reads and writes took, at every host that took part and answers.
#[utoipa::path(get, path = "/disks/{disk}/latencies", tag = "measure", operation_id = "disk_latencies",
    params(("disk" = String, Path, description = "Name or id")),
    responses((status = 200, description = "Latencies since each host was started and each disk group was opened",
        body = Latencies), Failure))]
pub async fn disk_latencies(State(api): State<Api>, Name(disk): Name<String>) -> Result<Json<Latencies>, Failure> {
    Ok(Json(api.disk_latencies(disk).await?))
}

/// An overview of the latencies of all disks: of each host those with the most requests, without bins but for whole requests.
#[utoipa::path(get, path = "/latencies", tag = "measure", operation_id = "latencies",
    responses((status = 200, description = "Latencies since each host was started and each disk group was opened",
        body = Latencies), Failure))]
pub async fn latencies(State(api): State<Api>) -> Result<Json<Latencies>, Failure> {
    Ok(Json(api.latencies().await?))
}

/// Destages the write buffers, then empties the read caches. Answers when that is done or the time is over: look at `clear`.
#[utoipa::path(post, path = "/caches/clear", tag = "measure", operation_id = "caches_clear",
    request_body = CacheClear,
    responses((status = 200, description = "What became of each disk group; `clear` says whether a measurement may begin",
        body = CachesCleared), Failure))]
pub async fn caches_clear(
    State(api): State<Api>,
    Body(request): Body<CacheClear>,
) -> Result<Json<CachesCleared>, Failure> {
    Ok(Json(api.caches_clear(request).await?))
}
