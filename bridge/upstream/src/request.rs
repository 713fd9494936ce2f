//! A request to a running server: waits its turn, answers the server's questions, and puts every
//! way to fail into words.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::sync::SemaphorePermit;

use super::connection::{Caller, RequestContext, answer_to};
use super::deadline::until;
use super::failure::Failure;
use super::interact::{Question, QuestionKind, Reply};
use super::message::{Params, start_of};
use super::payload::{LARGE, Payload};
use super::server::Server;
use super::start::RunningServer;
use super::transport::http::with_root_cause;
use super::{CallContext, Error};

/// Rounds of questions before an answer, as in the SDKs.
const MOST_ROUNDS: usize = 10;
/// The most questions in one round.
const MOST_QUESTIONS: usize = 32;

impl Server {
    /// Sends `method` and returns its result. `act` names the request in messages: the tool, or
    /// what the method does.
    pub(super) async fn request(
        self: &Arc<Self>,
        method: &'static str,
        act: &str,
        params: Params,
        context: &CallContext,
    ) -> Result<Payload, Error> {
        let mut running = self.connect(context).await?;
        let _permit = self.permit(act, context, &running).await?;
        let mut restarted = false;
        let result = loop {
            match self.rounds(&running, method, act, &params, context).await {
                // The server ended before it can have seen the request, so its successor may be
                // asked.
                Err(Problem::Failure(Failure::Closed { sent: false, .. })) if !restarted => {
                    restarted = true;
                    running.connection.ended().await;
                    running = self.connect(context).await?;
                }
                Err(Problem::Failure(failure)) => {
                    if matches!(failure, Failure::Closed { .. }) {
                        running.connection.ended().await;
                    }
                    break Err(self.error(act, failure, &running));
                }
                Err(Problem::Error(error)) => break Err(error),
                Ok(result) => break Ok(result),
            }
        };
        if result.is_ok() {
            self.worked();
        }
        result
    }

