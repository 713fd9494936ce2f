//! Requests to the endpoint: sent with the headers of their era, authorized where somebody has
//! logged in, and followed to the end of their stream of events.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use tokio::time::timeout;

use super::answer::{self, Reply};
use super::error::login_failed;
use super::events::{self, EventError};
use super::headers::{self, LAST_EVENT, PROTOCOL, SESSION};
use super::{Http, Object, Session, TransportError};
use crate::connection::Failure;
use crate::error::Denial;
use crate::message::{Outgoing, Params};
use crate::transport::inbox::Inbox;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static(events::MEDIA_TYPE);
/// The media types that a POST may be answered with.
const EITHER: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");
/// Time until a stream is resumed where the server names none; it doubles with each failure in a
/// row, up to the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// Time for the server to show that it knows a session.
const PING_TIME: Duration = Duration::from_secs(5);
/// Time for the rest of a stream behind its answer: a stream that is read to its end leaves its
/// connection to the next request.
const REST: Duration = Duration::from_millis(50);
/// `_meta` of requests without `initialize`.
const META_PROTOCOL: &str = "io.modelcontextprotocol/protocolVersion";

impl Http {
    /// Sends a request and delivers its answer.
    pub(super) async fn request(&self, id: u64, message: Outgoing) -> Result<(), Failure> {
        let Some(inbox) = self.inbox() else {
            return Ok(());
        };
        let session = self.session();
        let is_initialize = matches!(
            message,
            Outgoing::Request {
                method: "initialize",
                ..
            }
        );
        let response = self.post(message, &session).await?;
        if is_initialize && response.status().is_success() {
            self.session.lock().id = response.headers().get(SESSION).cloned();
        }
        let reply = answer::read(response, &inbox, Some(id), session.id.is_some()).await?;
        match reply {
            // The answer comes on the stream that belongs to no request.
            Reply::Accepted => Ok(()),
            Reply::Messages(messages, room) => {
                inbox.deliver(messages, room);
                Ok(())
            }
            Reply::Events(response) => {
                let session = self.session();
                let mut stream = Stream {
                    http: self,
                    inbox: &inbox,
                    session: &session,
                    request: Some(id),
                    last_event: None,
                    retry: None,
                    was_open: true,
                };
                stream.follow(response).await
            }
            Reply::SessionLost => Err(self.lose_session()),
            Reply::SessionDoubted(failure) => Err(self.doubted(failure, &session).await),
        }
    }

    /// A request was refused, maybe since the server does not know the session: a ping shows
    /// whether it does. Only where it does not, the request was refused for that, and may be
    /// repeated.
    async fn doubted(&self, failure: Failure, session: &Session) -> Failure {
        let Some(connection) = self.connection() else {
            return failure;
        };
        let ping = Outgoing::Request {
            id: connection.next_id(),
            method: "ping",
            params: Params::default(),
        };
        let answered = timeout(PING_TIME, self.post(ping, session)).await;
        let is_lost = match answered {
            Ok(Ok(response)) => answer::refuses_ping(response).await,
            Ok(Err(Failure::Closed { .. })) => true,
            _ => false,
        };
        if is_lost {
            self.lose_session()
        } else {
            failure
        }
    }

    /// Sends what has no answer.
    pub(super) async fn notify(&self, message: Outgoing) -> Result<(), Failure> {
        let Some(inbox) = self.inbox() else {
            return Ok(());
        };
        let session = self.session();
        let response = self.post(message, &session).await?;
        match answer::read(response, &inbox, None, session.id.is_some()).await? {
            Reply::SessionLost => Err(self.lose_session()),
            Reply::SessionDoubted(failure) => Err(self.doubted(failure, &session).await),
            _ => Ok(()),
        }
    }

    /// Opens the stream of what belongs to no request, where there is a session that has one.
    pub(super) fn listen(self: &Arc<Self>) {
        let session = self.session();
        if session.id.is_none() {
            return;
        }
        let http = Arc::clone(self);
        self.tasks.spawn(async move {
            let Some(inbox) = http.inbox() else { return };
            let mut stream = Stream {
                http: &http,
                inbox: &inbox,
                session: &session,
                request: None,
                last_event: None,
                retry: None,
                was_open: false,
            };
            tokio::select! {
                _ = stream.open_and_follow() => {}
                () = http.listening.cancelled() => {}
            }
        });
    }

    pub(super) async fn delete_session(&self) {
        let session = self.session();
        if session.id.is_none() {
            return;
        }
        let headers = session_headers(&session);
        let delete = || {
            let request = self.client.delete(self.url.clone());
            request
                .headers(self.headers.clone())
                .headers(headers.clone())
        };
        match self.authorized(delete, false).await {
            Ok(response) => tracing::debug!(status = %response.status(), "session deleted"),
            Err(_) => tracing::debug!("session could not be deleted"),
        }
    }

