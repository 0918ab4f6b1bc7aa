//! The health of the cluster in memory.

use cairn_api::{ApiError, ApiResult, Request as _, v1::*};

/// One host is down, two disks have reduced redundancy.
pub fn health() -> Health {
    let check = |name: &str, found: &[(Severity, &str, &str, &str)]| Check {
        name: name.into(),
        looks_at: format!("what concerns {name}"),
        finds: "whatever is wrong there".into(),
        severity: found.first().map_or(Severity::Ok, |f| f.0),
        text: found.first().map_or_else(|| "all is well".into(), |f| f.1.into()),
        findings_total: found.len() as u32,
        findings: found
            .iter()
            .map(|(severity, cause, consequence, remedy)| Finding {
                severity: *severity,
                cause: (*cause).into(),
                consequence: (*consequence).into(),
                remedy: (*remedy).into(),
            })
            .collect(),
        muted: None,
    };
    let down = (Severity::Error, "host-4 does not answer", "its copies are away", "look at its power and network");
    let reduced = |cause| (Severity::Warning, cause, "it works; fewer failures can be survived", "bring host-4 back");
    Health::of(vec![
        check("directory", &[]),
        check("hosts-up", &[down]),
        check("disks", &[reduced("disk wounded has reduced redundancy"), reduced("disk other has, too")]),
    ])
}

/// The same with a check muted, or not any more.
///
/// # Errors
/// There is no such check.
pub fn health_with(request: &HealthMute) -> ApiResult<Health> {
    request.validate()?;
    let health = health();
    if !health.checks.iter().any(|check| check.name == request.check) {
        return Err(ApiError::not_found(format!("there is no check {:?}", request.check))
            .remedy("`cairn health` shows all of them by name"));
    }
    let muted = (request.for_s > 0).then(|| Muted { reason: request.reason.clone(), until_unix_ms: 0 });
    let of = |check: Check| match check.name == request.check {
        true => Check { muted: muted.clone(), ..check },
        false => check,
    };
    Ok(Health::of(health.checks.into_iter().map(of).collect()))
}

/// What was found so far.
pub fn history() -> HealthHistory {
    let event = |check: &str, severity, text: &str, ended_unix_ms| HealthEvent {
        check: check.into(),
        severity,
        text: text.into(),
        // By a clock that is ahead: what is told of it does not change from day to day.
        began_unix_ms: 4_000_000_000_000,
        ended_unix_ms,
    };
    let events = vec![
        event("disks", Severity::Warning, "disk wounded has reduced redundancy", None),
        event("hosts-up", Severity::Error, "host-4 does not answer", Some(4_000_007_260_000)),
    ];
    HealthHistory { events }
}
