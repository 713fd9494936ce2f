//! Guests that lie, flood or break the protocol: a typed end each time, never a hang, and the next
//! call works.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::{Error, RunOutcome, State, Status};
use super::scripted::{Puppet, Stage, ready_frame};
use super::told::RunError;
use super::{call, sessions, silent};

/// Runs one call against a first guest that does `act` once it has heard an execution, then a
/// second one against its successor, an honest guest.
pub(super) async fn struck<F, R>(act: F) -> (RunOutcome, RunOutcome)
where
    F: Fn(Puppet, Value) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let act = Arc::new(act);
    let stage = Stage::new(move |mut puppet: Puppet| {
        let act = Arc::clone(&act);
        async move {
            if puppet.number > 1 {
                return puppet.echo().await;
            }
            puppet.ready().await;
            let id = puppet.receive().await["id"].clone();
            act(puppet, id).await;
        }
    });
    let sessions = sessions(&stage);
    let first = sessions.run(call("first"), silent()).await.unwrap();
    let second = sessions.run(call("second"), silent()).await.unwrap();
    assert_eq!(second.status(), Status::Success);
    assert_eq!(second.output.stdout.bytes, b"second");
    sessions.shutdown().await;
    assert_eq!(stage.living(), 0);
    (first, second)
}

pub(super) fn error(outcome: &RunOutcome, status: Status, state: State) -> RunError {
    assert_eq!((outcome.status(), outcome.state()), (status, state));
    outcome.error().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_broken_protocol_kills_the_guest_and_names_the_breach() {
    let check = async |bytes: Vec<u8>, what: &str| {
        let began = Instant::now();
        let (first, second) = struck(move |puppet, _| {
            let bytes = bytes.clone();
            async move {
                for piece in bytes.chunks(64 << 10) {
                    puppet.write(piece.to_vec()).await;
                }
                puppet.hold().await;
            }
        })
        .await;
        assert!(began.elapsed() < Duration::from_secs(1));
        let error = error(&first, Status::Error, State::Lost);
        assert_eq!(error.kind, "protocol");
        assert_eq!(
            error.message,
            format!("the sandbox broke its protocol ({what}) and was killed; variables are lost")
        );
        assert_eq!(
            second.note().as_deref(),
            Some("fresh session (the previous one was killed because it broke its protocol)")
        );
    };
    check(b"junk\n".to_vec(), "a malformed frame").await;
    check(b"\xff\xfe\n".to_vec(), "a malformed frame").await;
    check(b"\n".to_vec(), "a malformed frame").await;
    check(
        br#"{"type":"stdout"}"#.iter().chain(b"\n").copied().collect(),
        "a frame without its data",
    )
    .await;
    check(
        vec![b' '; (16 << 20) + 1],
        "a frame of more than 16777216 bytes",
    )
    .await;
    check(
        "{\"type\":\"spam\"}\n".repeat(10_001).into_bytes(),
        "a flood of meaningless frames",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_forged_end_ends_its_own_run_only() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        let first = puppet.receive().await["id"].clone();
        puppet.done(&first).await;
        puppet.done(&first).await;
        let second = puppet.receive().await["id"].clone();
        puppet.done(&first).await;
        puppet.done(&json!(99)).await;
        puppet.say(ready_frame()).await;
        puppet.say(json!({"type": "unheard_of", "id": "x"})).await;
        puppet
            .say(json!({"type": "stdout", "data": "second"}))
            .await;
        puppet.done(&second).await;
        puppet.hold().await;
    });
    let sessions = sessions(&stage);
    let first = sessions.run(call("forges"), silent()).await.unwrap();
    assert_eq!(
        (first.status(), first.output.stdout.bytes.len()),
        (Status::Success, 0)
    );
    let second = sessions.run(call("honest"), silent()).await.unwrap();
    assert_eq!(second.status(), Status::Success);
    assert_eq!(second.output.stdout.bytes, b"second");
    assert_eq!(stage.launched(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_that_nobody_sent_is_an_error_of_the_code() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        let id = puppet.receive().await["id"].clone();
        let done = json!({"type": "execution_done", "id": id, "status": "interrupted", "where": "cell 1, line 1"});
        puppet.say(done).await;
        puppet.hold().await;
    });
    let outcome = sessions(&stage).run(call("raise"), silent()).await.unwrap();
    assert_eq!(
        error(&outcome, Status::Error, State::Kept).kind,
        "KeyboardInterrupt"
    );
}

#[tokio::test(start_paused = true)]
async fn the_host_has_its_own_limit_on_output_and_adds_what_the_guest_dropped() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        let id = puppet.receive().await["id"].clone();
        puppet
            .say(json!({"type": "stdout", "data": "x".repeat(1500)}))
            .await;
        puppet
            .say(json!({"type": "stderr", "base64": "//4A"}))
            .await;
        puppet
            .say(json!({"type": "dropped", "stdout": 7, "stderr": u64::MAX}))
            .await;
        puppet
            .say(json!({"type": "dropped", "stdout": 0, "stderr": u64::MAX}))
            .await;
        puppet.done(&id).await;
        puppet.hold().await;
    });
    let outcome = sessions(&stage).run(call("print"), silent()).await.unwrap();
    assert_eq!(
        (
            outcome.output.stdout.bytes.len(),
            outcome.output.stdout.dropped
        ),
        (1000, 507)
    );
    assert_eq!(
        (
            outcome.output.stderr.bytes.as_slice(),
            outcome.output.stderr.dropped
        ),
        (&b"\xff\xfe\0"[..], u64::MAX)
    );
}

