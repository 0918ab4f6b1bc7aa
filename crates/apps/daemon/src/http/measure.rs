//! Routes for measuring: counters, and caches that are cleared before.

use axum::{Json, extract::State};
use cairn_api::v1::{CacheClear, CachesCleared, Counters};

use super::{Api, Failure, json::Body};

/// Counters and gauges of all hosts that answer.
#[utoipa::path(get, path = "/counters", tag = "measure", operation_id = "counters",
    responses((status = 200, description = "Counters since each host was started and each disk group was opened",
        body = Counters), Failure))]
pub async fn counters(State(api): State<Api>) -> Result<Json<Counters>, Failure> {
    Ok(Json(api.counters().await?))
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
