//! Times and rates for people, sizes from people.

use std::{
    net::{IpAddr, SocketAddr},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use cairn_types::format_bytes;

/// A size on the command line.
pub fn size(text: &str) -> Result<u64, String> {
    cairn_types::parse_bytes(text)
}

/// Where hosts listen for each other, unless told otherwise.
const PEER_PORT: u16 = 9600;

/// The address of a host for the others: "10.0.0.1", "10.0.0.1:9600", "fd00::1", "[fd00::1]:9600".
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let address = match text.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, PEER_PORT),
        Err(_) => {
            text.parse().map_err(|_| format!("{text:?} is no address: write 10.0.0.1 or 10.0.0.1:{PEER_PORT}"))?
        }
    };
    match address.ip().is_unspecified() || address.port() == 0 {
        true => Err(format!("{text:?} tells other hosts no address: write one that they reach")),
        false => Ok(address),
    }
}

/// A host and its address: "host-1=10.0.0.1".
pub fn place(text: &str) -> Result<(String, SocketAddr), String> {
    let (name, at) = text.split_once('=').ok_or_else(|| format!("{text:?}: write NAME=ADDRESS"))?;
    Ok((name.to_owned(), address(at)?))
}

/// A time on the command line, in seconds: "90", "45s", "30m", "2h", "1d".
pub fn seconds(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        unit => return Err(format!("{unit:?} is no unit of time: use s, m, h or d")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is no time: write 90, 30m or 2h"))?;
    number.checked_mul(unit).ok_or_else(|| format!("{text:?} is too long"))
}

/// "45 s", "12 min", "3 h 20 min", "2 d 4 h".
pub fn duration(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    let two = |a: u64, a_unit: &str, b: u64, b_unit: &str| match b {
        0 => format!("{a} {a_unit}"),
        _ => format!("{a} {a_unit} {b} {b_unit}"),
    };
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => two(minutes, "min", seconds % 60, "s"),
        3600..86_400 => two(hours, "h", minutes, "min"),
        _ => two(days, "d", hours, "h"),
    }
}

/// "3 d 2 h ago", or "never".
pub fn ago(unix_ms: Option<u64>) -> String {
    let Some(unix_ms) = unix_ms else { return "never".into() };
    // A host whose clock is ahead has ended just now.
    let since = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_millis(unix_ms)).unwrap_or_default();
    format!("{} ago", duration(since.as_secs()))
}

/// Whether a moment is still to come.
pub fn is_ahead(unix_ms: u64) -> bool {
    SystemTime::now() < UNIX_EPOCH + Duration::from_millis(unix_ms)
}

/// "12 MiB/s", or "waits".
pub fn rate(bytes_per_s: u64) -> String {
    match bytes_per_s {
        0 => "waits".into(),
        _ => format!("{}/s", format_bytes(bytes_per_s)),
    }
}

/// Per cent, whole, "-" of nothing.
pub fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".into(),
        _ => format!("{} %", (u128::from(part) * 100 / u128::from(whole))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_named_with_their_addresses() {
        let read = |text: &str| place(text).map(|(name, at)| format!("{name} {at}"));
        assert_eq!(read("a=10.0.0.1"), Ok("a 10.0.0.1:9600".into()));
        assert_eq!(read("a=10.0.0.1:7"), Ok("a 10.0.0.1:7".into()));
        assert_eq!(read("a=fd00::1"), Ok("a [fd00::1]:9600".into()));
        for wrong in ["a", "a=host", "a=0.0.0.0", "a=10.0.0.1:0"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_written_as_people_do() {
        assert_eq!(["90", "45s", "30m", "2h", "1d"].map(seconds), [90, 45, 1800, 7200, 86_400].map(Ok));
        for bad in ["", "soon", "1w", "-3", "99999999999999999d"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_read_at_a_glance() {
        let cases =
            [(5, "5 s"), (60, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (12_000, "3 h 20 min"), (100_000, "1 d 3 h")];
        for (seconds, text) in cases {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!(percent(u64::MAX, u64::MAX), "100 %");
        assert_eq!(percent(1, 0), "-");
    }
}
