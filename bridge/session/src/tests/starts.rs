//! Starts of guests that fail or drag on: what the call is told, and who takes what was started.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::super::{Error, LaunchError, Progress, RunRequest, State, Status};
use super::lifecycle::slow;
use super::scripted::{Puppet, Stage, ready_frame};
use super::{call, sessions, silent};

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_is_told_and_tried_again() {
    let stage = Stage::with_before(
        Box::new(|number, _| {
            Box::pin(async move {
                match number {
                    1 => Err(LaunchError {
                        code: "E0",
                        message: "no container engine answers".into(),
                    }),
                    2 => panic!("a fault of the launcher"),
                    _ => Ok(()),
                }
            })
        }),
        Puppet::echo,
    );
    let sessions = sessions(&stage);
    let first = sessions.run(call("x"), silent()).await.unwrap_err();
    assert!(matches!(&first, Error::Launch(error) if error.code == "E0"));
    assert_eq!(first.to_string(), "no container engine answers");
    let second = sessions.run(call("x"), silent()).await.unwrap_err();
    assert!(matches!(second, Error::Launch(_)));
    let third = sessions.run(call("x"), silent()).await.unwrap();
    assert_eq!((third.status(), third.note()), (Status::Success, None));
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_come_up_is_a_launch_error_and_is_killed() {
    type Start = fn(Puppet) -> futures_util::future::BoxFuture<'static, ()>;
    let cases: [(Start, &str, u64); 7] = [
        (
            |puppet| {
                Box::pin(async {
                    puppet.complain("cannot open entry.py\n").await;
                    puppet.end_silently(2, false);
                })
            },
            "the sandbox ended at its start: exit 2; its last words: cannot open entry.py",
            0,
        ),
        (
            |puppet| Box::pin(puppet.end(70, false)),
            "the sandbox ended at its start: exit 70",
            0,
        ),
        (
            |puppet| Box::pin(puppet.hold()),
            "the sandbox did not get ready within 30 s",
            30,
        ),
        (
            |puppet| {
                Box::pin(async {
                    puppet.write("hello\n").await;
                    puppet.hold().await;
                })
            },
            "the sandbox broke its protocol at its start: a malformed frame",
            0,
        ),
        (
            |puppet| {
                Box::pin(async {
                    let mut frame = ready_frame();
                    frame["protocol"] = json!(2);
                    puppet.say(frame).await;
                    puppet.hold().await;
                })
            },
            "the sandbox speaks version 2 of the protocol, the bridge 1; image and bridge do not fit together",
            0,
        ),
        (
            |puppet| {
                Box::pin(async {
                    let mut frame = ready_frame();
                    frame["report"]["uid"] = json!(0);
                    puppet.say(frame).await;
                    puppet.hold().await;
                })
            },
            "the guest runs as root",
            0,
        ),
        (
            |puppet| Box::pin(async move { puppet.lose().await }),
            "the sandbox was lost with its container engine at its start",
            0,
        ),
    ];
    for (script, message, seconds) in cases {
        let stage = Stage::new(script);
        let sessions = sessions(&stage);
        let began = Instant::now();
        let long = RunRequest {
            timeout: Duration::from_secs(60),
            ..call("x")
        };
        let error = sessions.run(long, silent()).await.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!((began.elapsed().as_secs(), stage.living()), (seconds, 0));
    }
}

/// Waits so long before each guest is there; reports a long phase where `load` says so.
fn slow_start(seconds: u64, load: bool) -> Arc<Stage> {
    Stage::with_before(
        Box::new(move |_, progress| {
            Box::pin(async move {
                sleep(Duration::from_secs(1)).await;
                for done in 0..seconds {
                    if load {
                        progress.report("loading the image", done, Some(seconds));
                    }
                    sleep(Duration::from_secs(1)).await;
                }
                Ok(())
            })
        }),
        slow,
    )
}

#[tokio::test(start_paused = true)]
async fn a_start_counts_and_the_next_call_takes_what_was_started() {
    let stage = slow_start(9, false);
    let sessions = sessions(&stage);
    let short = RunRequest {
        timeout: Duration::from_secs(4),
        ..call("x")
    };
    let outcome = sessions.run(short, silent()).await.unwrap();
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Kept)
    );
    assert_eq!(
        outcome.error().unwrap().message,
        "stopped after 4 s: the sandbox was still starting, nothing was run; the next call uses it"
    );
    let cancel = CancellationToken::new();
    let cancelled = RunRequest {
        cancel: cancel.clone(),
        ..call("x")
    };
    let (outcome, ()) = tokio::join!(sessions.run(cancelled, silent()), async {
        sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    assert_eq!(outcome.unwrap().status(), Status::Cancelled);
    let outcome = sessions.run(call("x"), silent()).await.unwrap();
    assert_eq!((outcome.status(), outcome.note()), (Status::Success, None));
    assert_eq!(stage.launched(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_went_into_the_start_runs_nothing() {
    // While the first launch reports a long phase the clock stands still; then the time is up.
    let stage = slow_start(1, true);
    let sessions = sessions(&stage);
    let short = RunRequest {
        timeout: Duration::from_secs(1),
        ..call("x")
    };
    let outcome = sessions.run(short, silent()).await.unwrap();
    assert_eq!(outcome.status(), Status::Timeout);
    let message = outcome.error().unwrap().message;
    assert!(message.contains("nothing was run"), "{message}");
    let next = sessions.run(call("y"), silent()).await.unwrap();
    assert_eq!(
        (next.status(), next.output.stdout.bytes.as_slice()),
        (Status::Success, &b"y"[..])
    );
    assert_eq!(stage.launched(), 1);
}

/// Remembers what it is told, and when.
#[derive(Default)]
struct Listener(Mutex<Vec<u64>>);

impl Progress for Listener {
    fn report(&self, message: &str, done: u64, total: Option<u64>) {
        assert_eq!((message, total.is_some()), ("loading the image", true));
        self.0.lock().unwrap().push(done);
    }
}

#[tokio::test(start_paused = true)]
async fn the_clock_stands_still_while_the_image_is_loaded() {
    let stage = slow_start(100, true);
    let sessions = sessions(&stage);
    let listener = Arc::new(Listener::default());
    let short = RunRequest {
        timeout: Duration::from_millis(2500),
        ..call("x")
    };
    let began = Instant::now();
    let outcome = sessions.run(short, listener.clone()).await.unwrap();
    assert_eq!(
        (outcome.status(), began.elapsed().as_secs()),
        (Status::Success, 102)
    );
    assert_eq!(*listener.0.lock().unwrap(), (0..100).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn progress_goes_to_the_call_that_waits_and_never_to_one_that_was_answered() {
    let stage = slow_start(10, true);
    let sessions = sessions(&stage);
    let (first, second) = (Arc::new(Listener::default()), Arc::new(Listener::default()));
    let cancel = CancellationToken::new();
    let cancelled = RunRequest {
        cancel: cancel.clone(),
        ..call("x")
    };
    let (outcome, ()) = tokio::join!(sessions.run(cancelled, first.clone()), async {
        sleep(Duration::from_millis(3500)).await;
        cancel.cancel();
    });
    assert_eq!(outcome.unwrap().status(), Status::Cancelled);
    sleep(Duration::from_secs(2)).await;
    let outcome = sessions.run(call("x"), second.clone()).await.unwrap();
    assert_eq!(outcome.status(), Status::Success);
    assert_eq!(*first.0.lock().unwrap(), [0, 1, 2]);
    assert_eq!(*second.0.lock().unwrap(), [5, 6, 7, 8, 9]);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_makes_no_progress_is_given_up() {
    let stage = Stage::with_before(
        Box::new(|_, progress| {
            progress.report("loading the image", 0, None);
            Box::pin(std::future::pending())
        }),
        slow,
    );
    let sessions = sessions(&stage);
    let began = Instant::now();
    let error = sessions.run(call("x"), silent()).await.unwrap_err();
    assert_eq!(error.to_string(), "the sandbox did not start within 120 s");
    assert_eq!(began.elapsed().as_secs(), 120);
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_a_start_under_way_but_not_for_ever() {
    for (seconds, expected) in [(2, 2), (1000, 5)] {
        let stage = slow_start(seconds, true);
        let sessions = sessions(&stage);
        let (answer, took) = tokio::join!(sessions.run(call("x"), silent()), async {
            sleep(Duration::from_secs(1)).await;
            let began = Instant::now();
            sessions.shutdown().await;
            began.elapsed().as_secs()
        });
        assert!(matches!(answer, Err(Error::ShuttingDown)), "{answer:?}");
        assert_eq!((took, stage.living()), (expected, 0));
    }
}