    async fn permit(
        &self,
        act: &str,
        context: &CallContext,
        running: &RunningServer,
    ) -> Result<SemaphorePermit<'_>, Error> {
        let asked = tokio::time::Instant::now();
        tokio::select! {
            biased;
            permit = self.permits.acquire() => {
                permit.map_err(|_| Error::ShuttingDown { server: self.name().clone() })
            }
            () = context.cancel.cancelled() => Err(self.error(act, Failure::Cancelled, running)),
            () = until(context.deadline) => Err(self.error(act, Failure::TimedOut(asked.elapsed()), running)),
        }
    }

    /// Sends the request, and again with answers for as long as the server asks questions.
    async fn rounds(
        &self,
        running: &RunningServer,
        method: &'static str,
        act: &str,
        params: &Params,
        context: &CallContext,
    ) -> Result<Payload, Problem> {
        let caller = Caller {
            interact: Arc::clone(&context.interact),
            tool: act.to_owned(),
        };
        let mut answers = Map::new();
        for _ in 0..=MOST_ROUNDS {
            let mut params = params.clone();
            params.fields.extend(std::mem::take(&mut answers));
            let request = RequestContext {
                cancel: &context.cancel,
                deadline: context.deadline,
                silence: self
                    .definition
                    .call_timeout
                    .or(self.shared.options.call_timeout),
                caller: Some(caller.clone()),
            };
            let result = running
                .connection
                .request(method, params, request)
                .await
                .map_err(Problem::Failure)?;
            match result_type(&result).as_deref() {
                None | Some("complete") if result.is_object() => return Ok(result),
                Some("input_required") if result.get().len() <= LARGE => {
                    answers = self
                        .answers(act, &mut result.value(), &caller, context)
                        .await?;
                }
                _ => return Err(Problem::Failure(Failure::Malformed(start_of(result.get())))),
            }
        }
        Err(Problem::Failure(Failure::Malformed(format!(
            "it asked for input more than {MOST_ROUNDS} times"
        ))))
    }

    /// What to send along with the next round.
    async fn answers(
        &self,
        act: &str,
        result: &mut Value,
        caller: &Caller,
        context: &CallContext,
    ) -> Result<Map<String, Value>, Problem> {
        let mut next = Map::new();
        if let Some(state) = result.get_mut("requestState").map(Value::take) {
            next.insert("requestState".to_owned(), state);
        }
        let Some(Value::Object(questions)) = result.get_mut("inputRequests").map(Value::take)
        else {
            return Ok(next);
        };
        if questions.len() > MOST_QUESTIONS {
            return Err(Problem::Failure(Failure::Malformed(format!(
                "it asked {} questions at once",
                questions.len()
            ))));
        }
        let mut responses = Map::new();
        for (key, mut question) in questions {
            let method = question
                .get("method")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            let params = question.get_mut("params").map_or(Value::Null, Value::take);
            let response = match QuestionKind::of_method(&method) {
                Some(kind) => self.ask_client(act, kind, params, caller, context).await?,
                None if method == "roots/list" => json!({"roots": []}),
                None => {
                    let what = format!("it asked for {}", start_of(&method));
                    return Err(Problem::Failure(Failure::Malformed(what)));
                }
            };
            responses.insert(key, response);
        }
        next.insert("inputResponses".to_owned(), Value::Object(responses));
        Ok(next)
    }

    async fn ask_client(
        &self,
        act: &str,
        kind: QuestionKind,
        params: Value,
        caller: &Caller,
        context: &CallContext,
    ) -> Result<Value, Problem> {
        let question = Question {
            server: self.name().clone(),
            tool: Some(act.to_owned()),
            kind,
            params,
            cancel: context.cancel.child_token(),
        };
        let asked = tokio::time::Instant::now();
        let reply = tokio::select! {
            reply = caller.interact.request(question) => reply,
            () = context.cancel.cancelled() => return Err(Problem::Failure(Failure::Cancelled)),
            () = until(context.deadline) => return Err(Problem::Failure(Failure::TimedOut(asked.elapsed()))),
        };
        match reply {
            Reply::Unsupported(why) => Err(Problem::Error(Error::CannotAsk {
                server: self.name().clone(),
                act: act.to_owned(),
                kind,
                why,
            })),
            // A result cannot hold an error.
            reply => answer_to(kind, reply).map_err(|error| {
                Problem::Error(Error::NotAnswered {
                    server: self.name().clone(),
                    act: act.to_owned(),
                    kind,
                    error: Box::new(error),
                })
            }),
        }
    }

    pub(super) fn died(&self, act: &str, reason: &str) -> Error {
        Error::Died {
            server: self.name().clone(),
            act: act.to_owned(),
            reason: self.redactor.text(reason).into_owned(),
        }
    }

    /// Puts `failure` into words, without secrets.
    pub(super) fn error(&self, act: &str, failure: Failure, running: &RunningServer) -> Error {
        let (server, act) = (self.name().clone(), act.to_owned());
        match failure {
            Failure::Closed { reason, .. } => {
                self.died(&act, &running.connection.closed().unwrap_or(reason))
            }
            Failure::Cancelled => Error::Cancelled { server, act },
            Failure::TimedOut(after) => {
                let output = running.connection.non_protocol.describe();
                let output = output.unwrap_or_default();
                Error::TimedOut {
                    server,
                    act,
                    after,
                    non_protocol: self.redactor.text(&output).into_owned(),
                }
            }
            Failure::Rpc(mut error) => {
                error.message = self.redactor.text(&error.message).into_owned();
                self.redactor.value(&mut error.data);
                Error::Rpc {
                    server,
                    act,
                    error: Box::new(error),
                }
            }
            Failure::TooLarge { bytes } => Error::TooLarge {
                server,
                act,
                bytes,
                limit: self.shared.options.result_bytes as u64,
            },
            Failure::Malformed(what) => Error::Malformed {
                server,
                act,
                what: self.redactor.text(&what).into_owned(),
            },
            Failure::Transport(error) => Error::Transport {
                server,
                act,
                what: self.redactor.text(&with_root_cause(&error)).into_owned(),
            },
            Failure::Unauthorized(denial) => Error::Unauthorized { server, denial },
        }
    }
}

/// The `resultType` of a result, which older revisions do not have.
fn result_type(result: &Payload) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Typed {
        result_type: Option<String>,
    }
    // Looking for the word is much faster than parsing the value.
    memchr::memmem::find(result.get().as_bytes(), b"\"resultType\"")?;
    let typed: Typed = serde_json::from_str(result.get()).ok()?;
    typed.result_type
}

/// Why the rounds ended without a result.
enum Problem {
    Failure(Failure),
    Error(Error),
}
