//! Why a number is refused, in words that name the value, the rule and the way out.

/// What a caller may act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizingErrorKind {
    /// A value is no number, or outside of its range.
    Value,
    /// Something that the question needs was not said, or was said twice.
    Missing,
    /// The hosts are too few for the protection asked for.
    Hosts,
    /// The numbers are each fine, and their result has more digits than are kept.
    TooLarge,
}

/// A refusal: a kind to act on, cause and remedy for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct SizingError {
    /// What a caller may act on.
    pub kind: SizingErrorKind,
    /// What is wrong, and where.
    pub text: String,
    /// What to do about it.
    pub remedy: String,
}

impl SizingError {
    /// A value that is no number or outside of its range.
    pub(crate) fn value(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind: SizingErrorKind::Value, text: text.into(), remedy: remedy.into() }
    }

    /// Something that is needed and was not said.
    pub(crate) fn missing(text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind: SizingErrorKind::Missing, text: text.into(), remedy: remedy.into() }
    }

    /// A result with more digits than are kept.
    pub(crate) fn too_large() -> Self {
        Self {
            kind: SizingErrorKind::TooLarge,
            text: "these numbers together give a result of more than 36 digits".into(),
            remedy: "look for a unit that is wrong, or write fewer digits after the point".into(),
        }
    }
}
