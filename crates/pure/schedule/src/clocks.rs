//! What time of the day it is, where hosts' clocks differ.
//!
//! Promises    as long as more than half of the clocks that are heard are right, it is a right one, or lies between two of them
//!             of two clocks it is the earlier one: nothing is taken, and no lock ends, before its time
//! Not here    whose clock is wrong, for people (`node`'s health checks)

/// The middle one of these clocks, by how far each is ahead of any one of them. Of two in the middle the earlier one; of none 0.
pub fn middle(ahead_ms: impl IntoIterator<Item = i64>) -> i64 {
    let mut all: Vec<i64> = ahead_ms.into_iter().collect();
    all.sort_unstable();
    all.get(all.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::middle;

    #[test]
    fn a_wrong_clock_decides_nothing_among_right_ones() {
        const MONTH: i64 = 30 * 86_400_000;
        let cases: [(&[i64], i64); 7] = [
            (&[], 0),
            (&[0], 0),
            (&[0, MONTH], 0),
            (&[0, -MONTH], -MONTH),
            (&[0, -MONTH, -MONTH + 5], -MONTH + 5),
            (&[0, MONTH, 30], 30),
            (&[0, 2, MONTH, MONTH], 2),
        ];
        for (clocks, expected) in cases {
            assert_eq!(middle(clocks.iter().copied()), expected, "{clocks:?}");
        }
    }
}
