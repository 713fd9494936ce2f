//! Bodies of HTTP responses, read up to a limit.

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::Error;

/// The body; over the limit an error where it has to be whole, else its beginning.
pub(super) async fn read(
    response: reqwest::Response,
    limit: usize,
    whole: bool,
) -> Result<Vec<u8>, Error> {
    let mut body = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        let room = limit - body.len();
        if chunk.len() > room {
            if whole {
                return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: limit });
            }
            body.extend_from_slice(&chunk[..room]);
            break;
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// An event grew larger than allowed.
#[derive(Debug, thiserror::Error)]
#[error("an event is too large")]
struct TooLarge;

/// Whether a stream of events ended for that reason.
pub(super) fn is_too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    let is_it = |error: &(dyn std::error::Error + 'static)| {
        let inner = error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        error.is::<TooLarge>()
            || inner
                .and_then(|inner| inner.downcast_ref::<TooLarge>())
                .is_some()
    };
    std::iter::successors(Some(error), |error| error.source()).any(is_it)
}

/// Ends the stream with an error where one event grows too large: events end with an empty line.
pub(super) fn bounded_events(
    response: reqwest::Response,
    limit: usize,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    let mut size = 0_usize;
    let mut line_is_empty = true;
    response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(std::io::Error::other)?;
        for line in chunk.split_inclusive(|&byte| byte == b'\n') {
            size += line.len();
            let blank = line.trim_ascii().is_empty();
            if line_is_empty && blank && line.ends_with(b"\n") {
                size = 0;
            }
            line_is_empty = if line.ends_with(b"\n") {
                true
            } else {
                line_is_empty && blank
            };
        }
        if size > limit {
            return Err(std::io::Error::other(TooLarge));
        }
        Ok(chunk)
    })
}
