//! Time limits and cancellation: what is interrupted, what is killed, and what the answers say of
//! it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{Error, RunRequest, State, Status};
use super::scripted::{Puppet, Stage};
use super::{call, sessions, silent};

fn brief(code: &str, seconds: u64) -> RunRequest {
    RunRequest {
        timeout: Duration::from_secs(seconds),
        ..call(code)
    }
}

fn interrupted(id: &Value) -> Value {
    json!({
        "type": "execution_done", "id": id, "status": "interrupted", "where": "cell 1, line 3 (time.sleep)",
        "error": {"type": "KeyboardInterrupt", "message": "", "traceback": "..."},
    })
}

/// Says something, then reacts to interrupts and to nothing else. Code `ok` is just done.
async fn sleeper(mut puppet: Puppet) {
    puppet.ready().await;
    loop {
        let frame = puppet.receive().await;
        match frame["type"].as_str() {
            Some("interrupt") => puppet.say(interrupted(&frame["id"])).await,
            _ if frame["code"] == "ok" => puppet.done(&frame["id"]).await,
            _ => {
                puppet
                    .say(json!({"type": "stdout", "data": "so far"}))
                    .await;
            }
        }
    }
}

/// Is ready, then reacts to nothing but the code `ok`.
async fn deaf(mut puppet: Puppet) {
    puppet.ready().await;
    loop {
        let frame = puppet.receive().await;
        if frame["code"] == "ok" {
            puppet.done(&frame["id"]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_limit_interrupts_and_keeps_variables() {
    let stage = Stage::new(sleeper);
    let sessions = sessions(&stage);
    let began = Instant::now();
    let outcome = sessions.run(brief("sleep", 30), silent()).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 30);
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Kept)
    );
    assert_eq!(outcome.output.stdout.bytes, b"so far");
    assert_eq!(
        outcome.error().unwrap().message,
        "stopped after 30 s in cell 1, line 3 (time.sleep); variables are kept"
    );
    let next = sessions.run(call("ok"), silent()).await.unwrap();
    assert_eq!((next.status(), next.note()), (Status::Success, None));
    assert_eq!(stage.launched(), 1);
}

#[tokio::test(start_paused = true)]
async fn code_that_does_not_react_is_killed_and_the_next_answer_says_so_once() {
    let stage = Stage::new(deaf);
    let sessions = sessions(&stage);
    let began = Instant::now();
    let outcome = sessions.run(brief("loop", 30), silent()).await.unwrap();
    assert_eq!(began.elapsed().as_secs(), 32);
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Lost)
    );
    assert_eq!(
        outcome.error().unwrap().message,
        "stopped after 30 s: did not react within 2 s and was killed; variables are lost; a fresh session starts with the next call"
    );
    assert_eq!(stage.living(), 0);
    let next = sessions.run(call("ok"), silent()).await.unwrap();
    assert_eq!(
        (next.status(), next.state()),
        (Status::Success, State::Kept)
    );
    assert_eq!(
        next.note().as_deref(),
        Some("fresh session (the previous one was killed after a time limit)")
    );
    let third = sessions.run(call("ok"), silent()).await.unwrap();
    assert_eq!(third.note(), None);
    assert_eq!(stage.launched(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_flood_delays_neither_the_limit_nor_the_kill() {
    let stage = Stage::new(async |puppet: Puppet| {
        puppet.ready().await;
        loop {
            puppet
                .say(json!({"type": "stdout", "data": "x".repeat(500)}))
                .await;
            // Time passes only while nothing can run.
            tokio::time::advance(Duration::from_millis(10)).await;
        }
    });
    let outcome = sessions(&stage)
        .run(brief("flood", 3), silent())
        .await
        .unwrap();
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Lost)
    );
    assert_eq!(outcome.output.stdout.bytes.len(), 1000);
    assert!(
        outcome.output.stdout.dropped >= 200_000,
        "{}",
        outcome.output.stdout.dropped
    );
}

#[tokio::test(start_paused = true)]
async fn code_that_handles_the_interrupt_itself_still_reports_the_time_limit() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        loop {
            let frame = puppet.receive().await;
            if frame["type"] == "interrupt" {
                puppet.done(&frame["id"]).await;
            }
        }
    });
    let outcome = sessions(&stage)
        .run(brief("try", 1), silent())
        .await
        .unwrap();
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Kept)
    );
    let message = outcome.error().unwrap().message;
    assert!(
        message.starts_with("stopped after 1 s: the code handled the interrupt itself and ended"),
        "{message}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_read_cannot_stop_the_clock() {
    // 10 MB do not fit into its pipe, and it never reads.
    let stage = Stage::new(async |puppet: Puppet| {
        puppet.ready().await;
        std::future::pending::<()>().await;
    });
    let outcome = sessions(&stage)
        .run(brief(&"#".repeat(10 << 20), 5), silent())
        .await
        .unwrap();
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Lost)
    );
}

