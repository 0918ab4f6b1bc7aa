//! Routes of policies.

use axum::{Json, extract::State, http::StatusCode};
use cairn_api::v1::{Policy, PolicyCreate};

use super::{
    Api, Failure,
    json::{Body, Name},
};

/// Every policy, by name.
#[utoipa::path(get, path = "/policies", tag = "policy", operation_id = "policy_list",
    responses((status = 200, description = "The policies", body = Vec<Policy>), Failure))]
pub async fn list(State(api): State<Api>) -> Result<Json<Vec<Policy>>, Failure> {
    Ok(Json(api.policy_list().await?))
}

/// Adds a policy.
#[utoipa::path(post, path = "/policies", tag = "policy", operation_id = "policy_create",
    request_body = PolicyCreate,
    responses((status = 201, description = "The policy", body = Policy), Failure))]
pub async fn create(
    State(api): State<Api>,
    Body(request): Body<PolicyCreate>,
) -> Result<(StatusCode, Json<Policy>), Failure> {
    request.validate()?;
    let policy = api.policy_create(request).await?;
    Ok((StatusCode::CREATED, Json(policy)))
}

/// One policy.
#[utoipa::path(get, path = "/policies/{policy}", tag = "policy", operation_id = "policy_show",
    params(("policy" = String, Path, description = "Name")),
    responses((status = 200, description = "The policy", body = Policy), Failure))]
pub async fn show(State(api): State<Api>, Name(policy): Name<String>) -> Result<Json<Policy>, Failure> {
    Ok(Json(api.policy_show(policy).await?))
}

/// Deletes a policy; disks keep the rules that they were made with.
#[utoipa::path(delete, path = "/policies/{policy}", tag = "policy", operation_id = "policy_delete",
    params(("policy" = String, Path, description = "Name")),
    responses((status = 204, description = "It is gone"), Failure))]
pub async fn delete(State(api): State<Api>, Name(policy): Name<String>) -> Result<StatusCode, Failure> {
    api.policy_delete(policy).await?;
    Ok(StatusCode::NO_CONTENT)
}
