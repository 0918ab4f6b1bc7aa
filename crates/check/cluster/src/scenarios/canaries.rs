//! What catches a deliberate bug that random plans seldom meet.

use cairn_types::Canary;

use super::{Scenario, all};

/// Canaries, each with the story that catches it.
const STORIES: &[(Canary, &str)] = &[
    (Canary::CopyNotAwaited, "P4. a copy with bad blocks is back before the other one"),
    (Canary::PromiseNotDurable, "8. a take-over races an append in flight"),
    (Canary::NoGrace, "14. grantors restart just after granting"),
    (Canary::ForgetfulVotes, "12. a witness forgets whom it promised, and meets the older owner"),
    (Canary::YoungImageBelieved, "3. a young image of the owner's host"),
    (Canary::CallsNotGivenUp, "11. serving too early"),
    (Canary::NumbersReused, "15. an answer for the process before"),
    (Canary::AnsweredKept, "15. an answer for the process before"),
    (Canary::LocalCopyIgnored, "24. the directory is away, and all hosts start anew"),
    (Canary::RestUnseen, "19. a capacity device dies under a disk at rest"),
    (Canary::RefusalUnexplained, "P7. what is refused says why"),
    (Canary::LevelRaisedAlone, "P6. an upgrade, one host at a time"),
    (Canary::UnwantedIsSource, "26. the other copy's host dies while a twin is filled"),
    (Canary::WrongCopyGoes, "27. a policy is taken back before it is met"),
    (Canary::GoneHeard, "29. a forgotten host was only cut off"),
    (Canary::ScrubTrustsHeaders, "30. scrub finds rot, lost and misdirected writes"),
    (Canary::MarkForgotten, "P5. a rebuild whose only source has bad blocks"),
    (Canary::SlowAllAtOnce, "32. a second slow device waits for its turn"),
    (Canary::DigestBlind, "P6. copies that are each sound and differ"),
    (Canary::OlderCopyWins, "P6. copies that are each sound and differ"),
    (Canary::PositionNotLocked, "27. a disk goes from copies to rows and back, under load"),
    (Canary::RowCheckUnread, "17. a row that does not agree with its parity"),
    (Canary::UnlikeBroughtOn, "17c. rows are compared at rest"),
    (Canary::ShadowForgotten, "27. a disk goes from copies to rows and back, under load"),
    (Canary::SwapEarly, "27. a disk goes from copies to rows and back, under load"),
    (Canary::ShadowNotOwed, "27. front ends drop requests while a disk goes over to another layout"),
    (Canary::CopiesProveNothing, "27. a young image of the owner's host, from before its disk went over"),
    (Canary::RetryByNewSplit, "27. answers are lost just before a disk goes over to another layout"),
    (Canary::HistoryForgotten, "25. an owner dies while a snapshot is taken"),
    (Canary::ListNotLevelled, "25. an owner dies while a snapshot is taken"),
    (Canary::HoleNotKept, "25. an owner dies while a snapshot is taken"),
    (Canary::ViewedVersionDropped, "25. an owner dies while a snapshot is taken"),
    (Canary::KeptByOperation, "25. a copy that was away over snapshots has all of them"),
    (Canary::SweptTooMuch, "25. a copy that was away over snapshots has all of them"),
    (Canary::StaleHistoryKept, "25. a copy comes back, and what it lacks is changed before it is there"),
    (Canary::RollbackSkips, "25. a disk goes back to a snapshot, and its owner dies"),
    (Canary::BackTwice, "25. whoever has a disk go back hears no answer, and asks again"),
    (Canary::RepairHidesHistory, "25. a bad block is repaired at a copy that has history in its log"),
    (Canary::LockIgnored, "25. the host that begins a run of a schedule dies"),
    (Canary::RegimeIgnored, "18. devices are full of packed blocks, and are written over by what does not pack"),
];

/// Bugs of the store, each with the test program and the tests of it that catch it, on small groups with much in them.
pub const OF_STORE: &[(Canary, &str, &str)] = &[
    (Canary::PagesNotFlushed, "store_crash", "power_cut_at_every_disk_operation_of_another_seed"),
    (Canary::PlaceReusedEarly, "store_crash", "power_cut_at_every_disk_operation_of_another_seed"),
    (Canary::ChangesDroppedEarly, "store_crash", "power_cut_at_every_disk_operation_of_another_seed"),
    (Canary::HitUncompared, "store_crash", "equal_blocks_are_told_by_their_bytes"),
    (Canary::HitUnpinned, "store", "shared::blocks_that_are_given_up_soon_are_not_referred_to"),
    (Canary::OwnerStaysPlain, "store", "shared::reads_are_what_was_written_whatever_is_shared"),
    (Canary::MovedForgotten, "store", "shared::reads_are_what_was_written_whatever_is_shared"),
    (Canary::CountKept, "store", "shared::reads_are_what_was_written_whatever_is_shared"),
    (Canary::UnpacksUnasked, "store", "rewrite::unpacking_takes_no_room_that_was_promised"),
];

/// The story that is known to catch it. None: seeds do.
///
/// # Panics
/// There is no story of that name.
pub fn that_catches(canary: Canary) -> Option<Scenario> {
    let (_, name) = STORIES.iter().find(|(of, _)| *of == canary)?;
    let story = all(super::OBJECTS).into_iter().find(|story| story.name == *name);
    Some(story.unwrap_or_else(|| panic!("there is no story {name:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_story_is_there() {
        for (canary, _) in STORIES {
            assert!(that_catches(*canary).is_some(), "{canary:?}");
        }
    }
}
