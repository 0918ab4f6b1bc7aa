//! Locate LEDs of devices, by `ledctl`: it knows the ways of enclosures and controllers (SES, SGPIO, NPEM, VMD).
//!
//! Promises    the LED of this device changes and no other one; the caller has an answer after [`LIGHT_MAX`]
//! Assumes     ledmon 0.95 or newer; root, else it refuses
//! Not here    whether the device is one of this machine's (`node`); what is lit now: the enclosure keeps that

use std::{ffi::OsStr, path::Path, time::Duration};

use cairn_env::LocateError;

use crate::program::{Said, Unanswered, ask};

/// It looks at every controller and enclosure first: some seconds where there are many. An administrator's command waits half a minute.
const LIGHT_MAX: Duration = Duration::from_secs(20);
/// Where it is where PATH does not say so.
const PROGRAMS: [&str; 3] = ["ledctl", "/usr/sbin/ledctl", "/sbin/ledctl"];
/// Its exit codes, the same from 0.95 on.
const NOT_SUPPORTED: i32 = 33;
const NOT_PRIVILEGED: i32 = 36;

/// Lights the locate LED of a device, or puts it out.
///
/// # Errors
/// What stood in the way.
pub fn locate(device: &Path, lit: bool) -> Result<(), LocateError> {
    locate_by(&PROGRAMS, device, lit, LIGHT_MAX)
}

fn locate_by(programs: &[&str], device: &Path, lit: bool, time_max: Duration) -> Result<(), LocateError> {
    let mut pattern = OsStr::new(if lit { "locate=" } else { "locate_off=" }).to_owned();
    pattern.push(device);
    // Without the first word it puts out the LEDs of all other devices.
    match ask(programs, &[OsStr::new("--listed-only"), &pattern], time_max) {
        Ok(said) => judge(&said),
        Err(Unanswered::NotInstalled) => Err(LocateError::NoProgram),
        Err(Unanswered::TooLong) => Err(LocateError::Silent { waited_s: time_max.as_secs() }),
        Err(Unanswered::Failed(why)) => Err(LocateError::Other(why)),
    }
}

fn judge(said: &Said) -> Result<(), LocateError> {
    match said.code {
        Some(0) => Ok(()),
        Some(NOT_SUPPORTED) => Err(LocateError::NoEnclosure),
        Some(NOT_PRIVILEGED) => Err(LocateError::NotRoot),
        code => {
            let end = code.map_or("a signal ended it".to_owned(), |code| format!("exit code {code}"));
            let lines: Vec<&str> = said.err.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            Err(LocateError::Other(if lines.is_empty() { end } else { format!("{} ({end})", lines.join("; ")) }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each end of the program is told as what it is. Method: programs that are not there, do not end, or end with its exit codes; what
    /// it prints was printed by ledctl 0.95 on a machine without an enclosure.
    #[test]
    fn each_end_of_the_program_is_told() {
        let device = Path::new("/dev/sda");
        assert_eq!(locate_by(&["/nowhere/ledctl"], device, true, Duration::from_secs(9)), Err(LocateError::NoProgram));
        assert_eq!(locate_by(&["/bin/true"], device, false, Duration::from_secs(9)), Ok(()));
        let said = |code: Option<i32>, err: &str| judge(&Said { code, out: String::new(), err: err.into() });
        let unsupported = "ledctl: /dev/sda: device not supported\n\
                           ledctl: IBPI LOCATE: missing block device(s)... pattern ignored.\n";
        assert_eq!(said(Some(33), unsupported), Err(LocateError::NoEnclosure));
        assert_eq!(said(Some(36), "Only root can run this application.\n"), Err(LocateError::NotRoot));
        assert_eq!(said(Some(8), "a\n\nb\n"), Err(LocateError::Other("a; b (exit code 8)".into())));
        assert_eq!(said(None, ""), Err(LocateError::Other("a signal ended it".into())));
    }
}
