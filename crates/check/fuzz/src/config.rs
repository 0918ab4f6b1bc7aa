//! What people write: the configuration file, sizes, names, ids, addresses.
//!
//! Promises    a configuration that is taken prints as one that reads back the same; so do sizes, ids and names; nothing that
//!             is refused is refused without words

use cairn_api::{
    Request as _,
    v1::{PolicyCreate, check_name},
};
use cairn_directory::Name;
use cairn_types::{ObjectId, format_bytes, parse_bytes};
use cairnd::config::{Config, ConfigError, Size, print};

use crate::input::Input;

/// The first byte chooses what is read; the rest is its text.
pub fn target(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.below(8);
    let text = String::from_utf8_lossy(input.rest());
    match choice {
        0 => size(&text),
        1 => names(&text),
        _ => file(&text),
    }
}

fn size(text: &str) {
    if let Ok(bytes) = parse_bytes(text) {
        assert!(!format_bytes(bytes).is_empty());
        reads_back(Size(bytes));
    }
    if let Ok(bytes) = text.parse::<u64>() {
        reads_back(Size(bytes));
    }
}

/// A size that the configuration can hold prints as text that means the same.
fn reads_back(size: Size) {
    if size.0 < 1 << 63 {
        assert_eq!(size.to_string().parse::<Size>(), Ok(size));
    }
}

fn names(text: &str) {
    if let Ok(id) = text.parse::<ObjectId>() {
        assert_eq!(id.to_string(), text.to_ascii_lowercase());
    }
    let name = Name::new(text);
    if check_name("disk", text).is_ok() {
        let name = name.expect("what the API takes as a name, the directory takes");
        assert_eq!(name.as_str(), text);
    }
    if let Ok(policy) = serde_json::from_str::<PolicyCreate>(text) {
        let again = serde_json::to_string(&policy).expect("a policy is JSON");
        assert_eq!(serde_json::from_str::<PolicyCreate>(&again).ok(), Some(policy.clone()));
        if policy.validate().is_ok() {
            assert!(!policy.rules.describe().is_empty());
        }
    }
}

fn file(text: &str) {
    let config = match Config::parse(text, "cairnd.toml") {
        Ok(config) => config,
        Err(error) => return words(&error),
    };
    let printed = print(&config);
    match Config::parse(&printed, "printed") {
        Ok(again) => assert!(again == config, "what is printed reads back as another configuration:\n{printed}"),
        Err(error) => panic!("what is printed does not read back: {error}\n{printed}"),
    }
    match config.check() {
        Ok(checked) => {
            let again = checked.clone().check().expect("what was checked passes again");
            assert_eq!(again, checked);
        }
        Err(error) => words(&error),
    }
}

fn words(error: &ConfigError) {
    assert!(!error.0.trim().is_empty());
}
