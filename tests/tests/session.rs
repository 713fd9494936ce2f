//! What becomes of variables: they are kept over calls and interrupts, lost with the guest, and
//! never shared between sessions.

use std::time::{Duration, Instant};

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, Kind, each_engine, limit, until};
use serde_json::json;

fn keeps_variables_over_calls(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    bridge
        .run("x = 41\nimport math\ndef double(n): return 2 * n")
        .succeeded();
    assert_eq!(
        bridge
            .run("x += 1\nprint(double(x), math.floor(2.5))")
            .succeeded(),
        "84 2\n"
    );
    let answer = bridge.run("print('before')\nraise KeyError('price')");
    answer.failed("error", "KeyError: 'price'");
    assert_eq!(answer.stdout(), "before\n");
    assert!(
        answer.text().contains("line 2, in <module>"),
        "user frames are shown: {}",
        answer.text()
    );
    assert!(
        !answer.text().contains("/opt/guest"),
        "only user frames are shown: {}",
        answer.text()
    );
    assert_eq!(bridge.run("print(x)").succeeded(), "42\n");
    assert_eq!(
        bridge
            .run("import asyncio\nawait asyncio.sleep(0)\nprint(await asyncio.sleep(0, 'woke'))")
            .succeeded(),
        "woke\n"
    );
}

fn answer_says_how_the_code_ended(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    bridge.run("import sys; sys.exit()").succeeded();
    let answer = bridge.run("import sys; sys.exit(3)");
    assert_eq!(
        answer.failed("error", "exit: 3").field("exitCode"),
        &json!(3)
    );
    bridge.run("def f(:\n  pass").failed("error", "SyntaxError");
    bridge.run("input()").failed("error", "EOFError");
    assert_eq!(bridge.run("print(__name__); import sys; print(sys.modules['__main__'] is sys.modules[__name__])").succeeded(), "__main__\nTrue\n");
}

/// A time limit for a call, in seconds, that a slow machine can keep.
fn seconds(wanted: u64) -> u64 {
    limit(wanted).as_secs()
}

fn interrupted_code_keeps_variables(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    bridge.run("kept = 'still here'").succeeded();
    let looping = "print('looping', flush=True)\nwhile True: pass";
    let answer = bridge.call(&json!({"code": looping, "timeout": seconds(2)}));
    answer.failed("timeout", "variables are kept");
    assert_eq!((answer.stdout(), answer.state()), ("looping\n", "kept"));
    let answer =
        bridge.call(&json!({"code": "import time\ntime.sleep(60)", "timeout": seconds(1)}));
    answer.failed("timeout", "line 2");
    assert_eq!(bridge.run("print(kept)").succeeded(), "still here\n");
}

fn killed_guest_reports_lost_variables(engine: &EngineUnderTest) {
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_GRACE", "300ms")
        .start();
    bridge.run("lost = 1").succeeded();
    let deaf = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf', flush=True)\nwhile True: pass";
    let answer = bridge.call(&json!({"code": deaf, "timeout": seconds(2)}));
    answer.failed("timeout", "variables are lost");
    assert_eq!((answer.stdout(), answer.state()), ("deaf\n", "lost"));
    let next = bridge.run("print('lost' in globals())");
    assert_eq!(next.succeeded(), "False\n");
    assert!(
        next.text().contains("fresh session"),
        "it is said once: {}",
        next.text()
    );
    assert!(
        !bridge.run("1").text().contains("fresh session"),
        "it is said only once"
    );
}

fn dead_guest_is_an_error_with_a_reason(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    for (code, reason) in [
        ("import os\nos._exit(3)", "3"),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
            "137",
        ),
        ("import ctypes\nctypes.string_at(0)", "SIGSEGV"),
        (
            "import os, signal\nos.kill(1, signal.SIGKILL)\nos.abort()",
            "SIGABRT",
        ),
    ] {
        let answer = bridge.run(&format!("print('last words', flush=True)\n{code}"));
        answer.failed("error", reason);
        assert_eq!(
            (answer.stdout(), answer.state()),
            ("last words\n", "lost"),
            "{code}"
        );
        assert_eq!(bridge.run("print('again')").succeeded(), "again\n");
    }
}

fn cancelled_call_is_interrupted_at_once(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    bridge.run("kept = 7").succeeded();
    let id = bridge.begin(&json!({"code": "import time\ntime.sleep(100)", "timeout": 100}));
    bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "test"}}));
    let next = bridge.ask_run(&json!({"code": "print(kept)"}));
    assert_eq!(bridge.answer(next, limit(10)).succeeded(), "7\n");
}

