//! Names that people give: disks, policies, hosts, fault domains. One rule for all, checked here only.
//!
//! Promises    a [`Name`] is 1..=128 of `A-Z a-z 0-9 . _ -` and begins with a letter, a digit or `_`: it is safe in a key,
//!             a path, an NBD export, a URL and a shell without quoting
//! Not here    whether a name is taken (the directory's transactions decide)

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

/// Characters of a name, at most.
pub const NAME_LENGTH_MAX: usize = 128;

/// A checked name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Why a text is not a name: what is wrong and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NameError(String);

/// Checks `text` against the rule.
///
/// # Errors
/// One sentence that quotes the text (shortened, unprintable characters escaped) and tells the rule.
pub fn check(text: &str) -> Result<(), NameError> {
    let refuse = |why: String| Err(NameError(format!("{} is not a name: {why}", shortened(text))));
    if text.is_empty() {
        return refuse("it is empty".into());
    }
    if text.len() > NAME_LENGTH_MAX {
        return refuse(format!("it has {} bytes, the most is {NAME_LENGTH_MAX}", text.len()));
    }
    if !text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return refuse("it must begin with a letter A-Z, a-z, a digit or _".into());
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match text.chars().find(|&c| !allowed(c)) {
        Some(bad) => refuse(format!("{bad:?} is not allowed, use letters A-Z, a-z, digits and . _ -")),
        None => Ok(()),
    }
}

/// `text` quoted and escaped, cut where it is long: an error must not be longer than a line.
fn shortened(text: &str) -> String {
    const SHOWN: usize = 40;
    if text.chars().count() <= SHOWN {
        return format!("{text:?}");
    }
    let head: String = text.chars().take(SHOWN).collect();
    format!("{head:?}...")
}

impl Name {
    /// The name `text`.
    ///
    /// # Errors
    /// As [`check`].
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        check(&text)?;
        Ok(Self(text))
    }
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(d)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_the_rule_says() {
        for good in ["a", "0", "_x", "vm-1.root_2", "Default", &"x".repeat(128)] {
            assert!(check(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", "empty"),
            ("-rf", "begin with"),
            (".hidden", "begin with"),
            ("..", "begin with"),
            ("a/b", "'/' is not allowed"),
            ("a b", "' ' is not allowed"),
            ("a\nb", "'\\n' is not allowed"),
            ("a\0", "'\\0' is not allowed"),
            ("überdisk", "begin with"),
            ("disk-ü", "'ü' is not allowed"),
            ("a\u{202e}b", "not allowed"),
            (&"x".repeat(129), "129 bytes, the most is 128"),
        ] {
            let error = check(bad).expect_err(bad).to_string();
            assert!(error.contains(why), "{error}");
            assert!(error.len() < 200, "{error}");
            assert!(!error.contains(['\n', '\0']), "{error}");
        }
    }

    #[test]
    fn a_stored_name_is_checked_when_it_is_read() {
        assert!(serde_json::from_str::<Name>("\"ok\"").is_ok());
        assert!(serde_json::from_str::<Name>("\"../etc\"").is_err());
    }
}
