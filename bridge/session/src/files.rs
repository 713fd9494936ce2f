//! Files that code leaves in `/workspace/out`: which there are, and their content, asked of the guest piece by piece, also
//! while it runs code. Nothing is kept here but the list; the files are gone with their guest.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::name::SessionName;
use bridge_wire::{DoneFile, ToGuest};

/// Bytes of one file that can be read.
pub const FILE_LIMIT: u64 = 8 << 20;
/// Files listed of one session.
const MOST: usize = 100;
/// Bytes of a path.
const PATH_LIMIT: usize = 1024;
/// Bytes asked for at once.
const PIECE: u64 = 1 << 20;
/// For the guest to answer one question.
const PATIENCE: Duration = Duration::from_secs(10);
/// Questions to one guest that wait, and as many again that it has not answered.
const PENDING: usize = 4;

/// A file in `/workspace/out`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutFile {
    /// Below that folder.
    pub path: String,
    /// Bytes, when the last run ended.
    pub size: u64,
    /// The last run wrote it.
    pub is_new: bool,
}

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// There is no such guest any more.
    #[error("session {session} has no sandbox now; its files were gone with it")]
    Gone {
        /// The session.
        session: String,
    },
    /// There is no such file, or none that may be read.
    #[error("there is no file {path:?} that can be read in /workspace/out of session {session}")]
    Missing {
        /// The session.
        session: String,
        /// The path.
        path: String,
    },
    /// It is larger than can be read.
    #[error("{path:?} has {size} bytes; at most {FILE_LIMIT} can be read: split or compress it")]
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        size: u64,
    },
    /// The guest has no time for this.
    #[error("the sandbox of session {session} does not answer")]
    Silent {
        /// The session.
        session: String,
    },
}

/// What is asked of a guest.
#[derive(Debug)]
pub(super) struct Question {
    path: String,
    offset: u64,
    reply: oneshot::Sender<Option<Piece>>,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    size: u64,
    bytes: Vec<u8>,
}

/// The files of all sessions.
#[derive(Debug, Default)]
pub(super) struct OutputFiles(Mutex<BTreeMap<SessionName, SessionFiles>>);

#[derive(Debug)]
struct SessionFiles {
    questions: mpsc::Sender<Question>,
    files: Vec<OutFile>,
}

impl OutputFiles {
    /// A session has a new guest, which is asked through what comes back. The files of the one before are gone.
    pub(super) fn open(&self, session: &SessionName) -> Questions {
        let (questions, receiver) = mpsc::channel(PENDING);
        let stand = SessionFiles {
            questions,
            files: Vec::new(),
        };
        let mut stands = self.lock();
        stands.retain(|_, stand| !stand.questions.is_closed());
        stands.insert(session.clone(), stand);
        Questions {
            receiver: Some(receiver),
            ..Questions::default()
        }
    }

    /// What the guest says after a run; the files that it says are new come back.
    pub(super) fn put(&self, session: &SessionName, files: Vec<DoneFile>) -> Vec<OutFile> {
        let files: Vec<OutFile> = files
            .into_iter()
            .filter(|file| is_path(&file.path))
            .take(MOST)
            .map(|file| OutFile {
                path: file.path,
                size: file.size,
                is_new: file.is_new,
            })
            .collect();
        let new = files.iter().filter(|file| file.is_new).cloned().collect();
        if let Some(stand) = self.lock().get_mut(session) {
            stand.files = files;
        }
        new
    }

    /// Those of the sessions that live.
    pub(super) fn list(&self) -> Vec<(String, Vec<OutFile>)> {
        let stands = self.lock();
        let living = stands
            .iter()
            .filter(|(_, stand)| !stand.questions.is_closed());
        living
            .map(|(name, stand)| (name.as_str().to_owned(), stand.files.clone()))
            .collect()
    }

