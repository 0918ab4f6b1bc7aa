//! The OpenAPI description, made from the routes themselves. `docs/openapi.json` is a copy that a test keeps current.

use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use cairn_api::{ApiError, CALLS, Call};
use utoipa::{
    OpenApi,
    openapi::{
        PathItem, RefOr, Required,
        extensions::ExtensionsBuilder,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn},
        schema::{ObjectBuilder, Schema, Type},
    },
};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Cairn management API",
        description = "Manages a Cairn cluster: hosts, disk groups, virtual disks, policies, health, resync, scrub, counters. \
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
    document.merge(super::routes::described().into_openapi());
    for call in CALLS {
        let operation = document.paths.paths.get_mut(call.path).and_then(|item| operation(item, call));
        let operation = operation.expect("every call has its route");
        complete(operation, call);
        if ["get", "delete"].contains(&call.method)
            && let Some(RefOr::T(body)) = operation.request_body.take()
        {
            let schemas = &document.components.as_ref().expect("types are described").schemas;
            let Some(RefOr::T(json)) = body.content.get("application/json") else { panic!("{} takes JSON", call.name) };
            let Some(RefOr::Ref(body)) = &json.schema else { panic!("{} has a named type", call.name) };
            let name = body.ref_location.rsplit('/').next().unwrap_or_default();
            operation.parameters.get_or_insert_default().extend(query(&schemas[name]));
        }
    }
    let mut text = document.to_pretty_json().expect("made of JSON");
    text.push('\n');
    text
}

fn operation<'a>(item: &'a mut PathItem, call: &Call) -> Option<&'a mut Operation> {
    let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
    operations.into_iter().flatten().find(|operation| operation.operation_id.as_deref() == Some(call.name))
}

/// What follows from the list alone: who may, the argument in the path, what success means.
fn complete(operation: &mut Operation, call: &Call) {
    operation.extensions = Some(ExtensionsBuilder::new().add("x-who-may", call.access.name()).build());
    let argument = call.path.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    operation.parameters = argument.map(|(name, _)| {
        let text = ObjectBuilder::new().schema_type(Type::String).build();
        let place = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
        vec![RefOr::T(place.description(Some("Name or id")).schema(Some(text)).build())]
    });
    let success = operation.responses.responses.get_mut(&call.status.to_string());
    let Some(RefOr::T(success)) = success else { panic!("{} says what success is", call.name) };
    let (words, answers) = match call.status {
        201 => ("It is made", true),
        204 => ("It is done, or decided", false),
        _ => ("The answer", true),
    };
    words.clone_into(&mut success.description);
    if !answers {
        success.content.clear();
    }
}

/// The fields of a flat body as parameters of the query.
fn query(body: &RefOr<Schema>) -> Vec<RefOr<Parameter>> {
    let RefOr::T(Schema::Object(body)) = body else { panic!("a query is an object") };
    let parameter = |(name, field): (&String, &RefOr<Schema>)| {
        let RefOr::T(Schema::Object(field)) = field else { panic!("{name} is no plain value") };
        let place = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query).required(Required::False);
        let value = ObjectBuilder::new().schema_type(field.schema_type.clone()).build();
        RefOr::T(place.description(field.description.clone()).schema(Some(value)).build())
    };
    body.properties.iter().map(parameter).collect()
}

/// GET /openapi.json.
pub async fn serve() -> Response {
    ([(CONTENT_TYPE, "application/json")], openapi_json()).into_response()
}
