//! Names that people give.

/// Checks a name that a person gave to a disk, host or policy: 1..=64 of letters, digits, `-`, `_`, `.`, not first a `-` or `.`.
///
/// The narrow set keeps names usable as NBD export names, in URIs, on command lines and in file names.
///
/// # Errors
/// [`crate::ApiErrorKind::Invalid`] naming `what` and the rule.
pub fn check_name(what: &str, name: &str) -> crate::ApiResult<()> {
    let good = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && !name.starts_with(['-', '.']);
    if good {
        return Ok(());
    }
    Err(crate::ApiError::invalid(format!("{name:?} cannot be the name of a {what}"))
        .remedy("Use 1 to 64 letters, digits, '-', '_' or '.', and begin with a letter, a digit or '_'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_a_uri_and_a_shell_can_carry() {
        for good in ["vm-1", "_x", "a.b", &"x".repeat(64)] {
            assert!(check_name("disk", good).is_ok(), "{good}");
        }
        for bad in ["", "-x", ".x", "a b", "a/b", "ä", &"x".repeat(65)] {
            assert!(check_name("disk", bad).is_err(), "{bad}");
        }
    }
}
