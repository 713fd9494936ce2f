//! What a run shows besides text: pictures, whose bytes must match their type, and documents.
//! Number and size are bounded, whatever the guest sends.

use bridge_common::media;

/// Most displays of one run.
const MOST: usize = 16;
/// Bytes of all displays of one run together.
const MOST_BYTES: usize = 12 << 20;

/// One picture or document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Display {
    /// Media type: a picture's, or one of a few of text.
    pub mime: &'static str,
    /// The picture or document itself.
    pub content: Content,
}

/// Content of a display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A picture as models take them.
    Image(Vec<u8>),
    /// A document, such as SVG or HTML.
    Text(String),
}

impl Content {
    /// The content as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Image(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
        }
    }
}

/// Everything that a run has shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Displays {
    /// Displays in the order in which they were shown.
    pub shown: Vec<Display>,
    /// How many more were left out: too many, too large, or not of the type that they claimed.
    pub left_out: u64,
    bytes: usize,
}

impl Displays {
    /// Displays after the first `shown` and `left_out`.
    pub(crate) fn after(&self, shown: usize, left_out: u64) -> Self {
        let shown = self.shown.get(shown..).unwrap_or_default().to_vec();
        let bytes = shown.iter().map(|one| one.content.as_bytes().len());
        Self {
            bytes: bytes.sum(),
            left_out: self.left_out.saturating_sub(left_out),
            shown,
        }
    }

    /// Bytes that all displays hold.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a display if it is sound and fits, and counts it otherwise.
    pub fn push(&mut self, mime: &str, content: Vec<u8>) {
        let fits = self.shown.len() < MOST && self.bytes + content.len() <= MOST_BYTES;
        match checked(mime, content).filter(|_| fits) {
            Some(display) => {
                self.bytes += display.content.as_bytes().len();
                self.shown.push(display);
            }
            None => self.left_out = self.left_out.saturating_add(1),
        }
    }
}

fn checked(mime: &str, content: Vec<u8>) -> Option<Display> {
    if let Some(found) = media::image_type(&content) {
        return (found == mime).then_some(Display {
            mime: found,
            content: Content::Image(content),
        });
    }
    let mime = match mime {
        "image/svg+xml" => "image/svg+xml",
        "text/html" => "text/html",
        "text/markdown" => "text/markdown",
        "text/latex" => "text/latex",
        "text/plain" => "text/plain",
        "application/json" => "application/json",
        _ => return None,
    };
    Some(Display {
        mime,
        content: Content::Text(String::from_utf8(content).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\nrest";

    #[test]
    fn displays_must_match_their_type() {
        let mut displays = Displays::default();
        displays.push("image/png", PNG.to_vec());
        displays.push("image/svg+xml", b"<svg/>".to_vec());
        assert_eq!((displays.shown.len(), displays.left_out), (2, 0));
        displays.push("image/jpeg", PNG.to_vec());
        displays.push("image/png", b"<script>".to_vec());
        displays.push("text/html", PNG.to_vec());
        displays.push("text/html", b"\xff".to_vec());
        displays.push("application/x-sh", b"rm".to_vec());
        assert_eq!((displays.shown.len(), displays.left_out), (2, 5));
    }

    #[test]
    fn number_and_size_are_bounded() {
        let mut displays = Displays::default();
        for _ in 0..20 {
            displays.push("image/png", PNG.to_vec());
        }
        assert_eq!((displays.shown.len(), displays.left_out), (MOST, 4));
        let mut displays = Displays::default();
        for _ in 0..5 {
            displays.push("text/plain", vec![b'x'; 4 << 20]);
        }
        assert_eq!((displays.shown.len(), displays.left_out), (3, 2));
    }

    proptest! {
        #[test]
        fn every_display_is_shown_or_counted(
            mime in prop_oneof![Just("image/png".to_owned()), Just("text/html".to_owned()), ".{0,20}"],
            content in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let mut displays = Displays::default();
            displays.push(&mime, content);
            prop_assert_eq!(displays.shown.len() as u64 + displays.left_out, 1);
        }
    }
}
