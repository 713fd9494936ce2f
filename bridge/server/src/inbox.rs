//! The questions of one run that wait for the client to call again with answers, in protocol
//! revisions where a question can only be the answer to a call.

use std::collections::BTreeMap;

use rmcp::model::InputResponses;
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, oneshot};

use super::questions::reply_of;
use bridge_common::Mutex;
use bridge_upstream::{QuestionKind, Reply};

/// The open questions of one run.
#[derive(Default)]
pub(super) struct Inbox {
    questions: Mutex<Questions>,
    arrived: Notify,
}

#[derive(Default)]
struct Questions {
    open: BTreeMap<u64, Open>,
    /// How many questions there have been; the latest one has this number.
    count: u64,
    closed: bool,
}

struct Open {
    request: Value,
    shown: bool,
    answer: oneshot::Sender<Value>,
}

impl Inbox {
    /// Asks a question and waits for the answer.
    pub(super) async fn ask(&self, kind: QuestionKind, params: Value) -> Reply {
        let (answer, answered) = oneshot::channel();
        let number = {
            let mut questions = self.questions.lock();
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
            // The client called again without an answer to this one.
            Err(_) => Reply::Cancel,
        }
    }

    /// Waits until there is a question that the client has not seen.
    pub(super) async fn asked(&self) {
        while self.questions.lock().open.values().all(|open| open.shown) {
            self.arrived.notified().await;
        }
    }

    /// Cancels all open and future questions: the client will not call again.
    pub(super) fn close(&self) {
        let mut questions = self.questions.lock();
        questions.closed = true;
        questions.open.clear();
    }

    /// All open questions by number, for the client to see; they count as shown from now on.
    pub(super) fn show(&self) -> Map<String, Value> {
        let mut questions = self.questions.lock();
        let shown = questions.open.iter_mut().map(|(number, open)| {
            open.shown = true;
            (number.to_string(), open.request.clone())
        });
        shown.collect()
    }

    /// Takes the client's answers. A question that it has seen and not answered is cancelled.
    pub(super) fn answer(&self, mut responses: InputResponses) {
        let mut questions = self.questions.lock();
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
}

/// Withdraws a question when dropped, that is when its server stops waiting for the answer.
struct Entry<'a> {
    inbox: &'a Inbox,
    number: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.inbox.questions.lock().open.remove(&self.number);
    }
}
