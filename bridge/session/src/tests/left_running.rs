//! Runs that were left running: all that holds for a call holds for them, and whoever comes back
//! finds them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::super::{Error, Run, RunOutcome, RunRequest, Sessions, State, Status};
use super::local::Local;
use super::scripted::{PANIC, Puppet, Stage};
use super::{call, named, sessions, sessions_with, settings, silent};

/// Says `tick` every second for as many seconds as the code says, then is done; reacts to an
/// interrupt unless the code is `deaf`. Code `die` ends it.
async fn ticker(mut puppet: Puppet) {
    puppet.ready().await;
    loop {
        let frame = puppet.receive().await;
        if frame["type"] != "execute" {
            continue;
        }
        match frame["code"].as_str() {
            Some("deaf") => continue,
            Some("die") => {
                sleep(Duration::from_secs(5)).await;
                return puppet.end(139, false).await;
            }
            Some("panic") => {
                sleep(Duration::from_secs(5)).await;
                puppet.write(PANIC).await;
                return puppet.hold().await;
            }
            _ => {}
        }
        let ticks: u64 = frame["code"].as_str().unwrap().parse().unwrap();
        let mut interrupted = false;
        for _ in 0..ticks {
            puppet.say(json!({"type": "stdout", "data": "tick "})).await;
            tokio::select! {
                () = sleep(Duration::from_secs(1)) => {}
                _ = puppet.receive() => { interrupted = true; break }
            }
        }
        let status = if interrupted {
            "interrupted"
        } else {
            "success"
        };
        puppet
            .say(json!({"type": "execution_done", "id": frame["id"], "status": status}))
            .await;
    }
}

fn long(code: &str, seconds: u64) -> RunRequest {
    RunRequest {
        timeout: Duration::from_secs(seconds),
        ..call(code)
    }
}

/// Begins a run and leaves it after three seconds.
pub(super) async fn left(sessions: &Sessions, request: RunRequest) -> Arc<Run> {
    let run = sessions.start(request, silent()).unwrap();
    let attendance = run.attend();
    sleep(Duration::from_millis(2500)).await;
    run.leave_running();
    drop(attendance);
    run
}

fn text(outcome: &RunOutcome) -> &str {
    std::str::from_utf8(&outcome.output.stdout.bytes).unwrap()
}

fn message(outcome: &RunOutcome) -> String {
    outcome.error().unwrap().message
}

