//! Whether devices are as fast as their peers.

use cairn_api::v1::{self, Severity};

use super::check::{Check, Looked, Picture, finding, lights};

/// Every device is about as fast as others of its kind.
pub(crate) const SLOW: Check = Check {
    name: "slow-devices",
    looks_at: "what requests take at every device, beside other devices of its kind",
    finds: "each that takes five times as long as its peers for half a minute, and each disk group that was emptied for it: a warning",
    look,
};

fn look(picture: &Picture) -> Looked {
    let mut findings = Vec::new();
    for group in &picture.groups {
        let slow: Vec<&v1::Device> = devices(group).filter(|device| device.slow.is_some()).collect();
        if slow.len() > 1 && slow.len() == devices(group).count() {
            findings.push(whole_group(group));
        }
        findings.extend(slow.into_iter().filter_map(|device| one(group, device, picture.unix_ms)));
        if let Some(done) = group.slow.as_ref().filter(|_| devices(group).all(|device| device.slow.is_none())) {
            findings.push(finding(
                Severity::Warning,
                format!("disk group {} of host {} had a slow device: {}", group.id, group.host_name, done.text),
                "nothing new is placed on it",
                remedy(group),
            ));
        }
    }
    Looked { well: "no device is slow beside its peers".into(), findings }
}

fn devices(group: &v1::DiskGroup) -> impl Iterator<Item = &v1::Device> {
    group.cache.iter().chain(&group.devices)
}

fn one(group: &v1::DiskGroup, device: &v1::Device, now_unix_ms: u64) -> Option<v1::Finding> {
    let slow = device.slow.as_ref()?;
    let role = if group.cache.as_ref().is_some_and(|cache| cache.id == device.id) { "cache" } else { "capacity" };
    let ms = |us: u64| format!("{}.{} ms", us / 1000, us % 1000 / 100);
    let cause = format!(
        "{role} device {} of disk group {} of host {} is slow: {} take {}, at its {} peers {}, for {} s",
        device.path,
        group.id,
        group.host_name,
        slow.requests,
        ms(slow.took_us),
        slow.peers,
        ms(slow.peers_us),
        now_unix_ms.saturating_sub(slow.since_unix_ms) / 1000,
    );
    let done = group.slow.as_ref().map_or(String::new(), |done| format!("; {}", done.text));
    let consequence = format!("guests with a copy there wait for it with each write, and with some reads{done}");
    let remedy = remedy(group) + &lights(&device.path, &group.host_name);
    Some(finding(Severity::Warning, cause, consequence, remedy))
}

fn whole_group(group: &v1::DiskGroup) -> v1::Finding {
    finding(
        Severity::Warning,
        format!("all devices of disk group {} of host {} are slow", group.id, group.host_name),
        "it may be the host and not its devices: a controller, a processor that something else uses, too little memory",
        format!("look at host {} itself: `cairn top`, the log of its kernel", group.host_name),
    )
}

fn remedy(group: &v1::DiskGroup) -> String {
    format!(
        "replace the device when the group is empty: `cairn disk-group drain {0} --dry-run` tells what is left on it; \
         `cairn disk-group drain {0} --stop` takes it into use again",
        group.id
    )
}

#[cfg(test)]
mod tests {
    use cairn_types::{DeviceId, DiskGroupId, HostId};

    use super::super::check::tests::causes;
    use super::*;

    fn device(n: u128, slow: bool) -> v1::Device {
        let slow = slow.then(|| v1::SlowDevice {
            requests: "reads up to 64 KiB".into(),
            took_us: 12_340,
            peers_us: 600,
            peers: 7,
            since_unix_ms: 60_000,
        });
        let (id, path, state) = (DeviceId(n), format!("/dev/{n}"), v1::DeviceState::Ok);
        v1::Device { id, path, size_bytes: 1, state, problem: None, medium: None, slow }
    }

    fn group(n: u128, slow: Option<&str>, devices: [v1::Device; 2]) -> v1::DiskGroup {
        let [cache, capacity] = devices;
        v1::DiskGroup {
            id: DiskGroupId(n),
            host: HostId(n),
            host_name: format!("h{n}"),
            state: v1::DiskGroupState::Mounted,
            draining: false,
            reason: None,
            slow: slow.map(|text| v1::SlowGroup { state: v1::SlowGroupState::Emptied, text: text.into() }),
            cache: Some(cache),
            devices: vec![capacity],
            capacity: v1::Capacity::default(),
            log: None,
            components: None,
            scrubbed_unix_ms: None,
            compression: None,
            deduplication: None,
            rewriting: None,
            space: None,
        }
    }

    /// Goal: a slow device is told with its numbers, a slow host as one, and what was done stays told. Method: one of each.
    #[test]
    fn slow_devices_are_told_with_numbers() {
        let groups = vec![
            group(1, None, [device(11, false), device(12, false)]),
            group(2, Some("it is being emptied"), [device(21, false), device(22, true)]),
            group(3, None, [device(31, true), device(32, true)]),
            group(4, Some("it was emptied"), [device(41, false), device(42, false)]),
        ];
        let picture = Picture { groups, unix_ms: 100_000, ..Default::default() };
        let found = causes(&SLOW, &picture);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(
            found[0].starts_with("capacity device /dev/22") && found[0].contains("of host h2 is slow"),
            "{found:?}"
        );
        assert!(found[0].contains("reads up to 64 KiB take 12.3 ms, at its 7 peers 0.6 ms, for 40 s"), "{found:?}");
        assert!(found[1].starts_with("all devices of disk group") && found[2].starts_with("cache device /dev/31"));
        assert!(found[4].contains("h4 had a slow device: it was emptied"), "{found:?}");
        let findings = (SLOW.look)(&picture).findings;
        assert!(findings[0].consequence.ends_with("; it is being emptied"), "{findings:?}");
        assert!(findings[0].remedy.ends_with("`cairn host locate /dev/22 --host h2` lights its LED"), "{findings:?}");
    }
}
