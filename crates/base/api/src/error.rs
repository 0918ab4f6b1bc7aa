//! What a management call answers when it does not do what was asked.

use std::fmt;

use cairn_types::PolicyError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The answer of every management call.
pub type ApiResult<T> = Result<T, ApiError>;

/// What kind of failure it is; clients act on this, people read the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApiErrorKind {
    /// The request is well formed, and the state of the cluster or a rule forbids it (HTTP 422).
    Refused,
    /// Nothing of that name or id (HTTP 404).
    NotFound,
    /// It exists already, somebody has it open, or changed it meanwhile (HTTP 409).
    Conflict,
    /// Not possible now, perhaps later: too few hosts reachable, directory away (HTTP 503).
    Unavailable,
    /// The request itself is wrong: unknown field, value out of range (HTTP 400).
    Invalid,
    /// A fault of the server (HTTP 500).
    Internal,
}

/// What happened and why, and what one can do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiError {
    /// What kind of failure it is.
    pub kind: ApiErrorKind,
    /// What happened and why, a sentence without full stop: "disk vm-1 is in use: nbd at host-2 from unix".
    pub message: String,
    /// What to do about it, a sentence without full stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident),* $(,)?) => { $(
        $(#[$doc])*
        pub fn $name(message: impl Into<String>) -> Self {
            Self { kind: ApiErrorKind::$kind, message: message.into(), remedy: None }
        }
    )* };
}

impl ApiError {
    constructors! {
        /// See [`ApiErrorKind::Refused`].
        refused => Refused,
        /// See [`ApiErrorKind::NotFound`].
        not_found => NotFound,
        /// See [`ApiErrorKind::Conflict`].
        conflict => Conflict,
        /// See [`ApiErrorKind::Unavailable`].
        unavailable => Unavailable,
        /// See [`ApiErrorKind::Invalid`].
        invalid => Invalid,
        /// See [`ApiErrorKind::Internal`].
        internal => Internal,
    }

    /// The same error with a way out.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.remedy {
            Some(remedy) => write!(f, ". {remedy}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ApiError {}

impl From<PolicyError> for ApiError {
    fn from(error: PolicyError) -> Self {
        Self::refused(error.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_cause_and_remedy() {
        let error = ApiError::refused("4 fault domains are needed, 3 are up").remedy("Add a host");
        assert_eq!(error.to_string(), "4 fault domains are needed, 3 are up. Add a host");
        let json = serde_json::to_string(&error).unwrap();
        assert_eq!(
            json,
            r#"{"kind":"refused","message":"4 fault domains are needed, 3 are up","remedy":"Add a host"}"#
        );
        assert_eq!(serde_json::from_str::<ApiError>(&json).unwrap(), error);
    }
}
