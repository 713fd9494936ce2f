//! The questions of one run that wait for the client to come back with answers, in revisions where a question can only be
//! the answer to a call.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rmcp::model::InputResponses;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, oneshot};

use super::questions::reply_of;
use bridge_upstream::{QuestionKind, Reply};

/// The questions of one run.
#[derive(Default)]
pub(super) struct Inbox {
    questions: Mutex<Questions>,
    arrived: Notify,
}

#[derive(Default)]
struct Questions {
    open: BTreeMap<u64, Open>,
    /// How many there have been.
    count: u64,
    closed: bool,
}

struct Open {
    request: Value,
    shown: bool,
    answer: oneshot::Sender<Value>,
}

impl Inbox {
    /// Asks, and waits for the answer.
    pub(super) async fn ask(&self, kind: QuestionKind, params: Value) -> Reply {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut questions = self.lock();
            if questions.closed {
                return Reply::Cancel;
            }
            questions.count += 1;
            let number = questions.count;
            let open = Open {
                request: json!({"method": kind.method(), "params": params}),
                shown: false,
                answer,
            };
            questions.open.insert(number, open);
            number
        };
        let _entry = Entry {
            inbox: self,
            number,
        };
        self.arrived.notify_one();
        match answered.await {
            Ok(result) => reply_of(kind, result),
            // The client came back without an answer to this one.
            Err(_) => Reply::Cancel,
        }
    }

    /// Waits until there is a question that the client has not been shown.
    pub(super) async fn asked(&self) {
        while self.lock().open.values().all(|open| open.shown) {
            self.arrived.notified().await;
        }
    }

    /// Nobody comes back any more: what is open, and what is yet to be asked, is answered with a cancel.
    pub(super) fn close(&self) {
        let mut questions = self.lock();
        questions.closed = true;
        questions.open.clear();
    }

    /// All that is open, by number, as the client is to be shown it.
    pub(super) fn show(&self) -> Map<String, Value> {
        let mut questions = self.lock();
        let shown = questions.open.iter_mut().map(|(number, open)| {
            open.shown = true;
            (number.to_string(), open.request.clone())
        });
        shown.collect()
    }

    /// Takes what the client came back with. What it was shown and has not answered is not asked again.
    pub(super) fn answer(&self, mut responses: InputResponses) {
        let mut questions = self.lock();
        let open = std::mem::take(&mut questions.open);
        let (shown, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
            open.into_iter().partition(|(_, open)| open.shown);
        questions.open = new;
        for (number, open) in shown {
            if let Some(response) = responses.remove(&number.to_string()) {
                let _ = open.answer.send(response);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Questions> {
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a question back when nobody waits for its answer any more.
struct Entry<'a> {
    inbox: &'a Inbox,
    number: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.inbox.lock().open.remove(&self.number);
    }
}
