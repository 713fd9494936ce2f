//! Streams of events, followed to their answer over as many parts as it takes.

use std::time::Duration;

use futures_util::StreamExt as _;
use http::header::ACCEPT;
use http::{HeaderValue, StatusCode};
use reqwest::Response;
use tokio::time::timeout;

use super::answer;
use super::events::{self, EventError};
use super::headers::LAST_EVENT;
use super::{Http, Session};
use crate::failure::{Failure, TransportError};
use crate::transport::inbox::Inbox;

const EVENTS: HeaderValue = HeaderValue::from_static(events::MEDIA_TYPE);
/// Time until a stream is resumed where the server names none; it doubles with each failure in a
/// row, up to the longest.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
/// Time for the rest of a stream behind its answer: a stream that is read to its end leaves its
/// connection to the next request.
const REST: Duration = Duration::from_millis(50);

/// A stream of events: that of a request, which ends with its answer, or that of what belongs to no
/// request. One that breaks off is resumed after its last event.
pub(super) struct Stream<'a> {
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

impl<'a> Stream<'a> {
    /// The stream that a request is answered with.
    pub(super) fn of_request(
        http: &'a Http,
        inbox: &'a Inbox,
        session: &'a Session,
        request: u64,
    ) -> Self {
        Self {
            request: Some(request),
            was_open: true,
            ..Self::of_no_request(http, inbox, session)
        }
    }

    /// The stream of what belongs to no request, which is not open yet.
    pub(super) fn of_no_request(http: &'a Http, inbox: &'a Inbox, session: &'a Session) -> Self {
        Self {
            http,
            inbox,
            session,
            request: None,
            last_event: None,
            retry: None,
            was_open: false,
        }
    }
}

impl Stream<'_> {
    pub(super) async fn open_and_follow(&mut self) -> Result<(), Failure> {
        match self.open().await? {
            Some(response) => self.follow(response).await,
            None => Ok(()),
        }
    }

    /// Reads to the answer, over as many parts as it takes.
    pub(super) async fn follow(&mut self, mut response: Response) -> Result<(), Failure> {
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
        let mut headers = self.session.headers();
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
        let response = match self.http.authorized(get, has_session).await {
            // Unlike a request that was refused, that of this stream was seen.
            Err(Failure::Closed { reason, .. }) => {
                return Err(Failure::Closed { reason, sent: true });
            }
            response => response?,
        };
        let status = response.status();
        // A server without such streams may answer the first attempt with 404 as well.
        if has_session
            && self.was_open
            && matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE)
        {
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
