//! Why an engine refused a request. The API says no more than a status and a sentence: the
//! sentences that are known are read here, once, and everything else asks the type.

use crate::RejectionCause;

/// The cause that the engine's own words stand for.
pub(super) fn classify(message: &str) -> Option<RejectionCause> {
    let known = [
        ("rlimit", RejectionCause::ResourceLimits),
        (
            "apparmor_restrict_unprivileged_userns",
            RejectionCause::AppArmor,
        ),
        ("cgroups in hybrid mode", RejectionCause::HybridCgroups),
        ("newuidmap", RejectionCause::UserMapping),
        (
            "unknown or invalid runtime name",
            RejectionCause::UnknownRuntime,
        ),
        ("no space left on device", RejectionCause::DiskFull),
    ];
    let message = message.to_lowercase();
    known
        .into_iter()
        .find(|(words, _)| message.contains(words))
        .map(|(_, cause)| cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_sentences_have_a_cause() {
        let cause = classify("runc: error setting rlimit type 7: operation not permitted");
        assert_eq!(cause, Some(RejectionCause::ResourceLimits));
        let cause = classify("write /var/lib: No space left on device");
        assert_eq!(cause, Some(RejectionCause::DiskFull));
        assert_eq!(classify("conflict"), None);
    }
}
