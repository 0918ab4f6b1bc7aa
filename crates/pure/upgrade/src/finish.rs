//! Whether an upgrade may be finished: what all hosts speak, and who stands in the way.

use cairn_types::{Build, Level};

/// What is known of the program that a server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hearing {
    /// It answers, and runs this.
    Runs(Build),
    /// It does not answer; it said this when it was last entered in the directory, if anything.
    Silent(Option<Build>),
}

/// A server of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// What people call it.
    pub name: String,
    /// What it runs.
    pub hearing: Hearing,
}

/// The level to which the cluster goes: the highest that any server speaks which answers, never below the present one.
pub fn target(level: Level, servers: &[Standing]) -> Level {
    let highest = servers.iter().filter_map(|server| match &server.hearing {
        Hearing::Runs(build) => Some(build.speaks.highest),
        Hearing::Silent(_) => None,
    });
    highest.fold(level, Level::max)
}

/// Who keeps the cluster from going to `target`, each a sentence with what to do; none: it may.
pub fn obstacles(target: Level, servers: &[Standing]) -> Vec<String> {
    let of = |Standing { name, hearing }: &Standing| match hearing {
        Hearing::Runs(build) if build.speaks.includes(target) => None,
        Hearing::Runs(build) => Some(format!(
            "host {name} runs {}, which speaks {} and not {target}: upgrade it",
            build.version, build.speaks
        )),
        Hearing::Silent(last) => {
            let last = last.as_ref().map(|build| format!("; it ran {} last", build.version)).unwrap_or_default();
            Some(format!(
                "host {name} does not answer{last}: start it, upgraded, or forget it if it is gone for good (`cairn host forget {name}`)"
            ))
        }
    };
    servers.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use cairn_types::Speaks;

    use super::*;

    fn runs(name: &str, version: &str, least: u32, highest: u32) -> Standing {
        let build = Build { version: version.into(), speaks: Speaks::of(least, highest) };
        Standing { name: name.into(), hearing: Hearing::Runs(build) }
    }

    #[test]
    fn every_server_must_answer_and_speak_the_new_level() {
        let new = |name| runs(name, "0.3.0", 12, 13);
        let silent = |last| Standing { name: "h4".into(), hearing: Hearing::Silent(last) };
        let told = Build { version: "0.3.0".into(), speaks: Speaks::of(12, 13) };
        assert_eq!(target(Level(12), &[new("h1"), new("h2")]), Level(13));
        assert!(obstacles(Level(13), &[new("h1"), new("h2")]).is_empty());
        assert_eq!(
            obstacles(Level(13), &[new("h1"), runs("h3", "0.2.0", 12, 12), silent(Some(told)), silent(None)]),
            [
                "host h3 runs 0.2.0, which speaks protocol 12 and not 13: upgrade it",
                "host h4 does not answer; it ran 0.3.0 last: start it, upgraded, or forget it if it is gone for good \
                 (`cairn host forget h4`)",
                "host h4 does not answer: start it, upgraded, or forget it if it is gone for good (`cairn host forget h4`)",
            ]
        );
    }

    #[test]
    fn who_is_silent_decides_nothing_and_nobody_goes_back() {
        let silent = Build { version: "0.4.0".into(), speaks: Speaks::of(13, 14) };
        let silent = Standing { name: "h4".into(), hearing: Hearing::Silent(Some(silent)) };
        assert_eq!(target(Level(12), &[runs("h1", "0.3.0", 12, 13), silent]), Level(13));
        assert_eq!(target(Level(13), &[runs("h1", "0.2.0", 12, 12)]), Level(13));
        // One is ahead of the others: they are to follow, or it goes back.
        let mixed = [runs("h1", "0.3.0", 12, 13), runs("h2", "0.4.0", 13, 14)];
        assert_eq!(target(Level(13), &mixed), Level(14));
        assert_eq!(obstacles(Level(14), &mixed).len(), 1);
    }
}
