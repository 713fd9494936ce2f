//! Requests to the endpoint: sent with the headers of their era, and authorized where somebody has
//! logged in.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use tokio::time::timeout;

use super::answer::{self, Reply};
use super::error::login_failed;
use super::headers::{self, PROTOCOL, SESSION};
use super::stream::Stream;
use super::{Http, Object, Session};
use crate::error::Denial;
use crate::failure::{Failure, TransportError};
use crate::http_client::challenge;
use crate::message::{Outgoing, Params};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The media types that a POST may be answered with.
const EITHER: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");
/// Time for the server to show that it knows a session.
const PING_TIME: Duration = Duration::from_secs(5);
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
                let mut stream = Stream::of_request(self, &inbox, &session, id);
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
            let mut stream = Stream::of_no_request(&http, &inbox, &session);
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
        let headers = session.headers();
        let delete = || {
            let request = self.client.delete(self.url.clone());
            request
                .headers(self.headers.clone())
                .headers(headers.clone())
        };
        if let Err(error) = self.authorized(delete, false).await {
            tracing::debug!(?error, "session could not be deleted");
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
    pub(super) async fn authorized(
        &self,
        request: impl Fn() -> RequestBuilder,
        has_session: bool,
    ) -> Result<Response, Failure> {
        let login = self
            .login
            .as_ref()
            .filter(|_| !self.headers.contains_key(AUTHORIZATION));
        let token = match login {
            Some(login) => login.token().await.map_err(|error| login_failed(&error))?,
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
            let wanted = challenge(&response);
            if has_session && answer::is_unknown_session(response).await {
                return Err(self.lose_session());
            }
            let fresh = match (login, &token) {
                (Some(login), Some(token)) => login
                    .renewed(token)
                    .await
                    .map_err(|error| login_failed(&error))?,
                _ => None,
            };
            let Some(fresh) = fresh else {
                return Err(self.denied(wanted, false).await);
            };
            response = send(Some(&fresh)).await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                return Err(self.denied(challenge(&response), false).await);
            }
        }
        if response.status() == StatusCode::FORBIDDEN
            && let wanted @ Some(_) = challenge(&response)
        {
            return Err(self.denied(wanted, true).await);
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
    pub(super) fn lose_session(&self) -> Failure {
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
            Outgoing::Response { .. } => return session.headers(),
        };
        if method == "initialize" {
            return HeaderMap::new();
        }
        let mut headers = session.headers();
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
