//! Of which snapshot a qcow2 file is, said in the file itself.
//!
//! A copy of another moment below an overlay is a wrong disk that nobody notices. So each qcow2 file that is exported has a
//! bitmap without bits, whose name is that of the snapshot: `qemu-img info` shows it, and no tool minds it.

use cairn_api::v1::Snapshot;
use serde_json::Value;

/// What names of our bitmaps begin with.
const OURS: &str = "cairn:";

/// The name of the bitmap.
pub fn of(snapshot: &Snapshot) -> String {
    format!("{OURS}{}@{}:{}", snapshot.disk, snapshot.name, snapshot.id)
}

/// What a file says of itself, by what `qemu-img info` tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Says {
    /// It is of that snapshot.
    It,
    /// It is of another one, of that name.
    Other(String),
    /// Nothing.
    Nothing,
}

/// Whether a file is of a snapshot. Names may be given anew: the id decides.
pub fn says(info: &Value, snapshot: &Snapshot) -> Says {
    let bitmaps = info["format-specific"]["data"]["bitmaps"].as_array();
    let names = bitmaps.into_iter().flatten().filter_map(|bitmap| bitmap["name"].as_str());
    let ours: Vec<(&str, &str)> =
        names.filter_map(|name| name.strip_prefix(OURS)).filter_map(|name| name.rsplit_once(':')).collect();
    match ours.iter().any(|(_, id)| *id == snapshot.id) {
        true => Says::It,
        false => ours.first().map_or(Says::Nothing, |(name, _)| Says::Other((*name).to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_says_of_which_snapshot_it_is() {
        let snapshot = |name: &str, id: &str| Snapshot {
            disk: "vm-1".into(),
            name: name.into(),
            id: id.into(),
            created_unix_ms: 0,
            size_bytes: 1,
        };
        let info = |names: &[&str]| {
            let bitmaps: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            json!({ "format-specific": { "data": { "bitmaps": bitmaps } } })
        };
        let (a, b) = (snapshot("a", "01"), snapshot("b", "02"));
        assert_eq!(says(&info(&["guest's", &of(&a)]), &a), Says::It);
        assert_eq!(says(&info(&[&of(&a)]), &snapshot("renamed", "01")), Says::It);
        assert_eq!(says(&info(&[&of(&a)]), &b), Says::Other("vm-1@a".into()));
        assert_eq!(says(&info(&[]), &b), Says::Nothing);
        assert_eq!(says(&json!({ "format": "raw" }), &b), Says::Nothing);
    }
}
