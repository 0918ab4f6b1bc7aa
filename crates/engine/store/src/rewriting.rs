//! Where writing anew what stood on the capacity devices before something was chosen stands: which segment comes next, how far it is.
//!
//! Promises    a pass goes over all segments of all devices; what it has to leave out is met again by the next one
//! Not here    writing a segment anew (`rewrite.rs`), the mark that tells which are older (`settings.rs`)

use std::time::Duration;

use cairn_types::Time;

use crate::{
    segments::{Pins, Segments},
    tier::Tier,
};

/// Rows of segments that one step looks at, at most: some 0.2 ms.
const LOOKED_AT_ONCE: u32 = 1 << 16;

/// How far a group's rewriting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RewriteProgress {
    /// Segments of all capacity devices that were looked at, and are as chosen or need not be.
    pub done_segments: u64,
    /// Of so many.
    pub segments: u64,
    /// How long the rest will take at the rate until now; none where nobody knows yet.
    pub left: Option<Duration>,
    /// Some cannot be written anew for lack of room: it goes on once there is.
    pub lacks_room: bool,
}

/// Where a group's rewriting stands, beside its mark.
#[derive(Debug, Default)]
pub(crate) struct Rewriting {
    /// The next segment to look at: (device, segment).
    at: (usize, u32),
    /// Segments that this pass had to leave out.
    left_out: u64,
    /// Some of them for lack of room: of this pass, and of the one before.
    pub lacks_room: [bool; 2],
    pub rests_until: Time,
    /// When the first segment was emptied since the beginning or a start, and how many of all were done by then.
    pub began: Option<(Time, u64)>,
}

/// What a step has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Empty(u8, u32),
    /// More rows are to be looked at.
    More,
    /// All that could be written anew were; some are left.
    Again,
    Done,
}

impl Rewriting {
    /// The next segment that was written to before round `below`, of those that can be emptied now.
    pub fn next(&mut self, tier: &Tier, below: u64, pins: &Pins) -> Next {
        for _ in 0..LOOKED_AT_ONCE {
            let Some(segments) = tier.devices().get(self.at.0) else {
                return self.pass_ends();
            };
            let segment = self.at.1;
            if segments.failed || u64::from(segment) >= segments.count() {
                self.at = (self.at.0 + 1, 0);
                continue;
            }
            self.at.1 += 1;
            let row = segments.row(segment);
            if row.live.is_none() || row.written >= below {
                continue;
            }
            if segments.may_be_emptied(segment, pins) {
                return Next::Empty(segments.device, segment);
            }
            self.left_out += 1;
        }
        Next::More
    }

    fn pass_ends(&mut self) -> Next {
        let next = if self.left_out > 0 { Next::Again } else { Next::Done };
        self.lacks_room = [false, self.lacks_room[0]];
        (self.at, self.left_out) = ((0, 0), 0);
        next
    }

    /// Segments of all devices that were looked at.
    pub fn done(&self, tier: &Tier) -> u64 {
        let before: u64 = tier.devices().iter().take(self.at.0).map(Segments::count).sum();
        before + u64::from(self.at.1)
    }

    /// What this segment has is not chosen to take as much room as there is.
    pub fn leave_out_for_room(&mut self) {
        self.left_out += 1;
        self.lacks_room[0] = true;
    }

    /// There is no free segment to write to: nothing else of its device can be written anew, and looking for each would go over all segments.
    pub fn leave_out_device(&mut self) {
        self.leave_out_for_room();
        self.at = (self.at.0 + 1, 0);
    }
}
