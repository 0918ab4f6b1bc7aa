//! Moments of the day in words: UTC, in the calendar of ISO 8601.
//!
//! Promises    a stamp has [`STAMP_BYTES`] bytes up to the year 9999, and stamps sort as their moments do
//! Not here    what time it is (`env`)
//! Source      days to dates: Howard Hinnant, "chrono-compatible low-level date algorithms"

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 16;
/// The last second that has a stamp of that length: the end of the year 9999.
pub const STAMP_UNIX_S_MAX: u64 = 253_402_300_799;

const DAY_S: u64 = 86_400;

/// Year, month and day of a day, counted from the first of 1970. Years begin in March here, so that the day that some years lack is their last.
fn date(days: u64) -> (u64, u64, u64) {
    // Eras of 400 years, 146,097 days each, from the first of March of the year 0.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months + 2) / 5 + 1;
    let month = if months < 10 { months + 3 } else { months - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Hour, minute and second of a day.
fn clock(unix_s: u64) -> (u64, u64, u64) {
    (unix_s / 3600 % 24, unix_s / 60 % 60, unix_s % 60)
}

/// "2026-11-29 10:00:00 UTC".
pub fn format_utc(unix_ms: u64) -> String {
    let unix_s = unix_ms / 1000;
    let ((year, month, day), (hour, minute, second)) = (date(unix_s / DAY_S), clock(unix_s));
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// "20261129T100000Z": a moment as a part of a name.
pub fn utc_stamp(unix_s: u64) -> String {
    let ((year, month, day), (hour, minute, second)) = (date(unix_s / DAY_S), clock(unix_s));
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_calendar() {
        let cases = [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_164_800, "20240229T000000Z"),
            (1_795_946_400, "20261129T100000Z"),
            (4_107_542_400, "21000301T000000Z"),
            (STAMP_UNIX_S_MAX, "99991231T235959Z"),
        ];
        for (unix_s, stamp) in cases {
            assert_eq!(utc_stamp(unix_s), stamp);
            assert_eq!(stamp.len(), STAMP_BYTES);
        }
        assert_eq!(format_utc(1_795_946_400_999), "2026-11-29 10:00:00 UTC");
        // Whatever a clock may say.
        assert!(format_utc(u64::MAX).ends_with(" UTC"));
    }

    /// Goal: each day follows the one before. Method: all days of 500 years, beside a calendar that is counted.
    #[test]
    fn days_follow_each_other() {
        let leaps = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..500 * 365 {
            assert_eq!(date(days), (year, month, day));
            let length = match month {
                2 => 28 + u64::from(leaps(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
