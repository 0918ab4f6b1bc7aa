//! The routes, made from the list of management calls: one handler each, which checks the body and asks the shard.
//!
//! Promises    every call of the list has its route and its description, and there is no other
//! Not here    what the description says of all calls alike (`openapi`)

use std::any::Any;

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api, Failure,
    json::{Body, Name},
};

macro_rules! routes_of {
    ($($(#[$doc:meta])* $method:ident $path:tt $status:tt $who:ident $section:tt
        fn $name:ident[$($place:ident: $place_type:ty)?]($($body:ident: $body_type:ty)?) -> $answer:ty;)*) => {
        $($(#[$doc])*
        #[utoipa::path($method, path = $path, tag = $section, $(request_body = $body_type,)?
            responses((status = $status, description = "", body = $answer), Failure))]
        async fn $name(
            State(api): State<Api>,
            $(Name($place): Name<$place_type>,)?
            $(Body($body): Body<$body_type>,)?
        ) -> Result<Response, Failure> {
            $(cairn_api::Request::validate(&$body)?;)?
            Ok(respond($status, api.$name($($place,)? $($body)?).await?))
        })*

        /// Every route with its description.
        pub fn described() -> OpenApiRouter<Api> {
            OpenApiRouter::new()$(.routes(routes!($name)))*
        }
    };
}

cairn_api::management_calls!(routes_of);

/// JSON, save a bare text (Prometheus'), and nothing where there is nothing to say.
fn respond<A: Serialize + Any>(status: u16, answer: A) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    if status == StatusCode::NO_CONTENT {
        return status.into_response();
    }
    match (&answer as &dyn Any).downcast_ref::<String>() {
        Some(text) => (status, [(CONTENT_TYPE, "text/plain; version=0.0.4")], text.clone()).into_response(),
        None => (status, Json(answer)).into_response(),
    }
}
