//! The committed page of metrics is that of the declarations, and the API's description has each of them.

/// `cargo run -p cairnd -- --print-metrics > docs/operating/metrics.md` brings it up to date.
#[test]
fn the_committed_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/operating/metrics.md");
    let committed = std::fs::read_to_string(path).expect("docs/operating/metrics.md is committed");
    assert!(
        committed == cairn_metrics::page(),
        "docs/operating/metrics.md is out of date: cargo run -p cairnd -- --print-metrics > docs/operating/metrics.md"
    );
}

#[test]
fn the_api_describes_each_number_in_the_same_words() {
    let document: serde_json::Value = serde_json::from_str(&cairnd::http::openapi_json()).unwrap();
    let schemas = &document["components"]["schemas"];
    let all = [
        ("HostGauges", cairn_metrics::HostGauges::MEASURES),
        ("OwnerCounters", cairn_metrics::OwnerCounters::MEASURES),
        ("GuestCounters", cairn_metrics::GuestCounters::MEASURES),
        ("DiskGauges", cairn_metrics::DiskGauges::MEASURES),
        ("StoreGauges", cairn_metrics::StoreGauges::MEASURES),
        ("StoreCounters", cairn_metrics::StoreCounters::MEASURES),
    ];
    for (schema, measures) in all {
        for measure in measures {
            let described = &schemas[schema]["properties"][measure.name]["description"];
            assert_eq!(described.as_str(), Some(measure.help.trim()), "{schema}.{}", measure.name);
        }
    }
}
