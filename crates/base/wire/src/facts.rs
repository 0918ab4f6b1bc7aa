//! Facts: what a heartbeat tells beside its fixed part, each under a number.
//!
//! Promises    a fact that is not known, or does not read, is passed over: a later build may add one without a new level
//! Assumes     a number means one thing for ever

use cairn_types::{DeviceTimes, Level};
use serde::{Deserialize, Serialize};

/// The level that the sender takes the cluster for: four bytes, little-endian.
const LEVEL: u16 = 1;
/// What requests took at the sender's devices of late: [`DeviceTimes`], as messages have them.
const DEVICE_TIMES: u16 = 2;

/// Numbered facts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Facts(Vec<(u16, Vec<u8>)>);

impl Facts {
    /// The level that the sender takes the cluster for.
    pub fn of_level(level: Level) -> Self {
        Self(vec![(LEVEL, level.0.to_le_bytes().to_vec())])
    }

    /// See [`Self::of_level`].
    pub fn level(&self) -> Option<Level> {
        let (_, bytes) = self.0.iter().find(|(number, _)| *number == LEVEL)?;
        Some(Level(u32::from_le_bytes(bytes.as_slice().try_into().ok()?)))
    }

    /// With what requests took at the sender's devices within the last half minute: of those that had some.
    pub fn with_device_times(mut self, times: &[DeviceTimes]) -> Self {
        if !times.is_empty() {
            self.0.push((DEVICE_TIMES, postcard::to_allocvec(times).expect("numbers encode")));
        }
        self
    }

    /// See [`Self::with_device_times`]; none where nothing is told, or nothing that reads.
    pub fn device_times(&self) -> Vec<DeviceTimes> {
        let told = self.0.iter().find(|(number, _)| *number == DEVICE_TIMES);
        told.and_then(|(_, bytes)| postcard::from_bytes(bytes).ok()).unwrap_or_default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use cairn_types::RequestKind;

    use super::*;

    #[test]
    fn what_is_not_known_is_passed_over() {
        let mut facts = Facts(vec![(77, b"of a later build".to_vec())]);
        assert_eq!(facts.level(), None);
        facts.0.extend(Facts::of_level(Level(13)).0);
        let bytes = postcard::to_allocvec(&facts).expect("facts encode");
        let read: Facts = postcard::from_bytes(&bytes).expect("and read back");
        assert_eq!((read.level(), read.is_empty()), (Some(Level(13)), false));
        assert_eq!(Facts(vec![(LEVEL, b"thirteen".to_vec())]).level(), None);
        let facts = Facts::of_level(Level(13)).with_device_times(&[]);
        assert_eq!((facts.0.len(), facts.device_times()), (1, Vec::new()));
        let mut times = DeviceTimes { is_cache: true, rotates: Some(false), busy_ns: 9, ..DeviceTimes::default() };
        times.count(RequestKind::SmallRead, 4096, 70_000);
        let facts = facts.with_device_times(&[times, DeviceTimes::default()]);
        assert_eq!((facts.level(), facts.device_times()), (Some(Level(13)), vec![times, DeviceTimes::default()]));
        assert_eq!(Facts(vec![(DEVICE_TIMES, b"?".to_vec())]).device_times(), Vec::new());
    }
}
