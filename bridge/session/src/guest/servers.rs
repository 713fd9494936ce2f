//! What a call's servers come to: proxies for the guest to make, names it may know, and what is
//! said of those that failed.

use std::future::Future;
use std::pin::Pin;

use crate::run::notes::Note;
use bridge_broker::{GuestError, Loaded, Scope};
use bridge_catalog::ServerName;
use bridge_wire::{EncodedCard, FailedServer};
use futures_util::future::MaybeDone;

/// Bytes of descriptions of tools that one call may bring to the guest.
const CARDS_LIMIT: usize = 15 << 20;
/// Failed servers that an answer tells of by name.
const TOLD: usize = 5;
/// Characters of what an answer tells of each.
const WORDS: usize = 1_000;

/// What an execution is given about servers.
#[derive(Debug, Default)]
pub(crate) struct ServerCards {
    /// Servers that the guest makes proxies for.
    pub(crate) cards: Vec<EncodedCard>,
    /// Names of servers that could be loaded.
    pub(crate) known: Vec<String>,
    /// Servers that were asked for and are not up; first those of which the answer has to tell.
    pub(crate) failed: Vec<FailedServer>,
    /// How many of them the answer has to tell of: later calls do not repeat what an earlier one
    /// has told.
    news: usize,
}

impl ServerCards {
    /// What the guest is given of `loaded`. A server whose tools do not fit into a frame counts as
    /// failed.
    pub(crate) fn new(loaded: Loaded) -> Self {
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

    /// What the answer tells of servers that failed.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let words = |failed: &FailedServer| {
            let words = failed.message.chars().take(WORDS);
            Note::ServerFailed(words.collect())
        };
        let news = self.failed.iter().take(self.news.min(TOLD));
        let mut notes: Vec<Note> = news.map(words).collect();
        if self.news > TOLD {
            notes.push(Note::MoreServersFailed(self.news - TOLD));
        }
        notes
    }

    /// Names of the servers that the session can use right now.
    pub(crate) fn loaded(&self, scope: &Scope) -> Vec<String> {
        let names = scope.allowed().into_iter().map(|name| name.0);
        names
            .filter(|name| !self.failed.iter().any(|failed| failed.name == *name))
            .collect()
    }
}

/// Waits until loading is refused; for ever where it succeeds.
pub(crate) async fn until_refused<F>(mut loading: Pin<&mut MaybeDone<F>>)
where
    F: Future<Output = Result<Loaded, GuestError>>,
{
    loading.as_mut().await;
    if !matches!(loading.output_mut(), Some(Err(_))) {
        std::future::pending::<()>().await;
    }
}
