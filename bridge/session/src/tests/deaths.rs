//! Guests that die, or pretend to: reported with the true reason, never a hang, and the next call
//! works.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::{Error, State, Status};
use super::hostile::{error, struck};
use super::scripted::{Puppet, Stage, ready_frame};
use super::{call, sessions, silent};

#[tokio::test(start_paused = true)]
async fn a_guest_that_dies_is_reported_with_its_reason() {
    let check = async |code: i64, out_of_memory: bool, kind: &str, message: &str, note: &str| {
        for silently in [false, true] {
            let (first, second) = struck(move |puppet, _| async move {
                puppet
                    .say(json!({"type": "stdout", "data": "so far"}))
                    .await;
                if silently {
                    puppet.end_silently(code, out_of_memory);
                } else {
                    puppet.end(code, out_of_memory).await;
                }
            })
            .await;
            assert_eq!(first.output.stdout.bytes, b"so far");
            assert_eq!(first.ending.exit_code(), Some(code));
            let error = error(&first, Status::Error, State::Lost);
            assert_eq!(
                (error.kind.as_str(), error.message.as_str()),
                (kind, message)
            );
            assert_eq!(second.note().as_deref(), Some(note));
        }
    };
    check(
        139,
        false,
        "guest_exit",
        "the Python process ended: exit 139 (SIGSEGV); variables are lost",
        "fresh session (the previous one ended: exit 139 (SIGSEGV))",
    )
    .await;
    check(
        0,
        false,
        "guest_exit",
        "the Python process ended: exit 0; variables are lost",
        "fresh session (the previous one ended: exit 0)",
    )
    .await;
    check(
        137,
        true,
        "memory_limit",
        "killed: memory limit 512 MiB reached; variables are lost",
        "fresh session (the previous one was killed at its memory limit)",
    )
    .await;
    check(
        137,
        false,
        "memory_limit",
        "killed (exit 137, SIGKILL), probably at the memory limit of 512 MiB; variables are lost",
        "fresh session (the previous one was killed with SIGKILL, probably at its memory limit)",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn sigkill_is_not_blamed_on_memory_where_the_guest_knows_better_or_no_limit_holds() {
    let (first, _) = struck(async |puppet: Puppet, _| {
        puppet
            .say(json!({"type": "exit", "code": 137, "out_of_memory": false}))
            .await;
        puppet.end_silently(137, false);
    })
    .await;
    let told = error(&first, Status::Error, State::Lost);
    assert_eq!(
        told.message,
        "the Python process ended: exit 137 (SIGKILL); variables are lost"
    );

    let stage = Stage::new(async |mut puppet: Puppet| {
        let mut unlimited = ready_frame();
        unlimited["report"]["memory_max"] = Value::Null;
        puppet.say(unlimited).await;
        puppet.receive().await;
        puppet.end(137, false).await;
    });
    let outcome = sessions(&stage).run(call("die"), silent()).await.unwrap();
    assert_eq!(
        error(&outcome, Status::Error, State::Lost).kind,
        "guest_exit"
    );
}

#[tokio::test(start_paused = true)]
async fn last_words_of_the_interpreter_are_passed_on() {
    let (first, _) = struck(async |puppet: Puppet, _| {
        puppet.complain("Fatal Python error: no frame\n").await;
        puppet.end(134, false).await;
    })
    .await;
    let told = error(&first, Status::Error, State::Lost);
    assert!(
        told.message
            .ends_with("its last words: Fatal Python error: no frame"),
        "{}",
        told.message
    );
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_goes_away_is_not_the_code_s_fault() {
    let (first, second) = struck(async |puppet: Puppet, _| {
        puppet.lose().await;
        puppet.hold().await;
    })
    .await;
    assert_eq!(
        error(&first, Status::Error, State::Lost).kind,
        "engine_lost"
    );
    assert_eq!(
        second.note().as_deref(),
        Some("fresh session (the previous one was lost with its container engine)")
    );
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_only_pretends_to_end_is_killed() {
    let (first, _) = struck(async |puppet: Puppet, _| {
        puppet.say(json!({"type": "exit", "code": 0})).await;
        puppet.hold().await;
    })
    .await;
    let told = error(&first, Status::Error, State::Lost);
    assert!(
        told.message.contains("announced its end but kept running"),
        "{}",
        told.message
    );

    let (first, _) = struck(async |puppet: Puppet, _| puppet.close_output().await).await;
    let told = error(&first, Status::Error, State::Lost);
    assert!(
        told.message.contains("closed its output and went on"),
        "{}",
        told.message
    );
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_dies_of_its_interrupt_is_over_time_and_lost() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        puppet.receive().await;
        puppet.receive().await;
        puppet.end(139, false).await;
    });
    let outcome = sessions(&stage).run(call("loop"), silent()).await.unwrap();
    assert_eq!(
        error(&outcome, Status::Timeout, State::Lost).message,
        "stopped after 30 s; the Python process ended: exit 139 (SIGSEGV); variables are lost"
    );
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_dies_or_breaks_the_protocol_while_idle_is_noticed() {
    for (junk, note) in [
        (
            true,
            "fresh session (the previous one was killed because it broke its protocol)",
        ),
        (
            false,
            "fresh session (the previous one ended: exit 139 (SIGSEGV))",
        ),
    ] {
        let stage = Stage::new(move |mut puppet: Puppet| async move {
            if puppet.number > 1 {
                return puppet.echo().await;
            }
            puppet.ready().await;
            let id = puppet.receive().await["id"].clone();
            puppet.done(&id).await;
            if junk {
                puppet.write("junk\n").await;
                puppet.hold().await;
            } else {
                puppet.end(139, false).await;
            }
        });
        let sessions = sessions(&stage);
        sessions.run(call("x"), silent()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(stage.living(), 0);
        let next = sessions.run(call("y"), silent()).await.unwrap();
        assert_eq!(next.note().as_deref(), Some(note));
    }
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_closes_its_input_is_read_to_the_end_and_killed() {
    let began = Instant::now();
    let stage = Stage::new(async |puppet: Puppet| {
        puppet.ready().await;
        puppet.close_input().await;
    });
    let outcome = sessions(&stage).run(call("x"), silent()).await.unwrap();
    assert_eq!(error(&outcome, Status::Error, State::Lost).kind, "protocol");
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_a_guest_that_pretends_to_end() {
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        puppet.receive().await;
        puppet.say(json!({"type": "exit", "code": 0})).await;
        puppet.hold().await;
    });
    let sessions = sessions(&stage);
    let (answer, took) = tokio::join!(sessions.run(call("x"), silent()), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = Instant::now();
        sessions.shutdown().await;
        began.elapsed()
    });
    assert!(matches!(answer, Err(Error::ShuttingDown)), "{answer:?}");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(stage.living(), 0);
}
