//! Stands in for sessions: runs that do what their code says in one word, without Python.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;

use super::asking;
use crate::{Rejected, Runner};
use bridge_session::{
    Ending, FileError, OutFile, Progress, Reaction, Run, RunEnd, RunRequest, Stop,
};
use bridge_upstream::{Event, Reply};

/// Runs code by its first word.
#[derive(Default)]
pub(super) struct Fake {
    pub(super) requests: Mutex<Vec<RunRequest>>,
    pub(super) runs: Mutex<Vec<Arc<Run>>>,
    /// Notified when a run that asks has ended in any way.
    pub(super) ended: Arc<tokio::sync::Notify>,
}

/// Notifies the fake when dropped.
struct Ended(Arc<tokio::sync::Notify>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn done(request: &RunRequest, ending: Ending) -> RunEnd {
    RunEnd {
        cell: 1,
        servers: request.servers.clone(),
        ..ending.into()
    }
}

fn success() -> Ending {
    Ending::Success {
        result: None,
        exit_code: None,
    }
}

fn cancelled() -> Ending {
    Ending::Stopped {
        by: Stop::Cancelled,
        reaction: Reaction::Interrupted { place: None },
    }
}

async fn act(
    run: &Run,
    request: &RunRequest,
    progress: &dyn Progress,
    ended: Arc<tokio::sync::Notify>,
) -> RunEnd {
    match request.code.as_str() {
        "wait" => {
            run.write(b"waiting\n");
            request.cancel.cancelled().await;
            return done(request, cancelled());
        }
        "deaf" => std::future::pending().await,
        "report" => {
            for done in [1, 2, 2, 3] {
                request.client.0.notify(asking::report(done));
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
        }
        code if code.starts_with("ask") => {
            let _ended = Ended(ended);
            let times = code
                .split(' ')
                .nth(1)
                .map_or(1, |times| times.parse().expect("a number"));
            let mut reply = Reply::Cancel;
            for _ in 0..times {
                let question = asking::question(request.cancel.child_token());
                tokio::select! {
                    answer = request.client.0.request(question) => reply = answer,
                    () = request.cancel.cancelled() => return done(request, cancelled()),
                }
            }
            run.write(format!("{reply:?}\n").as_bytes());
        }
        "page" => {
            let mut question = asking::question(request.cancel.child_token());
            question.params = json!({"mode": "url", "message": "Log in", "url": "https://example.com/x", "elicitationId": "e1"});
            request.client.0.request(question).await;
            for id in ["of another", "e1", "e1"] {
                request.client.0.notify(Event::ElicitationDone {
                    server: "github".into(),
                    id: id.to_owned(),
                });
            }
        }
        "ticks" => {
            for number in 0..10 {
                run.write(format!("{number} ").as_bytes());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
        "load" => {
            for step in 0..50 {
                progress.report("loading the guest image", step, Some(50));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            progress.report("starting", 0, None);
            tokio::time::sleep(Duration::from_secs(12)).await;
            run.write(b"loaded\n");
        }
        "long" => run.write("é".repeat(3 << 20).as_bytes()),
        code => run.write(format!("ran {code}\n").as_bytes()),
    }
    done(request, success())
}

#[async_trait]
impl Runner for Fake {
    fn start(
        &self,
        request: RunRequest,
        progress: Arc<dyn Progress>,
    ) -> Result<Arc<Run>, Rejected> {
        self.requests
            .lock()
            .expect("no panic")
            .push(request.clone());
        if request.code == "nothing there" {
            return Err(Rejected::NoSandbox {
                code: "E0",
                message: "no container engine answers".to_owned(),
            });
        }
        let run = Run::alone(&request);
        self.runs.lock().expect("no panic").push(Arc::clone(&run));
        let (acting, ended) = (Arc::clone(&run), Arc::clone(&self.ended));
        tokio::spawn(async move {
            let outcome = act(&acting, &request, &*progress, ended).await;
            acting.end(Ok(outcome));
        });
        Ok(run)
    }

    fn find(&self, id: &str, _: Option<&str>) -> Result<Arc<Run>, Rejected> {
        let runs = self.runs.lock().expect("no panic");
        let found = runs.iter().find(|run| run.id() == id);
        found
            .cloned()
            .ok_or_else(|| Rejected::Invalid(format!("no run {id:?}")))
    }

    fn files(&self) -> Vec<(String, Vec<OutFile>)> {
        let file = OutFile {
            path: "a b.csv".to_owned(),
            size: 3,
            is_new: false,
        };
        vec![("main".to_owned(), vec![file])]
    }

    async fn read_file(&self, session: &str, path: &str) -> Result<Vec<u8>, FileError> {
        let (session, path) = (session.to_owned(), path.to_owned());
        match (session.as_str(), path.as_str()) {
            ("main", "a b.csv") => Ok(b"1,2".to_vec()),
            ("main", _) => Err(FileError::Missing { session, path }),
            _ => Err(FileError::Gone { session }),
        }
    }
}
