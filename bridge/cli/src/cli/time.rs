//! Time limits given as arguments.

use std::time::Duration;

use bridge_settings::parse_duration;

/// Parses the value of `--timeout`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .ok_or_else(|| "expected whole seconds or minutes, such as 30, 30s or 2m".to_owned())
}