    /// The content of a file, as it is now.
    pub(super) async fn read(
        &self,
        session: &SessionName,
        path: &str,
    ) -> Result<Vec<u8>, FileError> {
        let name = || session.as_str().to_owned();
        let gone = || FileError::Gone { session: name() };
        let missing = || FileError::Missing {
            session: name(),
            path: path.to_owned(),
        };
        let questions = self
            .lock()
            .get(session)
            .map(|stand| stand.questions.clone())
            .ok_or_else(gone)?;
        if questions.is_closed() {
            return Err(gone());
        }
        if !is_path(path) {
            return Err(missing());
        }
        let mut content = Vec::new();
        loop {
            let (reply, answer) = oneshot::channel();
            let question = Question {
                path: path.to_owned(),
                offset: content.len() as u64,
                reply,
            };
            let asked = async {
                questions.send(question).await.map_err(|_| gone())?;
                answer.await.map_err(|_| gone())
            };
            let piece = timeout(PATIENCE, asked)
                .await
                .map_err(|_| FileError::Silent { session: name() })??;
            let piece = piece.ok_or_else(missing)?;
            if piece.size > FILE_LIMIT {
                return Err(FileError::TooLarge {
                    path: path.to_owned(),
                    size: piece.size,
                });
            }
            let room = usize::try_from(piece.size)
                .unwrap_or(usize::MAX)
                .saturating_sub(content.len());
            let is_last = piece.bytes.is_empty() || piece.bytes.len() >= room;
            content.extend_from_slice(&piece.bytes[..piece.bytes.len().min(room)]);
            if is_last {
                return Ok(content);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionName, SessionFiles>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guest's side: questions that come, and those that it has not answered.
#[derive(Debug, Default)]
pub(super) struct Questions {
    receiver: Option<mpsc::Receiver<Question>>,
    pending: HashMap<u64, oneshot::Sender<Option<Piece>>>,
    asked: u64,
}

impl Questions {
    /// The next one; none where there will be none before others are answered. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Option<Question> {
        match &mut self.receiver {
            Some(receiver) if self.pending.len() < PENDING => receiver.recv().await,
            _ => None,
        }
    }

    /// An answer is to come.
    pub(super) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The frame that asks it.
    pub(super) fn ask<'a>(&mut self, path: &'a mut String, question: Question) -> ToGuest<'a> {
        self.pending.retain(|_, reply| !reply.is_closed());
        self.asked += 1;
        self.pending.insert(self.asked, question.reply);
        *path = question.path;
        ToGuest::ReadFile {
            call: self.asked,
            path,
            offset: question.offset,
            bytes: PIECE,
        }
    }

    /// The guest has answered; false where nobody had asked that.
    pub(super) fn answer(&mut self, call: u64, piece: Option<(u64, Vec<u8>)>) -> bool {
        let Some(reply) = self.pending.remove(&call) else {
            return false;
        };
        let _ = reply.send(piece.map(|(size, bytes)| Piece { size, bytes }));
        true
    }
}

/// Relative, and nothing in it leads elsewhere.
fn is_path(path: &str) -> bool {
    path.len() <= PATH_LIMIT
        && path
            .split('/')
            .all(|part| !matches!(part, "" | "." | "..") && !part.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> SessionName {
        SessionName::parse(Some("main")).unwrap()
    }

    /// Answers questions as a guest does that has one file.
    async fn serve(mut questions: Questions, content: Vec<u8>, size: u64) {
        while let Some(question) = questions.next().await {
            let (offset, known) = (question.offset, question.path == "a/b.txt");
            let mut path = String::new();
            let ToGuest::ReadFile { call, .. } = questions.ask(&mut path, question) else {
                panic!("another frame")
            };
            let from = usize::try_from(offset).unwrap().min(content.len());
            let to = (from + 1000).min(content.len());
            let piece = known.then(|| (size, content[from..to].to_vec()));
            assert!(questions.answer(call, piece));
            assert!(!questions.answer(call, None));
        }
    }

    async fn read(content: &[u8], size: u64, path: &str) -> Result<Vec<u8>, FileError> {
        let shelf = OutputFiles::default();
        let guest = tokio::spawn(serve(shelf.open(&name()), content.to_vec(), size));
        let found = shelf.read(&name(), path).await;
        guest.abort();
        found
    }

    #[tokio::test]
    async fn a_file_comes_in_pieces() {
        let content: Vec<u8> = (0..2500_u32).map(|n| n.to_le_bytes()[0]).collect();
        assert_eq!(read(&content, 2500, "a/b.txt").await.unwrap(), content);
        assert_eq!(read(&[], 0, "a/b.txt").await.unwrap(), b"");
        // Whatever the guest says of its size, it does not go on for ever.
        assert_eq!(read(&content, 10, "a/b.txt").await.unwrap(), content[..10]);
        assert_eq!(read(&content, 9999, "a/b.txt").await.unwrap(), content);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_told() {
        let size = FILE_LIMIT + 1;
        let error = read(b"x", size, "a/b.txt").await.unwrap_err().to_string();
        assert_eq!(
            error,
            "\"a/b.txt\" has 8388609 bytes; at most 8388608 can be read: split or compress it"
        );
        for path in [
            "c",
            "../b.txt",
            "a//b.txt",
            "/etc/passwd",
            "a/./b",
            "",
            "a\0",
        ] {
            let error = read(b"x", 1, path).await.unwrap_err();
            assert!(
                matches!(error, FileError::Missing { .. }),
                "{path:?}: {error}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_dead_and_the_silent_are_told_apart() {
        let shelf = OutputFiles::default();
        let gone = FileError::Gone {
            session: "main".to_owned(),
        };
        assert_eq!(shelf.read(&name(), "a").await, Err(gone.clone()));
        let questions = shelf.open(&name());
        let file = DoneFile {
            path: "a".to_owned(),
            size: 1,
            is_new: true,
        };
        let bad = DoneFile {
            path: "../a".to_owned(),
            ..file.clone()
        };
        assert_eq!(shelf.put(&name(), vec![file, bad]).len(), 1);
        assert_eq!(shelf.list().len(), 1);
        let silent = shelf.read(&name(), "a").await;
        assert!(
            matches!(silent, Err(FileError::Silent { .. })),
            "{silent:?}"
        );
        drop(questions);
        assert_eq!(shelf.read(&name(), "a").await, Err(gone));
        assert_eq!(shelf.list(), []);
    }
}
