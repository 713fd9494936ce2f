//! Files that a guest was asked for, on their way to the host.

use std::collections::BTreeSet;

use bridge_wire::FilePiece;

/// Those that are being sent.
pub(super) struct Incoming {
    /// Of the request.
    pub(super) id: u64,
    wanted: BTreeSet<String>,
    /// That are whole.
    pub(super) files: Vec<(String, Vec<u8>)>,
    partial: Option<(String, Vec<u8>)>,
    room: usize,
    /// That the guest could not read, or that were too much.
    pub(super) unread: Vec<String>,
    /// The guest has sent all.
    pub(super) done: bool,
}

impl Incoming {
    /// `room`: how many bytes all may have together.
    pub(super) fn new(id: u64, paths: Vec<String>, room: usize) -> Self {
        Self {
            id,
            wanted: paths.into_iter().collect(),
            files: Vec::new(),
            partial: None,
            room,
            unread: Vec::new(),
            done: false,
        }
    }

    /// A piece of one; false where nobody asked for it.
    pub(super) fn take(&mut self, piece: FilePiece<'_>) -> bool {
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