#[tokio::test(start_paused = true)]
async fn long_texts_are_cut() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        let id = puppet.receive().await["id"].clone();
        let long = "\u{e9}".repeat(1 << 20);
        puppet
            .say(json!({
                "type": "execution_done", "id": id, "status": "error", "result": {"repr": long},
                "error": {"type": format!("A\n{long}"), "message": long, "traceback": long},
            }))
            .await;
        puppet.hold().await;
    });
    let outcome = sessions(&stage).run(call("x"), silent()).await.unwrap();
    assert_eq!(
        outcome.ending.result().map(str::len),
        Some(1000 + "... (2096152 bytes left out)".len())
    );
    let error = error(&outcome, Status::Error, State::Kept);
    assert!(error.kind.starts_with("A é") && error.kind.len() < 300);
    assert!(error.message.len() < 17 << 10);
    assert!(error.traceback.len() < 65 << 10);
}

#[tokio::test(start_paused = true)]
async fn output_between_two_runs_comes_with_the_next_answer_up_to_a_limit() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        let id = puppet.receive().await["id"].clone();
        puppet.done(&id).await;
        puppet.say(json!({"type": "stdout", "data": "late "})).await;
        let id = puppet.receive().await["id"].clone();
        puppet
            .say(json!({"type": "stdout", "data": "on time"}))
            .await;
        puppet.done(&id).await;
        puppet.hold().await;
    });
    let sessions = sessions(&stage);
    let first = sessions.run(call("thread"), silent()).await.unwrap();
    assert_eq!(first.output.stdout.bytes, b"");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = sessions.run(call("next"), silent()).await.unwrap();
    assert_eq!(second.output.stdout.bytes, b"late on time");
}

#[tokio::test(start_paused = true)]
async fn an_idle_guest_that_floods_is_no_longer_read_and_the_session_lives() {
    let written = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&written);
    let stage = Stage::new(move |mut puppet: Puppet| {
        let written = Arc::clone(&counter);
        async move {
            puppet.ready().await;
            let id = puppet.receive().await["id"].clone();
            puppet.done(&id).await;
            for _ in 0..3000 {
                puppet
                    .say(json!({"type": "stdout", "data": "x".repeat(1000)}))
                    .await;
                written.fetch_add(1000, Ordering::SeqCst);
            }
            let id = puppet.receive().await["id"].clone();
            puppet.done(&id).await;
            puppet.hold().await;
        }
    });
    let sessions = sessions(&stage);
    sessions.run(call("thread"), silent()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let while_idle = written.load(Ordering::SeqCst);
    assert!((1_000_000..1_200_000).contains(&while_idle), "{while_idle}");
    let next = sessions.run(call("next"), silent()).await.unwrap();
    assert_eq!((next.status(), next.note()), (Status::Success, None));
    assert_eq!(
        next.output.stdout.bytes.len() as u64 + next.output.stdout.dropped,
        3_000_000
    );
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_bridge_costs_one_session_only() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        if puppet.number != 2 {
            return puppet.echo().await;
        }
        puppet.ready().await;
        puppet.receive().await;
        puppet.write(super::scripted::PANIC).await;
        puppet.hold().await;
    });
    let sessions = sessions(&stage);
    let other = || super::named("other", "x");
    sessions.run(other(), silent()).await.unwrap();
    let failed = sessions.run(call("x"), silent()).await;
    assert!(matches!(failed, Err(Error::Bug { .. })), "{failed:?}");
    assert_eq!(stage.living(), 1);
    let other = sessions.run(other(), silent()).await.unwrap();
    assert_eq!((other.status(), other.note()), (Status::Success, None));
    let next = sessions.run(call("x"), silent()).await.unwrap();
    assert_eq!(
        next.note().as_deref(),
        Some("fresh session (the previous one was lost by an internal error of the bridge)")
    );
}

#[tokio::test(start_paused = true)]
async fn unread_answers_do_not_pile_up() {
    let stage = Stage::new(async |puppet: Puppet| {
        puppet.ready().await;
        // The first call of a session has number 1; nobody needs to read that.
        tokio::time::sleep(Duration::from_secs(1)).await;
        puppet.done(&json!(1)).await;
        puppet.hold().await;
    });
    let large = call(&"#".repeat(1 << 20));
    let outcome = sessions(&stage).run(large, silent()).await.unwrap();
    let error = error(&outcome, Status::Error, State::Lost);
    assert!(
        error.message.contains("stopped reading its input"),
        "{}",
        error.message
    );
    assert_eq!(stage.living(), 0);
}
