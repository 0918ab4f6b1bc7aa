//! Patterns of names.
//!
//! Promises    the whole name is matched, in time that grows with the product of both lengths at most

/// Whether a name is one of a pattern: `*` stands for any characters, none included, `?` for one, all others for themselves.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut upto) = (0, 0);
    // Where the last star is, and how much of the name it stands for so far.
    let mut star = None;
    while upto < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, upto));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[upto] => {
                at += 1;
                upto += 1;
            }
            _ => {
                let Some((star_at, taken)) = star else { return false };
                star = Some((star_at, taken + 1));
                (at, upto) = (star_at + 1, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matches;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("web-*", "web-1", true),
            ("web-*", "web-", true),
            ("web-*", "my-web-1", false),
            ("web-?", "web-10", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("*-db-*", "a-db-b-db-c", true),
            ("a*b*c", "abbc-b", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    /// The rule as it is said, as slow as that is.
    fn oracle(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.first(), name.first()) {
            (None, None) => true,
            (Some(b'*'), _) => (0..=name.len()).any(|taken| oracle(&pattern[1..], &name[taken..])),
            (Some(b'?'), Some(_)) => oracle(&pattern[1..], &name[1..]),
            (Some(a), Some(b)) if a == b => oracle(&pattern[1..], &name[1..]),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn it_is_the_rule(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, &name), oracle(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
