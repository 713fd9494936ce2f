//! Frames about what outlives a session: what a guest is given at its start, and files that go the
//! other way after a run.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::ser::SerializeTuple;
use serde::{Deserialize, Serialize, Serializer};

use super::fields;
use super::lenient::Text;
use crate::Error;

/// Bytes of files in one frame.
const FRAME_BYTES: usize = 4 << 20;

/// Files below `/projects` that differ from what the host has.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct ChangedFiles {
    /// Paths and sizes of files that are new or were changed.
    #[serde(default)]
    pub changed: Vec<(String, u64)>,
    /// Paths of files that are gone.
    #[serde(default)]
    pub deleted: Vec<String>,
    /// Paths of what cannot be kept, and why.
    #[serde(default)]
    pub odd: Vec<(String, String)>,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePiece<'a> {
    /// Path of the file below `/projects`.
    pub path: Cow<'a, str>,
    /// The next bytes of the file; `None` where it could not be read.
    pub bytes: Option<Cow<'a, [u8]>>,
    /// More pieces of the file follow.
    pub more: bool,
}

#[derive(Deserialize)]
pub(super) struct RawPiece<'a> {
    #[serde(borrow)]
    path: Text<'a>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    base64: Option<Text<'a>>,
    #[serde(default)]
    more: bool,
}

/// Parses a `project_file` frame.
pub(super) fn piece(line: &[u8]) -> Result<FilePiece<'_>, Error> {
    let raw: RawPiece<'_> = fields(line)?;
    let bytes = match (raw.text, raw.base64) {
        (Some(Text(Cow::Borrowed(text))), None) => Some(Cow::Borrowed(text.as_bytes())),
        (Some(Text(Cow::Owned(text))), None) => Some(Cow::Owned(text.into_bytes())),
        (None, Some(Text(text))) => Some(Cow::Owned(
            STANDARD.decode(text.as_bytes()).map_err(Error::Base64)?,
        )),
        (None, None) => None,
        (Some(_), Some(_)) => return Err(Error::OutputData),
    };
    Ok(FilePiece {
        path: raw.path.0,
        bytes,
        more: raw.more,
    })
}

/// News about what outlives sessions, for one guest.
#[derive(Debug, Default)]
pub struct StateUpdate<'a> {
    /// Saved tools, where they are news.
    pub tools: Option<SavedTools<'a>>,
    /// Files that are new or were changed.
    pub files: Vec<StateFile<'a>>,
    /// Paths of files that were deleted.
    pub gone: &'a [String],
    /// There are files that are read later.
    pub more: bool,
}

/// The saved tools of a session.
#[derive(Debug, Serialize)]
pub struct SavedTools<'a> {
    /// Name and source of each.
    pub saved: Vec<(&'a str, &'a str)>,
    /// The rest of the file of tools, which its owner wrote.
    pub own: &'a str,
}

/// A file below `/projects`.
#[derive(Debug, Clone, Copy)]
pub struct StateFile<'a> {
    /// Path of the file below `/projects`.
    pub path: &'a str,
    /// Whole content of the file.
    pub bytes: &'a [u8],
    /// The guest may look at it and not change it.
    pub view: bool,
}

/// What a guest is told of what is kept: saved tools before it runs code, files then or later.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "type", rename = "state")]
pub struct State<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<&'a SavedTools<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<Piece<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    views: Vec<Piece<'a>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    gone: &'a [String],
    /// There are files that come in later frames.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more: bool,
}

/// `[path, text]`, `[path, null, base64]`; a fourth item says that it goes behind what is there.
#[derive(Debug)]
struct Piece<'a> {
    path: &'a str,
    bytes: &'a [u8],
    behind: bool,
}

impl Serialize for Piece<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = std::str::from_utf8(self.bytes)
            .ok()
            .filter(|_| !self.behind);
        let mut tuple = serializer.serialize_tuple(if text.is_some() { 2 } else { 4 })?;
        tuple.serialize_element(self.path)?;
        tuple.serialize_element(&text)?;
        if text.is_none() {
            tuple.serialize_element(&STANDARD.encode(self.bytes))?;
            tuple.serialize_element(&self.behind)?;
        }
        tuple.end()
    }
}