#[tokio::test(start_paused = true)]
async fn cancelling_interrupts_at_once_and_kills_after_the_grace_period() {
    for (script, state, seconds) in [(true, State::Kept, 7), (false, State::Lost, 9)] {
        let stage = Stage::new(move |puppet| async move {
            if script {
                sleeper(puppet).await;
            } else {
                deaf(puppet).await;
            }
        });
        let sessions = sessions(&stage);
        let cancel = CancellationToken::new();
        let request = RunRequest {
            cancel: cancel.clone(),
            ..call("sleep")
        };
        let began = Instant::now();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(7)).await;
            cancel.cancel();
        });
        let outcome = sessions.run(request, silent()).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), seconds);
        assert_eq!(
            (outcome.status(), outcome.state()),
            (Status::Cancelled, state)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_cancels_its_call() {
    let stage = Stage::new(sleeper);
    let sessions = sessions(&stage);
    let gone = tokio::time::timeout(
        Duration::from_secs(3),
        sessions.run(call("sleep"), silent()),
    );
    assert!(gone.await.is_err());
    let began = Instant::now();
    let next = sessions.run(call("ok"), silent()).await.unwrap();
    assert_eq!((next.status(), next.note()), (Status::Success, None));
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_does_not_use_up_the_note() {
    let stage = Stage::new(async |puppet: Puppet| {
        if puppet.number == 1 {
            deaf(puppet).await;
        } else {
            sleeper(puppet).await;
        }
    });
    let sessions = sessions(&stage);
    let lost = sessions.run(brief("loop", 1), silent()).await.unwrap();
    assert_eq!(lost.state(), State::Lost);
    let cancel = CancellationToken::new();
    let cancelled = RunRequest {
        cancel: cancel.clone(),
        ..call("sleep")
    };
    let (cancelled, ()) = tokio::join!(sessions.run(cancelled, silent()), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        cancel.cancel();
    });
    assert_eq!(cancelled.unwrap().status(), Status::Cancelled);
    let next = sessions.run(call("ok"), silent()).await.unwrap();
    assert!(next.note().is_some());
    let third = sessions.run(call("ok"), silent()).await.unwrap();
    assert_eq!(third.note(), None);
}

#[tokio::test(start_paused = true)]
async fn a_call_cancelled_in_the_queue_never_runs() {
    let stage = Stage::new(sleeper);
    let sessions = sessions(&stage);
    let cancel = CancellationToken::new();
    let second = RunRequest {
        cancel: cancel.clone(),
        ..call("second")
    };
    let began = Instant::now();
    let (first, second, third) = tokio::join!(
        sessions.run(brief("first", 10), silent()),
        async {
            let outcome = sessions.run(second, silent()).await;
            (outcome, began.elapsed().as_secs())
        },
        async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            cancel.cancel();
            sessions.run(call("ok"), silent()).await
        },
    );
    assert_eq!(first.unwrap().status(), Status::Timeout);
    let (second, after) = second;
    let second = second.unwrap();
    assert_eq!(
        (second.status(), second.state(), after),
        (Status::Cancelled, State::Kept, 2)
    );
    assert_eq!(
        second.error().unwrap().message,
        "cancelled before it began; nothing was run"
    );
    let third = third.unwrap();
    assert_eq!(
        (third.status(), third.output.stdout.bytes.len()),
        (Status::Success, 0)
    );
    let already = RunRequest {
        cancel,
        session: Some("other".into()),
        ..call("never")
    };
    assert_eq!(
        sessions.run(already, silent()).await.unwrap().status(),
        Status::Cancelled
    );
    assert_eq!(stage.launched(), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_cancelled_in_the_queue_make_room_for_others() {
    let stage = Stage::new(sleeper);
    let sessions = sessions(&stage);
    let cancel = CancellationToken::new();
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..70 {
        let sessions = Arc::clone(&sessions);
        let mut request = call("sleep");
        if number > 0 {
            request.cancel = cancel.clone();
        }
        waiting.spawn(async move { sessions.run(request, silent()).await });
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let refused = sessions.run(call("ok"), silent()).await;
    assert!(
        matches!(refused, Err(Error::QueueFull { .. })),
        "{refused:?}"
    );
    cancel.cancel();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let next = sessions.run(call("ok"), silent()).await.unwrap();
    assert_eq!(next.status(), Status::Success);
}
