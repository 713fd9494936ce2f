//! The secrets of all definitions, and the client behind a run with all of them taken out of what
//! servers ask and tell it.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use secrecy::ExposeSecret;
use serde_json::Value;

use bridge_catalog::Catalog;
use bridge_upstream::{Event, Interact, Question, Redactor, Reply};

/// The secrets of one catalog. What finds them is made when it is first needed: with hundreds of
/// definitions that takes milliseconds, and most starts of a session show nothing in which a secret
/// could be.
pub struct Secrets {
    catalog: Arc<Catalog>,
    redactor: OnceLock<Redactor>,
}

impl Secrets {
    pub(super) fn of(catalog: Arc<Catalog>) -> Self {
        Self {
            catalog,
            redactor: OnceLock::new(),
        }
    }

    pub(super) fn are_of(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
    }

    /// Hides them. The first call may take milliseconds.
    pub fn redactor(&self) -> &Redactor {
        self.redactor
            .get_or_init(|| Redactor::new(self.catalog.secrets().map(ExposeSecret::expose_secret)))
    }

    /// What hides the secrets; making it does not block this thread.
    pub(super) async fn ready(self: Arc<Self>) -> Redactor {
        if let Some(redactor) = self.redactor.get() {
            return redactor.clone();
        }
        let secrets = Arc::clone(&self);
        let made = tokio::task::spawn_blocking(move || secrets.redactor().clone());
        // Fails where the runtime is going down; what is shown then has no secrets in it either.
        made.await.unwrap_or_else(|_| self.redactor().clone())
    }
}

/// The client as one call of a server sees it.
pub(super) struct Redacting {
    pub(super) client: Arc<dyn Interact>,
    pub(super) redactor: Redactor,
}

#[async_trait]
impl Interact for Redacting {
    fn offers(&self) -> Value {
        self.client.offers()
    }

    async fn request(&self, mut question: Question) -> Reply {
        self.redactor.value(&mut question.params);
        self.client.request(question).await
    }

    fn notify(&self, mut event: Event) {
        if let Event::Progress { params, .. } | Event::Log { params, .. } = &mut event {
            self.redactor.value(params);
        }
        self.client.notify(event);
    }
}