    async fn post(&self, message: Outgoing, session: &Session) -> Result<Response, Failure> {
        let mut headers = self.headers_of(&message, session);
        headers.insert(ACCEPT, EITHER);
        headers.insert(CONTENT_TYPE, JSON);
        let body = Bytes::from(message.into_text());
        let post = || {
            let request = self.client.post(self.url.clone()).body(body.clone());
            request
                .headers(self.headers.clone())
                .headers(headers.clone())
        };
        self.authorized(post, session.id.is_some()).await
    }

    /// Sends a request, with a token where somebody has logged in. A token that is refused is
    /// exchanged for a new one, once.
    async fn authorized(
        &self,
        request: impl Fn() -> RequestBuilder,
        has_session: bool,
    ) -> Result<Response, Failure> {
        let login = self
            .login
            .as_ref()
            .filter(|_| !self.headers.contains_key(AUTHORIZATION));
        let token = match login {
            Some(login) => login.token().await.map_err(login_failed)?,
            None => None,
        };
        let send = async |token: Option<&String>| {
            let mut request = request();
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            request.send().await.map_err(TransportError::from)
        };
        let mut response = send(token.as_ref()).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let challenge = answer::challenge(&response);
            if has_session && answer::is_unknown_session(response).await {
                return Err(self.lose_session());
            }
            let fresh = match (login, &token) {
                (Some(login), Some(token)) => login.renewed(token).await.map_err(login_failed)?,
                _ => None,
            };
            let Some(fresh) = fresh else {
                return Err(self.denied(challenge, false).await);
            };
            response = send(Some(&fresh)).await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                return Err(self.denied(answer::challenge(&response), false).await);
            }
        }
        if response.status() == StatusCode::FORBIDDEN
            && let challenge @ Some(_) = answer::challenge(&response)
        {
            return Err(self.denied(challenge, true).await);
        }
        Ok(response)
    }

    /// What a refused request means. The challenge is kept for the next login.
    async fn denied(&self, challenge: Option<String>, wants_more: bool) -> Failure {
        let scope = challenge
            .as_deref()
            .and_then(|text| answer::scope(text, &self.url));
        if let (Some(tokens), Some(challenge)) = (&self.tokens, challenge) {
            tokens.keep_challenge(challenge).await;
        }
        Failure::Unauthorized(match (wants_more, self.has_credentials) {
            (true, configured) => Denial::MoreRightsNeeded { scope, configured },
            (false, true) => Denial::CredentialsRejected,
            (false, false) => Denial::LoginNeeded,
        })
    }

    /// The server does not know the session any more: this connection is at its end, and the next
    /// call makes a new one. The request was refused before it could have an effect.
    fn lose_session(&self) -> Failure {
        let reason = "the server no longer knows the session".to_owned();
        if let Some(connection) = self.connection() {
            connection.abandon(&reason);
        }
        Failure::Closed {
            reason,
            sent: false,
        }
    }

    fn headers_of(&self, message: &Outgoing, session: &Session) -> HeaderMap {
        let (method, params) = match message {
            Outgoing::Request { method, params, .. } => (*method, Some(params)),
            Outgoing::Notification { method, .. } => (*method, None),
            Outgoing::Response { .. } => return session_headers(session),
        };
        if method == "initialize" {
            return HeaderMap::new();
        }
        let mut headers = session_headers(session);
        let inline = params.and_then(|params| protocol_in(&params.fields));
        if let Some(protocol) = inline.and_then(|protocol| HeaderValue::from_str(protocol).ok()) {
            headers.insert(PROTOCOL, protocol);
        }
        let protocol = inline.or(session.protocol.as_deref());
        if protocol.is_some_and(headers::are_standard_in) {
            let tool = params.and_then(|params| params.fields.get("name")?.as_str());
            let all = self.parameters.lock();
            let parameters = tool
                .filter(|_| method == "tools/call")
                .and_then(|tool| all.get(tool));
            headers.extend(headers::standard(
                method,
                params,
                parameters.map(Vec::as_slice),
            ));
        }
        headers
    }
}

fn protocol_in(fields: &Object) -> Option<&str> {
    fields
        .get("_meta")?
        .get(META_PROTOCOL)
        .and_then(Value::as_str)
}

