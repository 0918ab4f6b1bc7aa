//! Errors as HTTP answers.

use std::collections::BTreeMap;

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use cairn_api::{ApiError, ApiErrorKind};
use utoipa::{
    IntoResponses,
    openapi::{RefOr, Response as Described, ResponseBuilder, content::ContentBuilder, schema::Ref},
};

/// An [`ApiError`] on its way out.
#[derive(Debug)]
pub struct Failure(pub ApiError);

/// Kinds and their status codes, as the API documents them.
const STATUS: [(ApiErrorKind, StatusCode, &str); 6] = [
    (ApiErrorKind::Invalid, StatusCode::BAD_REQUEST, "The request itself is wrong"),
    (ApiErrorKind::NotFound, StatusCode::NOT_FOUND, "Nothing of that name or id"),
    (ApiErrorKind::Conflict, StatusCode::CONFLICT, "It exists already, or was changed meanwhile"),
    (ApiErrorKind::Refused, StatusCode::UNPROCESSABLE_ENTITY, "The state of the cluster or a rule forbids it"),
    (ApiErrorKind::Internal, StatusCode::INTERNAL_SERVER_ERROR, "A fault of the server"),
    (ApiErrorKind::Unavailable, StatusCode::SERVICE_UNAVAILABLE, "Not possible now, perhaps later"),
];

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = STATUS
            .iter()
            .find(|(kind, ..)| *kind == self.0.kind)
            .map_or(StatusCode::INTERNAL_SERVER_ERROR, |(_, status, _)| *status);
        (status, Json(self.0)).into_response()
    }
}

impl IntoResponses for Failure {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let content = || ContentBuilder::new().schema(Some(Ref::from_schema_name("ApiError"))).build();
        STATUS
            .iter()
            .map(|(_, status, text)| {
                let response = ResponseBuilder::new().description(*text).content("application/json", content()).build();
                (status.as_str().to_owned(), RefOr::T(response))
            })
            .collect()
    }
}
