//! Results of runs that have ended: for how long, and how many of them, can still be had.

use std::time::Duration;

use tokio::time::sleep;

use super::super::{Error, KEPT_FOR, Sessions};
use super::left_running::left;
use super::scripted::{Puppet, Stage};
use super::{call, limits, sessions, settings, silent};

#[tokio::test(start_paused = true)]
async fn results_are_kept_for_a_time_and_up_to_a_number() {
    let stage = Stage::new(Puppet::echo);
    let sessions = sessions(&stage);
    let mut ids = Vec::new();
    for number in 0..40 {
        let run = sessions.start(call(&number.to_string()), silent()).unwrap();
        run.ended().await;
        ids.push(run.id().to_owned());
    }
    let kept = |sessions: &Sessions| {
        let kept = ids.iter().filter(|id| sessions.find(id, None).is_ok());
        kept.count()
    };
    assert_eq!(kept(&sessions), 32);
    assert!(sessions.find(&ids[39], None).is_ok());
    let elsewhere = sessions.find(&ids[39], Some("other")).unwrap_err();
    assert_eq!(
        elsewhere.to_string(),
        format!(
            "run {:?} belongs to session \"default\": name that one, or none",
            ids[39]
        )
    );
    sleep(KEPT_FOR + Duration::from_secs(1)).await;
    assert_eq!(kept(&sessions), 0);
    let run = left(&sessions, call("x")).await;
    let error = sessions.find("nonsense", None).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "no run \"nonsense\": results are kept for 10 minutes; known: {:?} (ended)",
            run.id()
        )
    );
    let error = sessions.find("last", Some("quiet")).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "no run of session \"quiet\": results are kept for 10 minutes; known: {:?} (ended)",
            run.id()
        )
    );
    assert!(matches!(
        sessions.find("last", Some("a b")),
        Err(Error::BadName { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn large_results_are_kept_up_to_a_size() {
    let stage = Stage::new(Puppet::echo);
    let roomy = super::Limits {
        output_bytes: 64 << 20,
        ..limits()
    };
    let sessions = Sessions::with(stage, super::broker(None), roomy, settings());
    let mut ids = Vec::new();
    for _ in 0..5 {
        let run = sessions
            .start(call(&"x".repeat(10_000_000)), silent())
            .unwrap();
        run.ended().await;
        ids.push(run.id().to_owned());
    }
    let kept: Vec<bool> = ids
        .iter()
        .map(|id| sessions.find(id, None).is_ok())
        .collect();
    assert_eq!(kept, [false, false, true, true, true]);
}
