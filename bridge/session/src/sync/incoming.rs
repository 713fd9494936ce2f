//! Files that a guest was asked for, on their way to the host.

use std::collections::BTreeSet;

use bridge_wire::FilePiece;

/// The files of one request while they are being sent.
pub(crate) struct Incoming {
    /// Number of the request.
    pub(crate) id: u64,
    /// Files that have not come.
    wanted: BTreeSet<String>,
    /// Files that are whole.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    /// The file whose pieces are coming.
    partial: Option<(String, Vec<u8>)>,
    /// Bytes that may still come.
    room: usize,
    /// Files that the guest could not read, or for which there was no room.
    pub(crate) unread: Vec<String>,
    /// The guest has sent everything.
    pub(crate) done: bool,
}

impl Incoming {
    /// Expects these files, which may have `room` bytes together.
    pub(crate) fn new(id: u64, paths: &[String], room: usize) -> Self {
        Self {
            id,
            wanted: paths.iter().cloned().collect(),
            files: Vec::new(),
            partial: None,
            room,
            unread: Vec::new(),
            done: false,
        }
    }

    /// Takes a piece of a file; false where nobody asked for it.
    pub(crate) fn take(&mut self, piece: FilePiece<'_>) -> bool {
        let path = piece.path.as_ref();
        if self.done || !self.wanted.contains(path) {
            return false;
        }
        let Some(bytes) = piece.bytes else {
            self.wanted.remove(path);
            self.unread.push(path.to_owned());
            return true;
        };
        let (_, mut so_far) = self
            .partial
            .take()
            .filter(|(partial, _)| partial == path)
            .unwrap_or_default();
        let Some(room) = self.room.checked_sub(bytes.len()) else {
            self.wanted.remove(path);
            self.unread.push(path.to_owned());
            return true;
        };
        self.room = room;
        so_far.extend_from_slice(&bytes);
        if piece.more {
            self.partial = Some((path.to_owned(), so_far));
        } else {
            self.wanted.remove(path);
            self.files.push((path.to_owned(), so_far));
        }
        true
    }
}
