//! Exit statuses of guests, with the names of signals.

use std::fmt;

/// Exit status of a process: 128 and the signal's number where a signal ended it, negative where
/// nobody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExitStatus(pub i64);

impl ExitStatus {
    /// The status after SIGKILL.
    pub const KILLED: Self = Self(137);

    /// The number, where it is known.
    pub fn known(self) -> Option<i64> {
        (self.0 >= 0).then_some(self.0)
    }

    fn signal(self) -> Option<&'static str> {
        Some(match self.0.checked_sub(128)? {
            1 => "SIGHUP",
            2 => "SIGINT",
            3 => "SIGQUIT",
            4 => "SIGILL",
            5 => "SIGTRAP",
            6 => "SIGABRT",
            7 => "SIGBUS",
            8 => "SIGFPE",
            9 => "SIGKILL",
            10 => "SIGUSR1",
            11 => "SIGSEGV",
            12 => "SIGUSR2",
            13 => "SIGPIPE",
            14 => "SIGALRM",
            15 => "SIGTERM",
            24 => "SIGXCPU",
            25 => "SIGXFSZ",
            31 => "SIGSYS",
            _ => return None,
        })
    }
}

impl fmt::Display for ExitStatus {
    /// `exit 3`, `exit 139 (SIGSEGV)`; in words where the engine could not tell.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.known(), self.signal()) {
            (None, _) => formatter.write_str("nobody knows with which status"),
            (Some(code), None) => write!(formatter, "exit {code}"),
            (Some(code), Some(signal)) => write!(formatter, "exit {code} ({signal})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_name_their_signal() {
        let text = |code| ExitStatus(code).to_string();
        assert_eq!(text(3), "exit 3");
        assert_eq!(text(139), "exit 139 (SIGSEGV)");
        assert_eq!(text(i64::MAX), format!("exit {}", i64::MAX));
        assert_eq!(text(-1), "nobody knows with which status");
    }
}