fn queued_call_can_be_cancelled(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    bridge.run("seen = []").succeeded();
    let first = bridge.begin(&json!({"code": "import time\ntime.sleep(3)\nseen.append('first')"}));
    let second = bridge.ask_run(&json!({"code": "seen.append('second')"}));
    let third = bridge.ask_run(&json!({"code": "print(seen)"}));
    bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": second}}));
    bridge.answer(first, limit(20)).succeeded();
    assert_eq!(bridge.answer(third, limit(20)).succeeded(), "['first']\n");
}

fn two_calls_in_one_session_run_one_after_the_other(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let code = |name: &str| {
        format!(
            "import time\nowner = '{name}'\nfor _ in range(20):\n    time.sleep(0.005)\n    assert owner == '{name}'\n    print('{name}')"
        )
    };
    let ids: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|name| bridge.ask_run(&json!({"code": code(name)})))
        .collect();
    for (id, name) in ids.into_iter().zip(["a", "b", "c"]) {
        assert_eq!(
            bridge.answer(id, limit(40)).succeeded(),
            format!("{name}\n").repeat(20)
        );
    }
}

fn sessions_share_nothing(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let call = |bridge: &mut Bridge, session: &str, code: &str| {
        bridge.call(&json!({"code": code, "session": session}))
    };
    call(
        &mut bridge,
        "one",
        "x = 1\nopen('/tmp/a', 'w').write('1')\nopen('/workspace/b', 'w').write('2')",
    )
    .succeeded();
    call(&mut bridge, "two", "print(x)").failed("error", "NameError");
    assert_eq!(
        call(
            &mut bridge,
            "two",
            "import os\nprint(os.listdir('/tmp'), os.listdir('/workspace'))"
        )
        .succeeded(),
        "[] ['out']\n"
    );
    assert_eq!(
        call(
            &mut bridge,
            "one",
            "print(x, open('/tmp/a').read(), open('/workspace/b').read())"
        )
        .succeeded(),
        "1 1 2\n"
    );
    bridge.run("print('x' in globals())").succeeded();
}

fn reset_clears_variables(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    bridge
        .run("x = 1\nopen('/tmp/a', 'w').write('1')")
        .succeeded();
    let answer = bridge.call(
        &json!({"code": "import os\nprint('x' in globals(), os.listdir('/tmp'))", "reset": true}),
    );
    assert_eq!(answer.succeeded(), "False []\n");
}

fn sessions_over_the_limit_are_rejected(engine: &EngineUnderTest) {
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_MAX_SESSIONS", "2")
        .variable("MCP_BRIDGE_SPARE", "off")
        .start();
    for session in ["one", "two"] {
        bridge
            .call(&json!({"code": "x = 1", "session": session}))
            .succeeded();
    }
    // An idle session may end for the new one, or the new one is rejected, but there is never a
    // third container.
    let _ = bridge.call(&json!({"code": "x = 1", "session": "three"}));
    let owned = engine.containers_of(bridge.pid());
    assert!(owned.len() <= 2, "two sessions, not {}", owned.len());
}

/// Podman's own wait for a container polls, which would keep a processor busy as long as it lives.
fn idle_session_does_not_keep_podman_busy(kind: Kind) {
    let Some(engine) = EngineUnderTest::private(kind) else {
        return;
    };
    engine.ensure_image();
    let mut bridge = Bridge::on(&engine);
    bridge.run("x = 1").succeeded();
    // The spare guest is made after the first call, so wait until the engine is quiet.
    until(limit(20), "the engine to rest beside idle guests", || {
        let (before, since) = (engine.processor_time(), Instant::now());
        while since.elapsed() < Duration::from_secs(1) {
            std::thread::park_timeout(Duration::from_secs(1));
        }
        let used = engine.processor_time().saturating_sub(before);
        (used < since.elapsed() / 20).then_some(())
    });
    assert_eq!(engine.containers_of(bridge.pid()).len(), 2);
    assert_eq!(bridge.run("print(x)").succeeded(), "1\n");
    bridge.finish();
}

#[test]
fn heavy_idle_beside_podman_rootful() {
    idle_session_does_not_keep_podman_busy(Kind::PodmanRootful);
}

#[test]
fn heavy_idle_beside_podman_rootless() {
    idle_session_does_not_keep_podman_busy(Kind::PodmanRootless);
}

each_engine!(
    keeps_variables_over_calls,
    answer_says_how_the_code_ended,
    interrupted_code_keeps_variables,
    killed_guest_reports_lost_variables,
    dead_guest_is_an_error_with_a_reason,
    cancelled_call_is_interrupted_at_once,
    queued_call_can_be_cancelled,
    two_calls_in_one_session_run_one_after_the_other,
    sessions_share_nothing,
    reset_clears_variables,
    sessions_over_the_limit_are_rejected,
);
