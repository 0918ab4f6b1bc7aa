//! Whether two hosts may be connected, and at which level: both sides of a greeting ask this.
//!
//! A host tells the level that it takes the cluster for, and the levels that its build speaks. Builds before 0.3.0 tell one number,
//! which is both, and refuse every other number: so a newer build tells them the cluster's level, and not its own highest.

use cairn_types::{Build, Level};

use crate::who_speaks;

/// One side of a greeting.
#[derive(Debug, Clone, Copy)]
pub struct Party<'a> {
    /// What people call the host.
    pub name: &'a str,
    /// What it runs.
    pub build: &'a Build,
    /// The level that it takes the cluster for.
    pub level: Level,
}

/// The level at which the two may speak.
///
/// # Errors
/// Why not, in words for both sides.
pub fn meet(one: Party<'_>, other: Party<'_>) -> Result<Level, String> {
    let level = one.level.max(other.level);
    // Who is too old is told first: it is the one that has to do something.
    for Party { name, build, .. } in [other, one] {
        if build.speaks.highest < level {
            return Err(format!(
                "host {name} runs {}, which speaks {}; this cluster was upgraded to {level} and no longer does: {}",
                build.version,
                build.speaks,
                who_speaks(level)
            ));
        }
    }
    for Party { name, build, .. } in [other, one] {
        if build.speaks.least > level {
            return Err(format!(
                "host {name} runs {}, which speaks {}, and this cluster still uses {level}: start a release there that speaks {level}, \
                 finish the upgrade (`cairn cluster upgrade finish`), then go on to {}",
                build.version, build.speaks, build.version
            ));
        }
    }
    Ok(level)
}

#[cfg(test)]
mod tests {
    use cairn_types::Speaks;

    use super::*;

    fn build(version: &str, least: u32, highest: u32) -> Build {
        Build { version: version.into(), speaks: Speaks::of(least, highest) }
    }

    /// Every pair of (range, level) of two hosts against the rule by the letter; both orders agree on it.
    #[test]
    fn two_hosts_meet_at_the_higher_level_if_both_speak_it() {
        let sides: Vec<(Build, Level)> = (11..=15)
            .flat_map(|least| (least..=15).flat_map(move |highest| (least..=highest).map(move |l| (least, highest, l))))
            .map(|(least, highest, level)| (build("x", least, highest), Level(level)))
            .collect();
        for (one, one_level) in &sides {
            for (other, other_level) in &sides {
                let a = Party { name: "a", build: one, level: *one_level };
                let b = Party { name: "b", build: other, level: *other_level };
                let level = (*one_level).max(*other_level);
                let may = one.speaks.includes(level) && other.speaks.includes(level);
                assert_eq!(meet(a, b).ok(), may.then_some(level), "{a:?} {b:?}");
                assert_eq!(meet(a, b).ok(), meet(b, a).ok());
            }
        }
    }

    #[test]
    fn a_refusal_names_host_build_and_remedy() {
        let (old, new) = (build("0.2.0", 12, 12), build("0.3.0", 12, 13));
        let party = |name, build, level| Party { name, build, level: Level(level) };
        // Before the upgrade is finished they work together, whoever greets.
        assert_eq!(meet(party("h1", &new, 12), party("h4", &old, 12)), Ok(Level(12)));
        // Afterwards both sides read the same words.
        let words = "host h4 runs 0.2.0, which speaks protocol 12; this cluster was upgraded to 13 and no longer does: \
                     start 0.3.0 or later";
        assert_eq!(meet(party("h1", &new, 13), party("h4", &old, 12)), Err(words.into()));
        assert_eq!(meet(party("h4", &old, 12), party("h1", &new, 13)), Err(words.into()));
        // A host that has not heard of it yet is told.
        assert_eq!(meet(party("h1", &new, 12), party("h2", &new, 13)), Ok(Level(13)));
        // Two releases at once: the middle one was left out.
        let far = build("0.9.0", 13, 14);
        assert_eq!(
            meet(party("h1", &new, 12), party("h2", &far, 13)),
            Ok(Level(13)),
            "one that has joined nobody yet takes its least for the cluster's"
        );
        let refused = meet(party("h1", &old, 12), party("h2", &far, 13)).unwrap_err();
        assert!(refused.starts_with("host h1 runs 0.2.0"), "{refused}");
        let refused = meet(party("h1", &new, 12), party("h2", &build("0.9.0", 13, 14), 12)).unwrap_err();
        assert_eq!(
            refused,
            "host h2 runs 0.9.0, which speaks protocols 13 to 14, and this cluster still uses 12: start a release there that speaks \
             12, finish the upgrade (`cairn cluster upgrade finish`), then go on to 0.9.0"
        );
    }
}