impl<'a> State<'a> {
    /// The update in as few frames as their size allows; empty where there is nothing to tell.
    /// `awaited` says that the guest was told of more, so that it has to learn that this is all.
    pub fn frames(update: &'a StateUpdate<'a>, awaited: bool) -> Vec<Self> {
        let mut frames = Vec::new();
        let mut frame = Self {
            tools: update.tools.as_ref(),
            gone: update.gone,
            ..Self::default()
        };
        let mut room = FRAME_BYTES;
        for &StateFile { path, bytes, view } in &update.files {
            let pieces = bytes.chunks(FRAME_BYTES).enumerate();
            let nothing = bytes.is_empty().then_some((0, &[][..]));
            for (number, bytes) in pieces.chain(nothing) {
                let Some(left) = room.checked_sub(bytes.len() + path.len()) else {
                    frame.more = true;
                    frames.push(std::mem::take(&mut frame));
                    frame.add(path, bytes, view, number > 0);
                    room = FRAME_BYTES.saturating_sub(bytes.len() + path.len());
                    continue;
                };
                room = left;
                frame.add(path, bytes, view, number > 0);
            }
        }
        frame.more = update.more;
        let files = !(frame.files.is_empty() && frame.views.is_empty() && frame.gone.is_empty());
        if frame.tools.is_some() || files || frame.more || awaited {
            frames.push(frame);
        }
        frames
    }

    /// The frame without its content, for where that is too large: it still tells whether more
    /// comes.
    pub fn without_content(&self) -> State<'static> {
        State {
            more: self.more,
            ..State::default()
        }
    }

    fn add(&mut self, path: &'a str, bytes: &'a [u8], view: bool, behind: bool) {
        let piece = Piece {
            path,
            bytes,
            behind,
        };
        if view {
            self.views.push(piece);
        } else {
            self.files.push(piece);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn file<'a>(path: &'a str, bytes: &'a [u8], view: bool) -> StateFile<'a> {
        StateFile { path, bytes, view }
    }

    #[test]
    fn a_start_is_told_in_bounded_frames() {
        let large = vec![b'x'; FRAME_BYTES + 1];
        let gone = ["c".to_owned()];
        let update = StateUpdate {
            tools: Some(SavedTools {
                saved: vec![("f", "def f(): 1\n")],
                own: "x = 1",
            }),
            files: vec![
                file("a", b"text", false),
                file("b", b"\xff", false),
                file("empty", b"", false),
                file("memory/k.json", b"{}", true),
                file("large", &large, false),
            ],
            gone: &gone,
            ..StateUpdate::default()
        };
        let shown = |update: &StateUpdate<'_>, awaited| -> Vec<Value> {
            let frames = State::frames(update, awaited);
            let frames = frames.iter().map(serde_json::to_value);
            frames.map(Result::unwrap).collect()
        };
        let frames = shown(&update, false);
        assert_eq!(
            frames[0],
            json!({
                "type": "state", "tools": {"saved": [["f", "def f(): 1\n"]], "own": "x = 1"}, "gone": ["c"],
                "files": [["a", "text"], ["b", null, "/w==", false], ["empty", ""]], "views": [["memory/k.json", "{}"]], "more": true,
            })
        );
        assert_eq!(frames.len(), 3);
        assert_eq!(frames[2]["files"], json!([["large", null, "eA==", true]]));
        let more: Vec<bool> = frames.iter().map(|frame| frame["more"] == true).collect();
        assert_eq!(more, [true, true, false]);
        assert!(shown(&StateUpdate::default(), false).is_empty());
        let bare = json!({"type": "state"});
        assert_eq!(shown(&StateUpdate::default(), true), [bare]);
        let later = StateUpdate {
            more: true,
            ..StateUpdate::default()
        };
        assert_eq!(
            shown(&later, false),
            [json!({"type": "state", "more": true})]
        );
    }

    #[test]
    fn pieces_of_files() {
        let parsed = |line: &str| {
            piece(line.as_bytes()).map(|piece| {
                (
                    piece.path.into_owned(),
                    piece.bytes.map(Cow::into_owned),
                    piece.more,
                )
            })
        };
        assert_eq!(
            parsed(r#"{"path":"a","text":"\u00e9"}"#).unwrap(),
            ("a".to_owned(), Some("é".as_bytes().to_vec()), false)
        );
        assert_eq!(
            parsed(r#"{"path":"a","base64":"/w==","more":true}"#).unwrap(),
            ("a".to_owned(), Some(vec![255]), true)
        );
        assert_eq!(
            parsed(r#"{"path":"a","error":"OSError"}"#).unwrap(),
            ("a".to_owned(), None, false)
        );
        for bad in [
            r#"{"path":"a","base64":"?"}"#,
            r#"{"text":"a"}"#,
            r#"{"path":"a","text":"a","base64":""}"#,
        ] {
            assert!(parsed(bad).is_err(), "{bad}");
        }
    }
}
