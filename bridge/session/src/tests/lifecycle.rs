//! Sessions from their first call to shutdown: order, number, reset, idleness.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};

use super::super::{Error, RunRequest, State, Status};
use super::scripted::{Puppet, Stage};
use super::{call, named, sessions, sessions_with, settings, silent};

/// Executions take a second each; an interrupt ends them.
pub(super) async fn slow(mut puppet: Puppet) {
    puppet.ready().await;
    loop {
        let frame = puppet.receive().await;
        if frame["type"] == "execute" {
            sleep(Duration::from_secs(1)).await;
            puppet
                .say(json!({"type": "stdout", "data": frame["code"]}))
                .await;
            puppet.done(&frame["id"]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_session_run_in_order_and_those_of_two_sessions_side_by_side() {
    let stage = Stage::new(slow);
    let sessions = sessions(&stage);
    let began = Instant::now();
    let timed = async |request| {
        let outcome = sessions.run(request, silent()).await.unwrap();
        (
            String::from_utf8(outcome.output.stdout.bytes).unwrap(),
            began.elapsed().as_secs(),
        )
    };
    let answers = tokio::join!(
        timed(call("a")),
        timed(call("b")),
        timed(named("other", "c")),
        timed(call("d")),
    );
    let expected = (
        ("a".into(), 1),
        ("b".into(), 2),
        ("c".into(), 1),
        ("d".into(), 3),
    );
    assert_eq!(answers, expected);
    let labels = ["default", "other"].map(|name| Some(name.to_owned()));
    assert_eq!(*stage.labels.lock().unwrap(), labels);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_earlier_calls_does_not_count() {
    let stage = Stage::new(slow);
    let sessions = sessions(&stage);
    let short = |code| RunRequest {
        timeout: Duration::from_millis(1500),
        ..call(code)
    };
    let (a, b, c) = tokio::join!(
        sessions.run(short("a"), silent()),
        sessions.run(short("b"), silent()),
        sessions.run(short("c"), silent()),
    );
    for outcome in [a, b, c] {
        assert_eq!(outcome.unwrap().status(), Status::Success);
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_lives_on() {
    let stage = Stage::new(slow);
    let sessions = sessions(&stage);
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..70 {
        let sessions = Arc::clone(&sessions);
        running.spawn(async move { sessions.run(call("x"), silent()).await });
    }
    let mut refused = 0;
    while let Some(answer) = running.join_next().await {
        match answer.unwrap() {
            Ok(outcome) => assert_eq!(outcome.status(), Status::Success),
            Err(Error::QueueFull { limit: 64, .. }) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    // One may or may not have left the queue before the last came.
    assert!((5..=6).contains(&refused), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn the_number_of_sessions_is_limited() {
    let stage = Stage::new(Puppet::echo);
    let sessions = sessions(&stage);
    for name in ["b", "a", "c"] {
        sessions.run(named(name, "x"), silent()).await.unwrap();
    }
    let error = sessions.run(call("x"), silent()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot start another session: the limit of 3 is reached (max_sessions); use one of a, b, c"
    );
    let error = sessions.run(named("a b", "x"), silent()).await.unwrap_err();
    assert!(matches!(error, Error::BadName { .. }));
    assert_eq!(
        sessions
            .run(named("a", "x"), silent())
            .await
            .unwrap()
            .identity
            .session,
        "a"
    );
    assert_eq!(stage.launched(), 3);
}

#[tokio::test(start_paused = true)]
async fn code_too_large_for_a_frame_is_refused_without_a_start() {
    let stage = Stage::new(Puppet::echo);
    let sessions = sessions(&stage);
    for code in ["#".repeat(17 << 20), "\0".repeat(3 << 20)] {
        let error = sessions.run(call(&code), silent()).await.unwrap_err();
        assert!(matches!(error, Error::CodeTooLarge { .. }));
    }
    assert_eq!(stage.launched(), 0);
    let outcome = sessions
        .run(call(&"#".repeat(10_000_000)), silent())
        .await
        .unwrap();
    assert_eq!(
        outcome.output.stdout.bytes.len() as u64 + outcome.output.stdout.dropped,
        10_000_000
    );
}

#[tokio::test(start_paused = true)]
async fn reset_starts_afresh_and_says_so() {
    let stage = Stage::new(Puppet::echo);
    let sessions = sessions(&stage);
    sessions.run(call("x"), silent()).await.unwrap();
    let reset = RunRequest {
        reset: true,
        ..call("y")
    };
    let outcome = sessions.run(reset, silent()).await.unwrap();
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Success, State::Kept)
    );
    assert_eq!(outcome.note().as_deref(), Some("fresh session, as asked"));
    assert_eq!(outcome.output.stdout.bytes, b"y");
    assert_eq!((stage.launched(), stage.living()), (2, 1));
    let next = sessions.run(call("z"), silent()).await.unwrap();
    assert_eq!(next.note(), None);
}

#[tokio::test(start_paused = true)]
async fn an_unused_session_is_closed_and_its_successor_says_so() {
    let stage = Stage::new(Puppet::echo);
    let sessions = sessions(&stage);
    sessions.run(call("x"), silent()).await.unwrap();
    sleep(Duration::from_secs(1799)).await;
    sessions.run(call("x"), silent()).await.unwrap();
    sleep(Duration::from_secs(1799)).await;
    assert_eq!(stage.living(), 1);
    sleep(Duration::from_secs(2)).await;
    assert_eq!(stage.living(), 0);
    let next = sessions.run(call("x"), silent()).await.unwrap();
    assert_eq!(
        next.note().as_deref(),
        Some("fresh session (the previous one was closed after 30 min without use)")
    );
    assert_eq!(stage.launched(), 2);
}

#[tokio::test(start_paused = true)]
async fn zero_keeps_unused_sessions_for_ever() {
    let stage = Stage::new(Puppet::echo);
    let sessions = sessions_with(
        &stage,
        super::SessionSettings {
            idle: Duration::ZERO,
            ..settings()
        },
    );
    sessions.run(call("x"), silent()).await.unwrap();
    sleep(Duration::from_secs(100 * 24 * 3600)).await;
    assert_eq!(stage.living(), 1);
}

#[tokio::test(start_paused = true)]
async fn shutdown_kills_all_at_once_and_nothing_runs_after_it() {
    let stage = Stage::new(slow);
    let sessions = sessions(&stage);
    for name in ["a", "b", "c"] {
        sessions.run(named(name, "x"), silent()).await.unwrap();
    }
    let (running, waiting, ()) = tokio::join!(
        sessions.run(named("a", "x"), silent()),
        sessions.run(named("a", "x"), silent()),
        async {
            sleep(Duration::from_millis(500)).await;
            sessions.shutdown().await;
        },
    );
    assert!(matches!(running, Err(Error::ShuttingDown)), "{running:?}");
    assert!(matches!(waiting, Err(Error::ShuttingDown)), "{waiting:?}");
    assert_eq!(stage.living(), 0);
    let late = sessions.run(call("x"), silent()).await;
    assert!(matches!(late, Err(Error::ShuttingDown)), "{late:?}");
    assert_eq!(stage.launched(), 3);
}

#[tokio::test(start_paused = true)]
async fn dropping_all_sessions_kills_their_guests() {
    let stage = Stage::new(slow);
    let sessions = sessions(&stage);
    sessions.run(call("x"), silent()).await.unwrap();
    assert_eq!(stage.living(), 1);
    drop(sessions);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(stage.living(), 0);
}
