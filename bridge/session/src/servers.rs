//! What a call's servers come to: proxies for the guest to make, names it may know, and what is said of those that failed.

use std::future::Future;
use std::pin::Pin;

use bridge_broker::{GuestError, Loaded, Scope};
use bridge_catalog::ServerName;
use bridge_wire::{EncodedCard, FailedServer};
use futures_util::future::MaybeDone;

/// Bytes of descriptions of tools that one call may bring to the guest.
const CARDS_LIMIT: usize = 15 << 20;
/// Servers that failed of which the answer tells.
const TOLD: usize = 5;
/// Characters of what is told of each.
const WORDS: usize = 1_000;

/// What an execution is given of servers.
#[derive(Debug, Default)]
pub(super) struct ServerCards {
    /// For the guest to make proxies of.
    pub(super) cards: Vec<EncodedCard>,
    /// Names that could be loaded.
    pub(super) known: Vec<String>,
    /// Asked for, and not up. First those of which the answer has to tell.
    pub(super) failed: Vec<FailedServer>,
    /// How many those are: later calls do not repeat what an earlier one has told.
    news: usize,
}

impl ServerCards {
    /// Of what was loaded. A server whose tools do not fit into a frame has failed.
    pub(super) fn new(loaded: Loaded) -> Self {
        let entry = |(name, refusal): (ServerName, GuestError)| FailedServer {
            name: name.0,
            message: refusal.message,
        };
        let mut failed: Vec<FailedServer> = loaded.failed.into_iter().map(entry).collect();
        let mut cards = Vec::new();
        let mut room = CARDS_LIMIT;
        for server in loaded.install {
            let name = &server.definition.name.0;
            let card = server.card().encode();
            let size = card.size();
            if let Some(rest) = room.checked_sub(size) {
                room = rest;
                cards.push(card);
            } else {
                let message = format!(
                    "server {name:?} describes its tools in {size} bytes, more than can be sent at once"
                );
                failed.push(FailedServer {
                    name: name.clone(),
                    message,
                });
            }
        }
        let news = failed.len();
        failed.extend(loaded.left.into_iter().map(entry));
        Self {
            cards,
            known: loaded.known,
            failed,
            news,
        }
    }

    /// What is to be said of servers that failed.
    pub(super) fn notes(&self) -> Vec<String> {
        let words = |failed: &FailedServer| failed.message.chars().take(WORDS).collect();
        let news = self.failed.iter().take(self.news.min(TOLD));
        let mut notes: Vec<String> = news.map(words).collect();
        if self.news > TOLD {
            notes.push(format!("{} more servers failed", self.news - TOLD));
        }
        notes
    }

    /// Names of the servers that the session can use as it is.
    pub(super) fn loaded(&self, scope: &Scope) -> Vec<String> {
        let names = scope.allowed().into_iter().map(|name| name.0);
        names
            .filter(|name| !self.failed.iter().any(|failed| failed.name == *name))
            .collect()
    }
}

/// Waits until loading was refused; for ever where it was not.
pub(super) async fn until_refused<F>(mut loading: Pin<&mut MaybeDone<F>>)
where
    F: Future<Output = Result<Loaded, GuestError>>,
{
    loading.as_mut().await;
    if !matches!(loading.output_mut(), Some(Err(_))) {
        std::future::pending::<()>().await;
    }
}
