//! The committed description is that of the routes.

/// `cargo run -p cairnd -- --print-openapi > docs/openapi.json` brings it up to date.
#[test]
fn the_committed_description_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/openapi.json");
    let committed = std::fs::read_to_string(path).expect("docs/openapi.json is committed");
    assert!(
        committed == cairnd::http::openapi_json(),
        "docs/openapi.json is out of date: cargo run -p cairnd -- --print-openapi > docs/openapi.json"
    );
}

#[test]
fn every_schema_that_is_referred_to_is_there() {
    let text = cairnd::http::openapi_json();
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let wanted = text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap());
    for name in wanted {
        assert!(schemas.contains_key(name), "{name} is not described");
    }
    let operations: Vec<&str> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .flat_map(|path| path.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    let calls = cairn_api::CALLS.iter().map(|call| call.name);
    assert_eq!(operations.len(), calls.clone().count(), "one route per management call: {operations:?}");
    for call in calls {
        assert!(operations.contains(&call), "{call} is not described");
    }
}
