//! Guests that send anything in any order, and callers that come and go: all are answered in time,
//! nothing is left.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::{Error, RunRequest, Status};
use super::scripted::{Puppet, Stage, ready_frame};
use super::{call, named, sessions, silent};

/// One thing that a hostile guest may do.
#[derive(Debug, Clone)]
enum Act {
    Write(String),
    Receive,
    Wait(u64),
    Close,
    End(i64),
}

fn act() -> impl Strategy<Value = Act> {
    let frame = prop_oneof![
        (0u64..5, "success|error|interrupted|odd")
            .prop_map(|(id, status)| json!({"type": "execution_done", "id": id, "status": status})),
        Just(ready_frame()),
        "stdout|stderr|other".prop_map(|kind| json!({"type": kind, "data": "x"})),
        any::<u64>().prop_map(|count| json!({"type": "dropped", "stdout": count})),
        (0i64..256).prop_map(|code| json!({"type": "exit", "code": code})),
    ];
    prop_oneof![
        6 => frame.prop_map(|frame| Act::Write(format!("{frame}\n"))),
        1 => "[ -~]{0,20}\n?".prop_map(Act::Write),
        2 => Just(Act::Receive),
        1 => (0u64..40).prop_map(Act::Wait),
        1 => Just(Act::Close),
        1 => (0i64..256).prop_map(Act::End),
    ]
}

async fn perform(mut puppet: Puppet, acts: Vec<Act>) {
    puppet.ready().await;
    for act in acts {
        match act {
            Act::Write(text) => puppet.write(text).await,
            Act::Receive => {
                puppet.receive().await;
            }
            Act::Wait(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            Act::Close => return puppet.close_output().await,
            Act::End(code) => return puppet.end(code, false).await,
        }
    }
    puppet.hold().await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_a_guest_does_each_call_is_answered_in_time(acts in prop::collection::vec(act(), 0..12)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let stage = Stage::new(move |puppet| perform(puppet, acts.clone()));
            let sessions = sessions(&stage);
            for _ in 0..3 {
                let began = Instant::now();
                match sessions.run(call("x"), silent()).await {
                    Ok(outcome) => assert!((outcome.status() == Status::Success) != outcome.error().is_some()),
                    Err(error) => assert!(matches!(error, Error::Launch(_)), "{error}"),
                }
                // The end of a guest that only pretended to end before, the limit, the grace
                // period, and an end again.
                assert!(began.elapsed() <= Duration::from_secs(5 + 30 + 2 + 5), "{:?}", began.elapsed());
            }
            sessions.shutdown().await;
            assert_eq!(stage.living(), 0);
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_callers_on_many_threads_are_all_answered() {
    let stage = Stage::new(Puppet::echo);
    let sessions = sessions(&stage);
    let mut callers = JoinSet::new();
    for number in 0..600 {
        let sessions = Arc::clone(&sessions);
        callers.spawn(async move {
            let cancel = CancellationToken::new();
            let code = format!("call {number}");
            let request = RunRequest {
                cancel: cancel.clone(),
                reset: number % 50 == 0,
                ..named(["a", "b", "c"][number % 3], &code)
            };
            if number % 7 == 0 {
                tokio::spawn(async move { cancel.cancel() });
            }
            match sessions.run(request, silent()).await {
                Ok(outcome) if outcome.status() == Status::Success => {
                    assert_eq!(outcome.output.stdout.bytes, code.into_bytes());
                    1
                }
                Ok(outcome) => {
                    assert_eq!((outcome.status(), number % 7), (Status::Cancelled, 0));
                    0
                }
                Err(error) => {
                    assert!(matches!(error, Error::QueueFull { .. }), "{error}");
                    0
                }
            }
        });
    }
    let succeeded: usize = callers.join_all().await.into_iter().sum();
    assert!(succeeded > 0);
    sessions.shutdown().await;
    assert_eq!(stage.living(), 0);
}