#[tokio::test(start_paused = true)]
async fn each_reading_goes_on_where_the_last_one_ended() {
    let stage = Stage::new(ticker);
    let sessions = sessions(&stage);
    let run = left(&sessions, long("6", 100)).await;
    let outcome = run.read().unwrap();
    assert_eq!(
        (outcome.status(), text(&outcome)),
        (Status::Running, "tick tick tick ")
    );
    assert_eq!(outcome.identity.run.as_deref(), Some(run.id()));
    assert_eq!(outcome.identity.elapsed.as_secs(), 2);
    assert_eq!(text(&run.read().unwrap()), "");
    let found = sessions.find(run.id(), None).unwrap();
    found.ended().await;
    assert_eq!(text(&found.peek().unwrap()), "tick ".repeat(6));
    let outcome = found.read().unwrap();
    assert_eq!(
        (outcome.status(), text(&outcome)),
        (Status::Success, "tick tick tick ")
    );
    // That answer may have been lost.
    assert_eq!(text(&found.read().unwrap()), "tick ".repeat(6));
    assert_eq!(
        sessions.run(call("1"), silent()).await.unwrap().note(),
        None
    );
    assert_eq!(stage.launched(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_limit_of_the_whole_run_holds() {
    let stage = Stage::new(ticker);
    let sessions = sessions(&stage);
    let began = Instant::now();
    let run = left(&sessions, long("500", 40)).await;
    run.ended().await;
    assert_eq!(began.elapsed().as_secs(), 40);
    let outcome = run.read().unwrap();
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Kept)
    );
    assert_eq!(message(&outcome), "stopped after 40 s; variables are kept");

    let run = left(&sessions, long("deaf", 40)).await;
    run.ended().await;
    let outcome = run.read().unwrap();
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Lost)
    );
    assert_eq!(stage.living(), 0);
    let next = sessions.run(call("1"), silent()).await.unwrap();
    assert_eq!(
        next.note().as_deref(),
        Some("fresh session (the previous one was killed after a time limit)")
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_left_running_is_interrupted_when_cancelled_and_killed_if_it_does_not_react() {
    let stage = Stage::new(ticker);
    let sessions = sessions(&stage);
    for (code, state, millis) in [("500", State::Kept, 2500), ("deaf", State::Lost, 4500)] {
        let began = Instant::now();
        let run = left(&sessions, long(code, 1000)).await;
        run.cancel();
        run.ended().await;
        assert_eq!(began.elapsed().as_millis(), millis);
        let outcome = run.read().unwrap();
        assert_eq!(
            (outcome.status(), outcome.state()),
            (Status::Cancelled, state)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_caller_goes_away_is_cancelled_and_its_result_can_still_be_read() {
    let stage = Stage::new(ticker);
    let sessions = sessions(&stage);
    let run = sessions.start(call("500"), silent()).unwrap();
    let attendance = run.attend();
    sleep(Duration::from_millis(1500)).await;
    drop(attendance);
    run.ended().await;
    let found = sessions.find("last", None).unwrap();
    assert_eq!(found.id(), run.id());
    let outcome = found.read().unwrap();
    assert_eq!(
        (outcome.status(), text(&outcome)),
        (Status::Cancelled, "tick tick ")
    );
    assert_eq!(outcome.identity.run, None);

    // Likewise where only the answer was lost.
    sessions.run(named("other", "2"), silent()).await.unwrap();
    let outcome = sessions
        .find("last", Some("other"))
        .unwrap()
        .read()
        .unwrap();
    assert_eq!(
        (outcome.status(), text(&outcome)),
        (Status::Success, "tick tick ")
    );
    assert_eq!(sessions.find("last", None).unwrap().id(), run.id());
}

#[tokio::test(start_paused = true)]
async fn calls_wait_behind_a_run_left_running_up_to_their_own_limit() {
    let stage = Stage::new(ticker);
    let sessions = sessions(&stage);
    let run = left(&sessions, long("60", 100)).await;
    let began = Instant::now();
    let outcome = sessions.run(long("1", 20), silent()).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 20);
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Kept)
    );
    assert_eq!(
        message(&outcome),
        format!(
            "not started within 20 s: run {:?} of this session is still running; wait for it with run={:?}, end it with cancel, or name another session",
            run.id(),
            run.id()
        )
    );
    assert_eq!(
        sessions
            .run(named("other", "1"), silent())
            .await
            .unwrap()
            .status(),
        Status::Success
    );
    // Its turn comes in time.
    let outcome = sessions.run(long("1", 50), silent()).await.unwrap();
    assert_eq!(
        (outcome.status(), text(&outcome)),
        (Status::Success, "tick ")
    );
    assert!(run.is_ended());
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_names_the_run_that_it_waits_behind() {
    let stage = Stage::new(ticker);
    let sessions = sessions(&stage);
    let first = left(&sessions, long("30", 100)).await;
    let second = left(&sessions, long("3", 4)).await;
    let outcome = second.read().unwrap();
    assert_eq!(
        (outcome.status(), outcome.note()),
        (
            Status::Running,
            Some(format!(
                "waits for run {:?} of the same session",
                first.id()
            ))
        )
    );
    let third = left(&sessions, long("3", 100)).await;
    third.cancel();
    assert!(third.is_ended());
    assert_eq!(
        message(&third.read().unwrap()),
        "cancelled before it began; nothing was run"
    );
    second.ended().await;
    assert!(first.is_ended());
    // Its own time began with its turn.
    assert_eq!(second.read().unwrap().status(), Status::Success);
}

#[tokio::test(start_paused = true)]
async fn a_reset_ends_it() {
    let stage = Stage::new(ticker);
    let sessions = sessions(&stage);
    let run = left(&sessions, long("500", 1000)).await;
    let reset = RunRequest {
        reset: true,
        ..call("1")
    };
    let began = Instant::now();
    let outcome = sessions.run(reset, silent()).await.unwrap();
    assert_eq!(
        (outcome.status(), outcome.note().as_deref()),
        (Status::Success, Some("fresh session, as asked"))
    );
    assert!(began.elapsed() < Duration::from_secs(3));
    assert_eq!(run.read().unwrap().status(), Status::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_run_left_running_ends_with_the_reason_when_its_guest_or_session_dies() {
    let stage = Stage::new(ticker);
    let sessions = sessions(&stage);
    let run = left(&sessions, long("die", 100)).await;
    run.ended().await;
    let outcome = run.read().unwrap();
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Error, State::Lost)
    );
    assert!(
        message(&outcome).contains("SIGSEGV"),
        "{}",
        message(&outcome)
    );

    let run = left(&sessions, long("panic", 100)).await;
    run.ended().await;
    assert!(matches!(run.read(), Err(Error::Bug { .. })));
    // The answer can be given again.
    assert!(matches!(run.read(), Err(Error::Bug { .. })));
    let next = sessions.run(call("1"), silent()).await.unwrap();
    assert_eq!(next.status(), Status::Success);
}

#[tokio::test(start_paused = true)]
async fn shutdown_kills_a_run_left_running_and_those_that_wait_behind_it() {
    let stage = Stage::new(ticker);
    let sessions = sessions(&stage);
    let runs = [
        left(&sessions, long("500", 1000)).await,
        left(&sessions, long("5", 1000)).await,
    ];
    sessions.shutdown().await;
    assert_eq!(stage.living(), 0);
    for run in runs {
        run.ended().await;
        assert!(matches!(run.read(), Err(Error::ShuttingDown)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_not_idle_while_a_run_goes_on() {
    let stage = Stage::new(ticker);
    let brief = super::SessionSettings {
        idle: Duration::from_secs(60),
        ..settings()
    };
    let sessions = sessions_with(&stage, brief);
    let run = left(&sessions, long("300", 1000)).await;
    run.ended().await;
    assert_eq!(run.read().unwrap().status(), Status::Success);
    assert_eq!(
        sessions.run(call("1"), silent()).await.unwrap().note(),
        None
    );
}

#[tokio::test]
async fn real_code_is_read_while_it_runs() {
    let local = Local::new();
    let sessions = sessions(&local);
    let code = "import sys, time\nprint('begun', flush=True)\nwhile not globals().get('stop'): time.sleep(0.01)";
    let run = sessions.start(long(code, 60), silent()).unwrap();
    run.leave_running();
    let began = Instant::now();
    while text(&run.peek().unwrap()) != "begun\n" {
        assert!(began.elapsed() < Duration::from_secs(30));
        tokio::task::yield_now().await;
    }
    assert_eq!(text(&run.read().unwrap()), "begun\n");
    run.cancel();
    run.ended().await;
    let outcome = run.read().unwrap();
    assert_eq!(
        (outcome.status(), outcome.state(), text(&outcome)),
        (Status::Cancelled, State::Kept, "")
    );
    // What was printed can be read before `print` has come back.
    let told = message(&outcome);
    assert!(
        ["line 2", "line 3"].iter().any(|line| told.contains(line)),
        "{told}"
    );
    let next = sessions
        .run(call("print(time.sleep.__name__)"), silent())
        .await
        .unwrap();
    assert_eq!(text(&next), "sleep\n");
}
