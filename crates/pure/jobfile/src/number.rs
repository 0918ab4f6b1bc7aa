//! Numbers as job files write them.
//!
//! Promises    no number is larger than 2^53, so that it is exact wherever it goes
//! Not here    lists and ranges (each tool has its own)

/// The largest number that is taken: 8 PiB as bytes.
const MAX: u64 = 1 << 53;

/// A whole number.
pub(crate) fn whole(text: &str) -> Result<u64, String> {
    let number = text.trim().parse::<u64>().ok().filter(|n| *n <= MAX);
    number.ok_or_else(|| format!("{text:?} is no whole number"))
}

/// A whole number that is not above `max`.
pub(crate) fn at_most(text: &str, max: u64) -> Result<u64, String> {
    let number = whole(text)?;
    if number <= max { Ok(number) } else { Err(format!("{number} is more than {max}")) }
}

/// A number from 0 on, with a point or without.
pub(crate) fn number(text: &str) -> Result<f64, String> {
    let plain = text.trim().bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let number = text.trim().parse::<f64>().ok().filter(|n| plain && (0.0..=MAX as f64).contains(n));
    number.ok_or_else(|| format!("{text:?} is no number"))
}

/// Per cent from 0 to 100, with `%` or without.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let percent = number(text.trim().trim_end_matches('%'))?;
    if percent <= 100.0 { Ok(percent) } else { Err(format!("{text:?}: take 0 to 100 per cent")) }
}

/// Whole per cent.
pub(crate) fn percent_whole(text: &str) -> Result<u8, String> {
    let percent = percent(text)?;
    if percent.fract() == 0.0 { Ok(percent as u8) } else { Err(format!("{text:?}: take whole per cent")) }
}

/// A number of `k`, `m`, `g`, `t`, `p`: powers of 1,024. `kb` and `kib` are the same as `k`, as both fio and Vdbench have it.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let split = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(split);
    let power = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return Err(format!("{text:?} is no size: write 4k, 16m or 10g")),
    };
    let number = number(digits).map_err(|_| format!("{text:?} is no size: write 4k, 16m or 10g"))?;
    let bytes = number * 1024f64.powi(power);
    match bytes <= MAX as f64 && bytes.fract() == 0.0 {
        true => Ok(bytes as u64),
        false => Err(format!("{text:?} is no whole number of bytes, or more than any disk holds")),
    }
}

/// Bytes of a request.
pub(crate) fn request_bytes(text: &str) -> Result<u32, String> {
    let bytes = bytes(text)?;
    let fits = u32::try_from(bytes).ok().filter(|n| *n > 0 && n.is_multiple_of(512) && *n <= 32 << 20);
    fits.ok_or_else(|| format!("a request of {bytes} bytes: take a multiple of 512 up to 32 MiB"))
}

/// Seconds, from 0 to ten million: a number, or one with `s`, `m`, `h` or `d`.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let split = lower.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(lower.len());
    let (digits, unit) = lower.split_at(split);
    let each = match unit {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err(format!("{text:?} is no time: write 30, 30s, 10m or 2h")),
    };
    let seconds = number(digits).map_err(|_| format!("{text:?} is no time: write 30, 30s, 10m or 2h"))? * each;
    if seconds <= 1e7 { Ok(seconds) } else { Err(format!("{text:?} is more than ten million seconds")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read() {
        assert_eq!((bytes("4k"), bytes("1.5m"), bytes("512")), (Ok(4096), Ok(1_572_864), Ok(512)));
        assert_eq!((bytes("4KiB"), bytes("8kb")), (Ok(4096), Ok(8192)));
        assert_eq!((seconds("2h"), seconds("500ms"), seconds("30")), (Ok(7200.0), Ok(0.5), Ok(30.0)));
        assert_eq!((percent("12.5%"), percent_whole("70")), (Ok(12.5), Ok(70)));
        for wrong in ["", "k", "-1", "1e9", "4x", "inf", "99999999p", "1.3"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert!(percent("101").is_err() && seconds("5w").is_err() && request_bytes("1000").is_err());
        assert!(number("nan").is_err() && number("1e5").is_err() && whole("").is_err());
    }
}
