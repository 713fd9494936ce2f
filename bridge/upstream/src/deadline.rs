//! Moments that may never come.

use tokio::time::Instant;

/// Waits until `moment`; for ever where there is none.
pub(crate) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
