//! Whether a build may serve a cluster of which this is known.

use cairn_types::{Build, Level};

use crate::who_speaks;

/// The level to begin with, where the directory, or the copy that the host kept of it, tells `known`; none where neither was ever read.
///
/// # Errors
/// Why this build must not serve, in words.
pub fn may_start(build: &Build, known: Option<Level>) -> Result<Level, String> {
    // Who knows nothing speaks as old as it can: whoever knows more tells it with the first greeting.
    let level = known.unwrap_or(build.speaks.least);
    if build.speaks.includes(level) {
        return Ok(level);
    }
    let (version, speaks) = (&build.version, build.speaks);
    Err(match level > speaks.highest {
        true => format!(
            "this cluster was upgraded to protocol {level}, and this program, {version}, speaks {speaks}: {}",
            who_speaks(level)
        ),
        false => format!(
            "this cluster still uses protocol {level}, and this program, {version}, speaks {speaks}: start a release that speaks \
             {level}, finish the upgrade (`cairn cluster upgrade finish`), then start {version}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use cairn_types::Speaks;

    use super::*;

    #[test]
    fn a_build_serves_what_it_speaks() {
        let build = |least, highest| Build { version: "0.4.0".into(), speaks: Speaks::of(least, highest) };
        assert_eq!(may_start(&build(12, 13), None), Ok(Level(12)));
        assert_eq!(may_start(&build(12, 13), Some(Level(13))), Ok(Level(13)));
        assert_eq!(may_start(&build(13, 14), None), Ok(Level(13)));
        assert_eq!(
            may_start(&build(12, 12), Some(Level(13))).unwrap_err(),
            "this cluster was upgraded to protocol 13, and this program, 0.4.0, speaks protocol 12: start 0.3.0 or later"
        );
        assert_eq!(
            may_start(&build(13, 14), Some(Level(15))).unwrap_err(),
            "this cluster was upgraded to protocol 15, and this program, 0.4.0, speaks protocols 13 to 14: start a release that speaks \
             protocol 15"
        );
        assert!(may_start(&build(13, 14), Some(Level(12))).unwrap_err().contains("still uses protocol 12"));
    }
}
