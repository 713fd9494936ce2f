//! The spare guest: never before the first run, always a verified one, gone with the last session.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::super::{LaunchError, RunRequest, Sessions, Status};
use super::scripted::{Puppet, Stage};
use super::{SessionSettings, call, named, sessions_with, settings, silent};

fn sessions(stage: &Arc<Stage>) -> Arc<Sessions> {
    sessions_with(
        stage,
        SessionSettings {
            spare: true,
            ..settings()
        },
    )
}

/// Starts take a second.
fn stage() -> Arc<Stage> {
    Stage::with_before(
        Box::new(|_, _| {
            Box::pin(async {
                sleep(Duration::from_secs(1)).await;
                Ok(())
            })
        }),
        Puppet::echo,
    )
}

#[tokio::test(start_paused = true)]
async fn the_spare_is_there_for_the_next_session_and_for_a_reset() {
    let stage = stage();
    let sessions = sessions(&stage);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(stage.launched(), 0);
    sessions.run(call("x"), silent()).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!((stage.launched(), stage.living()), (2, 2));
    // Whose it will be is not known, and a label cannot be changed.
    let labels = [Some("default".to_owned()), None];
    assert_eq!(*stage.labels.lock().unwrap(), labels);
    let began = Instant::now();
    let outcome = sessions.run(named("b", "x"), silent()).await.unwrap();
    assert_eq!((outcome.status(), outcome.note()), (Status::Success, None));
    assert!(began.elapsed() < Duration::from_millis(100));
    sleep(Duration::from_secs(60)).await;
    assert_eq!((stage.launched(), stage.living()), (3, 3));
    let began = Instant::now();
    let reset = RunRequest {
        reset: true,
        ..call("x")
    };
    sessions.run(reset, silent()).await.unwrap();
    assert!(began.elapsed() < Duration::from_millis(100));
    sessions.shutdown().await;
    assert_eq!(stage.living(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_spare_that_is_still_starting_is_waited_for() {
    let stage = stage();
    let sessions = sessions(&stage);
    sessions.run(call("x"), silent()).await.unwrap();
    sleep(Duration::from_millis(400)).await;
    let began = Instant::now();
    sessions.run(named("b", "x"), silent()).await.unwrap();
    assert_eq!(began.elapsed().as_millis(), 600);
}

#[tokio::test(start_paused = true)]
async fn a_spare_that_died_or_failed_is_replaced_unseen() {
    for fails in [true, false] {
        let stage = Stage::with_before(
            Box::new(move |number, _| {
                Box::pin(async move {
                    if number == 2 && fails {
                        return Err(LaunchError {
                            code: "E0",
                            message: "no".into(),
                        });
                    }
                    Ok(())
                })
            }),
            async |puppet: Puppet| {
                if puppet.number == 2 {
                    puppet.ready().await;
                    return puppet.end(1, false).await;
                }
                puppet.echo().await;
            },
        );
        let sessions = sessions(&stage);
        sessions.run(call("x"), silent()).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        let outcome = sessions.run(named("b", "x"), silent()).await.unwrap();
        assert_eq!((outcome.status(), outcome.note()), (Status::Success, None));
    }
}

#[tokio::test(start_paused = true)]
async fn the_spare_is_discarded_with_the_last_session() {
    let stage = stage();
    let sessions = sessions(&stage);
    sessions.run(call("x"), silent()).await.unwrap();
    sleep(Duration::from_secs(1000)).await;
    assert_eq!(stage.living(), 2);
    sleep(Duration::from_secs(1000)).await;
    assert_eq!(stage.living(), 0);
}
