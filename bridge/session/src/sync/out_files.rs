//! Files that code leaves in `/workspace/out`: their list, and their content, which the guest is
//! asked for piece by piece, also while it runs code. Only the list is kept here; the files are
//! gone with their guest.

use std::collections::{BTreeMap, HashMap};
use std::sync::MutexGuard;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::name::SessionName;
use crate::run::outcome::OutFile;
use bridge_common::Mutex;
use bridge_wire::{DoneFile, Link, ToGuest};

/// Most bytes that a file may have to be read.
pub const FILE_LIMIT: u64 = 8 << 20;
/// Files that are listed of one session.
const MOST: usize = 100;
/// Most bytes of a path.
const PATH_LIMIT: usize = 1024;
/// Bytes that are asked for at once.
const PIECE: u64 = 1 << 20;
/// Time that a guest has to answer one question.
const PATIENCE: Duration = Duration::from_secs(10);
/// Questions to one guest that may wait, and as many again that it has not answered.
const PENDING: usize = 4;

/// Why a file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // The messages say what the fields are.
pub enum FileError {
    /// The guest that had the file is gone.
    #[error("session {session} has no sandbox now; its files were gone with it")]
    Gone { session: String },
    /// The file does not exist, or is not one that may be read.
    #[error("no file {path:?} can be read in /workspace/out of session {session}")]
    Missing { session: String, path: String },
    /// The file is larger than can be read.
    #[error("{path:?} has {size} bytes; at most {FILE_LIMIT} can be read: split or compress it")]
    TooLarge { path: String, size: u64 },
    /// The guest did not answer in time.
    #[error("the sandbox of session {session} does not answer")]
    Silent { session: String },
}

/// A question to a guest: the next piece of a file.
#[derive(Debug)]
pub(crate) struct Question {
    path: String,
    offset: u64,
    reply: oneshot::Sender<Option<Piece>>,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    size: u64,
    bytes: Vec<u8>,
}

/// The files of all sessions that have a guest.
#[derive(Debug, Default)]
pub(crate) struct OutputFiles(Mutex<BTreeMap<SessionName, SessionFiles>>);

#[derive(Debug)]
struct SessionFiles {
    questions: mpsc::Sender<Question>,
    files: Vec<OutFile>,
}

impl OutputFiles {
    /// A session has a new guest, which is asked through what is returned. The files of the
    /// previous guest are gone.
    pub(crate) fn open(&self, session: &SessionName) -> FileQuestions {
        let (questions, receiver) = mpsc::channel(PENDING);
        let session_files = SessionFiles {
            questions,
            files: Vec::new(),
        };
        let mut sessions = self.lock();
        sessions.retain(|_, files| !files.questions.is_closed());
        sessions.insert(session.clone(), session_files);
        FileQuestions {
            receiver: Some(receiver),
            ..FileQuestions::default()
        }
    }

    /// Takes the list of a guest after a run; returns the files that are new.
    pub(crate) fn put(&self, session: &SessionName, files: Vec<DoneFile>) -> Vec<OutFile> {
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
        if let Some(known) = self.lock().get_mut(session) {
            known.files = files;
        }
        new
    }

    /// Files of the sessions that have a guest.
    pub(crate) fn list(&self) -> Vec<(String, Vec<OutFile>)> {
        let sessions = self.lock();
        let living = sessions
            .iter()
            .filter(|(_, known)| !known.questions.is_closed());
        living
            .map(|(name, known)| (name.as_str().to_owned(), known.files.clone()))
            .collect()
    }

    /// The content of a file as it is now.
    pub(crate) async fn read(
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
            .map(|known| known.questions.clone())
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
        self.0.lock()
    }
}

/// The guest's side: questions that come, and those that the guest has not answered.
#[derive(Debug, Default)]
pub(crate) struct FileQuestions {
    receiver: Option<mpsc::Receiver<Question>>,
    pending: HashMap<u64, oneshot::Sender<Option<Piece>>>,
    asked: u64,
}

impl FileQuestions {
    /// The next question; `None` where there will be none before others are answered. May be
    /// dropped and called again.
    pub(crate) async fn next(&mut self) -> Option<Question> {
        match &mut self.receiver {
            Some(receiver) if self.pending.len() < PENDING => receiver.recv().await,
            _ => None,
        }
    }

    /// Whether an answer is to come.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Puts the question behind the frames that wait for the guest.
    pub(crate) fn request(&mut self, link: &mut Link, question: Question) {
        let Question {
            path,
            offset,
            reply,
        } = question;
        let call = self.expect(reply);
        link.sender.queue(&ToGuest::ReadFile {
            call,
            path: &path,
            offset,
            bytes: PIECE,
        });
    }

    /// Expects an answer; returns the number that it will have.
    fn expect(&mut self, reply: oneshot::Sender<Option<Piece>>) -> u64 {
        self.pending.retain(|_, reply| !reply.is_closed());
        self.asked += 1;
        self.pending.insert(self.asked, reply);
        self.asked
    }

    /// Passes an answer of the guest on; false where nobody had asked.
    pub(crate) fn answer(&mut self, call: u64, piece: Option<(u64, Vec<u8>)>) -> bool {
        let Some(reply) = self.pending.remove(&call) else {
            return false;
        };
        let _ = reply.send(piece.map(|(size, bytes)| Piece { size, bytes }));
        true
    }
}

/// Whether a path is relative and nothing in it leads elsewhere.
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
    async fn serve(mut questions: FileQuestions, content: Vec<u8>, size: u64) {
        while let Some(question) = questions.next().await {
            let (offset, known) = (question.offset, question.path == "a/b.txt");
            let call = questions.expect(question.reply);
            let from = usize::try_from(offset).unwrap().min(content.len());
            let to = (from + 1000).min(content.len());
            let piece = known.then(|| (size, content[from..to].to_vec()));
            assert!(questions.answer(call, piece));
            assert!(!questions.answer(call, None));
        }
    }

    async fn read(content: &[u8], size: u64, path: &str) -> Result<Vec<u8>, FileError> {
        let output_files = OutputFiles::default();
        let guest = tokio::spawn(serve(output_files.open(&name()), content.to_vec(), size));
        let found = output_files.read(&name(), path).await;
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
    async fn files_that_cannot_be_read_have_their_reason() {
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
    async fn dead_and_silent_guests_are_told_apart() {
        let output_files = OutputFiles::default();
        let gone = FileError::Gone {
            session: "main".to_owned(),
        };
        assert_eq!(output_files.read(&name(), "a").await, Err(gone.clone()));
        let questions = output_files.open(&name());
        let file = DoneFile {
            path: "a".to_owned(),
            size: 1,
            is_new: true,
        };
        let bad = DoneFile {
            path: "../a".to_owned(),
            ..file.clone()
        };
        assert_eq!(output_files.put(&name(), vec![file, bad]).len(), 1);
        assert_eq!(output_files.list().len(), 1);
        let silent = output_files.read(&name(), "a").await;
        assert!(
            matches!(silent, Err(FileError::Silent { .. })),
            "{silent:?}"
        );
        drop(questions);
        assert_eq!(output_files.read(&name(), "a").await, Err(gone));
        assert_eq!(output_files.list(), []);
    }
}
