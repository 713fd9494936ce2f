//! The client behind a run, with all configured secrets taken out of what servers ask and tell it.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use crate::upstream::{Event, Interact, Question, Redactor, Reply};

/// The client, seen by one call of a server.
pub(super) struct Redacting {
    pub(super) client: Arc<dyn Interact>,
    pub(super) redactor: Redactor,
}

#[async_trait]
impl Interact for Redacting {
    fn offers(&self) -> Value {
        self.client.offers()
    }

    async fn ask(&self, mut question: Question) -> Reply {
        self.redactor.value(&mut question.params);
        self.client.ask(question).await
    }

    fn tell(&self, mut event: Event) {
        if let Event::Progress { params, .. } | Event::Log { params, .. } = &mut event {
            self.redactor.value(params);
        }
        self.client.tell(event);
    }
}
