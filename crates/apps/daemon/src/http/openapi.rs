//! The OpenAPI description, made from the routes themselves. `docs/openapi.json` is a copy that a test keeps current.

use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use cairn_api::ApiError;
use utoipa::OpenApi;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Cairn management API",
        description = "Manages a Cairn cluster: hosts, disk groups, virtual disks, policies, health, resync, counters. \
            Sizes are bytes. Errors are JSON with a kind to act on, a message and, where there is one, a remedy.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
        contact(name = "Cairn")
    ),
    components(schemas(ApiError))
)]
struct Document;

/// The description, indented, with a newline at its end.
///
/// # Panics
/// When the description has no JSON form: it is made of JSON.
pub fn openapi_json() -> String {
    let mut document = Document::openapi();
    document.merge(super::described().into_openapi());
    let mut text = document.to_pretty_json().expect("made of JSON");
    text.push('\n');
    text
}

/// GET /openapi.json.
pub async fn serve() -> Response {
    ([(CONTENT_TYPE, "application/json")], openapi_json()).into_response()
}
