//! Request bodies, queries and paths whose faults become [`cairn_api::ApiError`]s, not plain text.

use axum::{
    extract::{FromRequest, FromRequestParts, Path, Query, Request, rejection::JsonRejection},
    http::{Method, request::Parts},
};
use cairn_api::ApiError;
use serde::de::DeserializeOwned;

use super::Failure;

/// A JSON body; of a `GET` or `DELETE`, whose bodies mean nothing to HTTP, the query.
pub struct Body<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;
    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        if [Method::GET, Method::DELETE].contains(request.method()) {
            let query = Query::<T>::from_request(request, state).await;
            return query.map(|Query(value)| Self(value)).map_err(|rejection| {
                let error = ApiError::invalid(format!("the query cannot be understood: {}", rejection.body_text()));
                Failure(error.remedy("GET /openapi.json describes every request"))
            });
        }
        match axum::Json::<T>::from_request(request, state).await {
            Ok(axum::Json(value)) => Ok(Self(value)),
            Err(rejection) => Err(Failure(explain(&rejection))),
        }
    }
}

fn explain(rejection: &JsonRejection) -> ApiError {
    let text = rejection.body_text();
    let error = ApiError::invalid(match text.split_once(": ") {
        Some((_, what)) => format!("the request cannot be understood: {what}"),
        None => format!("the request cannot be understood: {text}"),
    });
    match rejection {
        JsonRejection::MissingJsonContentType(_) => {
            error.remedy("Send JSON with the header Content-Type: application/json")
        }
        _ => error.remedy("GET /openapi.json describes every request"),
    }
}

/// The one parameter of a path.
pub struct Name<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Name<T> {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Failure(ApiError::invalid(format!(
                "the path {} cannot be understood: {}",
                parts.uri.path(),
                rejection.body_text()
            )))),
        }
    }
}