fn session_headers(session: &Session) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(id) = &session.id {
        headers.insert(SESSION, id.clone());
    }
    let protocol = session.protocol.as_deref();
    if let Some(protocol) = protocol.and_then(|text| HeaderValue::from_str(text).ok()) {
        headers.insert(PROTOCOL, protocol);
    }
    headers
}

/// A stream of events: that of a request, which ends with its answer, or that of what belongs to no
/// request. One that breaks off is resumed after its last event.
struct Stream<'a> {
    http: &'a Http,
    inbox: &'a Inbox,
    session: &'a Session,
    request: Option<u64>,
    last_event: Option<HeaderValue>,
    /// The time that the server wants to be left alone before a stream is resumed.
    retry: Option<Duration>,
    was_open: bool,
}

/// How a part of a stream ended.
enum End {
    Answered,
    Ended,
    Broken(TransportError),
}

impl Stream<'_> {
    async fn open_and_follow(&mut self) -> Result<(), Failure> {
        match self.open().await? {
            Some(response) => self.follow(response).await,
            None => Ok(()),
        }
    }

    /// Reads to the answer, over as many parts as it takes.
    async fn follow(&mut self, mut response: Response) -> Result<(), Failure> {
        loop {
            let ended = match self.read(response).await? {
                End::Answered => return Ok(()),
                End::Ended => TransportError::EventsEnded,
                End::Broken(error) => error,
            };
            // Without an event to resume after, the answer is lost.
            if self.request.is_some() && self.last_event.is_none() {
                return Err(Failure::Transport(ended));
            }
            let Some(resumed) = self.resume().await? else {
                return Err(Failure::Transport(ended));
            };
            response = resumed;
        }
    }

    async fn read(&mut self, response: Response) -> Result<End, Failure> {
        let mut events = events::of(response, self.inbox.clone());
        while let Some(event) = events.next().await {
            let (event, room) = match event {
                Ok(event) => event,
                Err(EventError::TooLarge) => {
                    return Err(Failure::TooLarge {
                        bytes: self.inbox.message_bytes() as u64,
                    });
                }
                Err(EventError::Broken(error)) => return Ok(End::Broken(error)),
            };
            if let Some(retry) = event.retry {
                self.retry = Some(Duration::from_millis(retry));
            }
            if let Some(id) = event.id.and_then(|id| HeaderValue::try_from(id).ok()) {
                self.last_event = Some(id);
            }
            let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
            let Some(data) = event.data.filter(|_| is_message) else {
                continue;
            };
            let messages = answer::read_messages(data.into(), self.inbox, self.request).await;
            let answered = self
                .request
                .is_some_and(|id| answer::is_among(&messages, id));
            self.inbox.deliver(messages, room);
            if answered {
                let rest = async { while events.next().await.is_some() {} };
                let _ = timeout(REST, rest).await;
                return Ok(End::Answered);
            }
        }
        Ok(End::Ended)
    }

    /// Opens the stream again, as often as it takes; `None` where the server has none.
    async fn resume(&mut self) -> Result<Option<Response>, Failure> {
        let mut own = FIRST_RETRY;
        let mut wait = self.retry.unwrap_or(own);
        loop {
            tokio::time::sleep(wait).await;
            match self.open().await {
                Err(Failure::Transport(error)) => {
                    tracing::debug!(%error, "stream of events cannot be resumed yet");
                    own = (own * 2).min(LONGEST_RETRY);
                    wait = self.retry.unwrap_or_default().max(own);
                }
                opened => return opened,
            }
        }
    }

    async fn open(&mut self) -> Result<Option<Response>, Failure> {
        let mut headers = session_headers(self.session);
        headers.insert(ACCEPT, EVENTS);
        if let Some(event) = &self.last_event {
            headers.insert(LAST_EVENT, event.clone());
        }
        let get = || {
            let request = self.http.client.get(self.http.url.clone());
            request
                .headers(self.http.headers.clone())
                .headers(headers.clone())
        };
        let has_session = self.session.id.is_some();
        let response = self.http.authorized(get, has_session).await?;
        let status = response.status();
        // A server without such streams may answer the first attempt with 404 as well.
        let was_open = self.was_open || self.request.is_some();
        if has_session && was_open && matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE) {
            // The request of this stream was seen.
            self.http.lose_session();
            return Err(match self.request {
                Some(_) => Failure::Closed {
                    reason: TransportError::SessionLost.to_string(),
                    sent: true,
                },
                None => Failure::Cancelled,
            });
        }
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(answer::status_error(&response).into());
        }
        let is_stream = answer::media_type(&response).starts_with(events::MEDIA_TYPE);
        self.was_open |= status.is_success() && is_stream;
        Ok((status.is_success() && is_stream).then_some(response))
    }
}
