//! Runs that outlive their call can be read, cancelled and found again, may be lost with their
//! guest, and leave nothing behind.

use integration_tests::bridge::Builder;
use integration_tests::{Answer, Bridge, EngineUnderTest, each_engine, limit, sdk};
use serde_json::{Value, json};

/// Code that waits for a file that the test makes, and prints a line before and after.
const WAITS: &str = "import os, time\nprint('begun', flush=True)\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\nprint('went on')\nx = 42";

/// Asserts that the run goes on and returns its name.
#[track_caller]
fn running(answer: &Answer) -> Value {
    assert_eq!(answer.status(), "running", "{:#}", answer.0);
    assert_eq!(answer.0["isError"], false, "{:#}", answer.0);
    let run = answer.field("run").clone();
    let told = format!("run={run}");
    assert!(answer.text().contains(&told), "{}", answer.text());
    run
}

/// Polls the run until its output, with `so_far` in front, is `wanted`.
fn read_until(bridge: &mut Bridge, run: &Value, mut so_far: String, wanted: &str) {
    for _ in 0..1000 {
        if so_far == wanted {
            return;
        }
        let answer = bridge.call(&json!({"run": run, "yield_after": 0.05}));
        so_far.push_str(answer.stdout());
    }
    panic!("{wanted:?} was not written, but {so_far:?}");
}

fn yielded_run_goes_on_and_can_be_read(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    bridge.run("x = 0").succeeded();
    let answer = bridge.call(&json!({"code": WAITS, "yield_after": 0.2}));
    let run = running(&answer);
    read_until(&mut bridge, &run, answer.stdout().to_owned(), "begun\n");
    // Another session is free, while this one is busy for as long as a call may take.
    let other = bridge.call(&json!({"code": "print('other')", "session": "other"}));
    assert_eq!(other.succeeded(), "other\n");
    let behind = bridge.call(&json!({"code": "open('/tmp/go', 'w')", "timeout": 1}));
    behind.failed(
        "timeout",
        &format!("run {run} of this session is still running"),
    );
    assert_eq!(behind.state(), "kept");
    let answer = bridge.call(&json!({"run": run, "cancel": true}));
    answer.failed("cancelled", "variables are kept");
    assert_eq!(answer.stdout(), "", "the output was read before");
    assert_eq!(bridge.run("print(x)").succeeded(), "0\n");

    // The answer of a run can be read again by its name and as `last`.
    for id in [run, json!("last")] {
        let again = bridge.call(&json!({"run": id, "timeout": 5}));
        assert_eq!(again.stdout(), if id == "last" { "0\n" } else { "begun\n" });
    }
    bridge
        .call(&json!({"run": "nonsense"}))
        .failed("validation_error", "no run");
    let pid = bridge.pid();
    bridge.finish();
    engine.assert_nothing_left_of(pid);
}

fn yielded_run_ends_by_itself(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let code = "import threading, time\nthreading.Timer(0.5, lambda: open('/tmp/go', 'w').close()).start()\n";
    let answer = bridge.call(&json!({"code": format!("{code}{WAITS}\nx"), "yield_after": 0}));
    let run = running(&answer);
    let so_far = answer.stdout().to_owned();
    let end = bridge.call(&json!({"run": run}));
    assert_eq!(so_far + end.succeeded(), "begun\nwent on\n");
    assert_eq!(end.field("result"), "42");
    assert_eq!(bridge.run("print(x)").succeeded(), "42\n");
}

fn later_poll_reports_time_limit_or_death_of_the_guest(engine: &EngineUnderTest) {
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_GRACE", "300ms")
        .start();
    bridge.run("kept = 1").succeeded();
    let loops =
        json!({"code": "while True: pass", "yield_after": 0, "timeout": limit(1).as_secs()});
    let run = running(&bridge.call(&loops));
    bridge
        .call(&json!({"run": run}))
        .failed("timeout", "variables are kept");
    let deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint(kept, flush=True)\nwhile True: pass";
    let answer = bridge.call(&json!({"code": deaf, "yield_after": 0}));
    let run = running(&answer);
    read_until(&mut bridge, &run, answer.stdout().to_owned(), "1\n");
    let answer = bridge.call(&json!({"run": run, "cancel": true}));
    answer.failed("cancelled", "variables are lost");
    assert_eq!(answer.state(), "lost");
    let dies = json!({"code": "import os\nos._exit(3)", "yield_after": 0});
    let answer = bridge.call(&dies);
    let answer = if answer.status() == "running" {
        bridge.call(&json!({"run": answer.field("run")}))
    } else {
        answer
    };
    answer.failed("error", "exit 3");
    assert!(
        bridge.run("1").text().contains("fresh session"),
        "it is told after a run that was left running too"
    );
}

fn reset_ends_a_yielded_run(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let run = running(&bridge.call(&json!({"code": "x = 1\nwhile True: pass", "yield_after": 0})));
    let answer = bridge.call(&json!({"code": "print('x' in globals())", "reset": true}));
    assert_eq!(answer.succeeded(), "False\n");
    bridge
        .call(&json!({"run": run}))
        .failed("cancelled", "cancelled");
}

fn output_of_a_cancelled_call_can_be_read(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let id =
        bridge.begin(&json!({"code": "print('so far', flush=True)\nimport time\ntime.sleep(100)"}));
    bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "test"}}));
    let answer = bridge.call(&json!({"run": "last"}));
    answer.failed("cancelled", "variables are kept");
    let shown = answer.stdout();
    assert!(shown == "so far\n" || shown.is_empty(), "{shown:?}");
}

fn end_of_the_client_ends_its_yielded_runs(engine: &EngineUnderTest) {
    for how in ["close", "SIGTERM", "SIGKILL"] {
        let mut bridge = Bridge::on(engine);
        let code = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
        running(&bridge.call(&json!({"code": code, "yield_after": 0.5})));
        let pid = bridge.pid();
        match how {
            "close" => bridge.close_input(),
            "SIGTERM" => bridge.signal(15),
            _ => bridge.signal(9),
        }
        bridge.wait(limit(10));
        engine.assert_nothing_left_of(pid);
    }
}

fn heavy_official_client_with_tasks(engine: &EngineUnderTest) {
    let arguments = ["--engine", &engine.address];
    let told = sdk::job(Builder::new(Some(engine)), "long_runs_job.py", &arguments);
    assert!(told.contains(" 0 failed"), "{told}");
}

each_engine!(
    yielded_run_goes_on_and_can_be_read,
    yielded_run_ends_by_itself,
    later_poll_reports_time_limit_or_death_of_the_guest,
    reset_ends_a_yielded_run,
    output_of_a_cancelled_call_can_be_read,
    end_of_the_client_ends_its_yielded_runs,
    heavy_official_client_with_tasks,
);
