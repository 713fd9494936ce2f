//! What outlives sessions, with the real Python runtime, and with guests that lie about it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::super::{Launch, RunOutcome, RunRequest, Sessions, State, Status};
use super::local::Local;
use super::scripted::{Puppet, Stage};
use super::{SessionSettings, broker_with, call, limits, named, settings, silent};
use bridge_broker::Broker;
use bridge_settings::Limits;
use bridge_store::{Part, Seen};

const ALL: &[Part] = &[Part::Tools, Part::Files];

/// Sessions over the state in a folder.
fn sessions(launch: Arc<dyn Launch>, state: &Path, spare: bool) -> Sessions {
    let limits = Limits {
        output_bytes: 1 << 20,
        ..limits()
    };
    let settings = SessionSettings {
        spare,
        ..settings()
    };
    Sessions::with(launch, broker_with(None, state), limits, settings)
}

async fn run(sessions: &Sessions, request: RunRequest) -> RunOutcome {
    sessions.run(request, silent()).await.unwrap()
}

async fn printed(sessions: &Sessions, request: RunRequest) -> String {
    let outcome = run(sessions, request).await;
    assert_eq!(outcome.status(), Status::Success, "{outcome:?}");
    String::from_utf8(outcome.output.stdout.bytes).unwrap()
}

fn afresh(code: &str) -> RunRequest {
    RunRequest {
        reset: true,
        ..call(code)
    }
}

#[tokio::test]
async fn files_with_secrets_of_definitions_are_not_given_to_the_guest() {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    };
    let told = async |broker: &Arc<Broker>| {
        let (_, update) = broker.update(Seen::default(), ALL).await;
        let mut paths: Vec<_> = update.files.into_iter().map(|file| file.path).collect();
        paths.sort();
        (paths, update.notes)
    };
    write("state/user_tools/plain.txt", "nothing");
    write("state/user_tools/held.txt", "token: supersecret-1");
    let definition = r#"{"command": "x", "env": {"TOKEN": "supersecret-1"}}"#;
    let file = write(
        "servers.json",
        &format!(r#"{{"mcpServers": {{"a": {definition}}}}}"#),
    );
    let broker = broker_with(Some(file), &folder.path().join("state"));
    let note = "/projects/held.txt is left out: it holds a secret of a server definition";
    let hidden = (vec!["plain.txt".to_owned()], vec![note.to_owned()]);
    assert_eq!(told(&broker).await, hidden);
    // Definitions count as they are when somebody looks.
    write(
        "servers.json",
        r#"{"mcpServers": {"a": {"command": "other"}}}"#,
    );
    let all = ["held.txt", "plain.txt"].map(str::to_owned).to_vec();
    assert_eq!(told(&broker).await, (all, Vec::new()));
}

const ROOT: &str = "from _mcp_guest.state.projects import ROOT\nimport os\n";

#[tokio::test]
async fn memories_tools_and_files_are_there_after_a_reset() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::with_projects(folder.path().join("projects"));
    let sessions = sessions(local, &folder.path().join("state"), false);
    let code = format!(
        "{ROOT}os.mkdir(ROOT + '/data')\nopen(ROOT + '/data/a', 'w').write('one')\nsave_memory('n', 10**30)\ndef f(): return os.sep\nsave_tool(f)"
    );
    let first = run(&sessions, call(&code)).await;
    assert_eq!((first.status(), first.note()), (Status::Success, None));
    assert_eq!(
        std::fs::read_to_string(folder.path().join("state/user_tools/data/a")).unwrap(),
        "one"
    );
    let look = format!(
        "{ROOT}# projects\nprint(f(), load_memory('n') == 10**30, open(ROOT + '/data/a').read(), sorted(os.listdir(ROOT)))"
    );
    let expected = "/ True one ['data', 'memory', 'user_tools.py']\n";
    assert_eq!(printed(&sessions, afresh(&look)).await, expected);
    let code = format!(
        "{ROOT}os.remove(ROOT + '/data/a')\nopen(ROOT + '/b', 'wb').write(b'\\xff' * 5_000_000)"
    );
    printed(&sessions, call(&code)).await;
    assert_eq!(
        std::fs::metadata(folder.path().join("state/user_tools/b"))
            .unwrap()
            .len(),
        5_000_000
    );
    let look =
        format!("{ROOT}# projects\nprint(sorted(os.listdir(ROOT)), os.path.getsize(ROOT + '/b'))");
    assert_eq!(
        printed(&sessions, afresh(&look)).await,
        "['b', 'memory', 'user_tools.py'] 5000000\n"
    );
    sessions.shutdown().await;
}

#[tokio::test]
async fn a_spare_guest_knows_what_was_kept_while_it_waited() {
    let folder = tempfile::tempdir().unwrap();
    let local = Local::with_projects(folder.path().join("projects"));
    let sessions = sessions(local.clone(), &folder.path().join("state"), true);
    printed(
        &sessions,
        call("def f(): return 1\nsave_tool(f)\nsave_memory('k', 1)"),
    )
    .await;
    while local.launched() < 2 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let code = format!(
        "{ROOT}def f(): return 2\nsave_tool(f)\nopen(ROOT + '/a', 'w').write('new')\ndelete_memory('k')"
    );
    printed(&sessions, call(&code)).await;
    let look = format!(
        "{ROOT}# projects\nprint(f(), open(ROOT + '/a').read(), os.listdir(ROOT + '/memory') if os.path.exists(ROOT + '/memory') else [])"
    );
    assert_eq!(
        printed(&sessions, named("other", &look)).await,
        "2 new []\n"
    );
    sessions.shutdown().await;
}

#[tokio::test]
async fn files_are_there_for_code_that_does_not_name_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let local = Local::with_projects(folder.path().join("guests/projects"));
    std::fs::create_dir_all(state.join("user_tools/memory")).unwrap();
    std::fs::write(state.join("user_tools/a"), "one").unwrap();
    std::fs::write(state.join("user_tools/memory/k.json"), "{}").unwrap();
    let sessions = sessions(local, &state, false);
    let root = "import os, sys, subprocess\nROOT = vars(sys.modules['_mcp_guest.state.proj' + 'ects'])['ROOT']\n";
    // The first run of its guest, in each case.
    for look in [
        "print(open(ROOT + '/a').read())",
        "import pathlib\nprint(next(pathlib.Path(ROOT).glob('[a]')).read_text())",
        "os.chdir(ROOT)\nprint(open(b'a').read(), end='\\n')",
        "print(subprocess.run(['cat', ROOT + '/a'], capture_output=True, text=True).stdout)",
        "child = os.fork()\nif not child:\n    print(open(ROOT + '/a').read(), flush=True)\n    os._exit(0)\nos.waitpid(child, 0)",
        "import threading\nthread = threading.Thread(target=lambda: print(open(ROOT + '/a').read()))\nthread.start()\nthread.join()",
    ] {
        let printed = printed(&sessions, afresh(&format!("{root}{look}"))).await;
        assert_eq!(printed, "one\n", "{look}");
    }
    // What it makes there does not hide what the host has.
    let code = format!("{root}os.rename(ROOT + '/a', ROOT + '/b')");
    printed(&sessions, afresh(&code)).await;
    let kept = |name: &str| std::fs::read_to_string(state.join("user_tools").join(name)).ok();
    assert_eq!((kept("a"), kept("b").as_deref()), (None, Some("one")));
    sessions.shutdown().await;
}

#[tokio::test]
async fn what_a_stopped_run_left_is_kept_and_odd_files_are_named_once() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let local = Local::with_projects(folder.path().join("projects"));
    let sessions = sessions(local, &state, false);
    // The time limit is the code's alone: the guest has started, and a busy machine has seconds to
    // run three lines.
    run(&sessions, call("1")).await;
    let late = RunRequest {
        timeout: Duration::from_secs(3),
        ..call(&format!(
            "{ROOT}open(ROOT + '/late', 'w').write('x')\nos.symlink('/etc', ROOT + '/link')\nwhile True: pass"
        ))
    };
    let outcome = run(&sessions, late).await;
    assert_eq!(
        (outcome.status(), outcome.state()),
        (Status::Timeout, State::Kept)
    );
    assert_eq!(
        outcome.note().as_deref(),
        Some("/projects/link is not kept: it is a symbolic link")
    );
    assert_eq!(
        std::fs::read_to_string(state.join("user_tools/late")).unwrap(),
        "x"
    );
    assert_eq!(run(&sessions, call("1")).await.note(), None);
    sessions.shutdown().await;
}

/// Ends each run with these files changed.
async fn done_with(puppet: &Puppet, execute: &Value, files: Value) {
    let id = &execute["id"];
    puppet
        .say(json!({"type": "execution_done", "id": id, "status": "success", "projects": files}))
        .await;
}

async fn hear_execute(puppet: &mut Puppet) -> Value {
    loop {
        let frame = puppet.receive().await;
        if frame["type"] == "execute" {
            return frame;
        }
    }
}

#[tokio::test]
async fn files_come_when_the_guest_asks_or_has_nothing_else_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("state");
    std::fs::create_dir_all(kept.join("user_tools")).unwrap();
    std::fs::write(kept.join("user_tools/a"), "one").unwrap();
    let stage = Stage::new(async |mut puppet: Puppet| {
        let files = json!({"type": "state", "files": [["a", "one"]]});
        puppet.ready().await;
        assert_eq!(
            puppet.receive().await,
            json!({"type": "state", "more": true})
        );
        let execute = hear_execute(&mut puppet).await;
        if puppet.number == 1 {
            for _ in 0..2 {
                puppet.say(json!({"type": "fetch"})).await;
            }
            assert_eq!(puppet.receive().await, files);
            puppet.done(&execute["id"]).await;
        } else {
            puppet.done(&execute["id"]).await;
            assert_eq!(puppet.receive().await, files);
            // All files have been told.
            puppet.say(json!({"type": "fetch"})).await;
        }
        let execute = puppet.receive().await;
        assert_eq!(execute["type"], "execute");
        puppet.done(&execute["id"]).await;
        puppet.hold().await;
    });
    let sessions = sessions(stage.clone(), &kept, false);
    for (guest, pause) in [(1, 0), (2, 300)] {
        let first = run(&sessions, afresh("1")).await;
        assert_eq!(first.status(), Status::Success);
        tokio::time::sleep(Duration::from_millis(pause)).await;
        assert_eq!(run(&sessions, call("2")).await.status(), Status::Success);
        assert_eq!(stage.launched(), guest);
    }
    sessions.shutdown().await;
}

#[tokio::test]
async fn a_guest_that_names_files_badly_gets_nothing_outside_and_nothing_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        let execute = hear_execute(&mut puppet).await;
        // Nobody asked for this.
        puppet
            .say(json!({"type": "project_file", "path": "unasked", "text": "x"}))
            .await;
        puppet.say(json!({"type": "collected", "id": 1})).await;
        let changed = json!([
            ["../outside", 1],
            ["/abs", 1],
            ["memory/x.json", 1],
            ["huge", u64::MAX],
            ["good", 1],
            ["grown", 1]
        ]);
        done_with(
            &puppet,
            &execute,
            json!({"changed": changed, "deleted": ["../outside", "good2"]}),
        )
        .await;
        let collect = puppet.receive().await;
        assert_eq!(collect["paths"], json!(["good", "grown"]));
        for (path, text) in [
            ("../outside", "x"),
            ("unasked", "x"),
            ("good", "ok"),
            ("good", "twice"),
        ] {
            puppet
                .say(json!({"type": "project_file", "path": path, "text": text}))
                .await;
        }
        // More than there may be in all.
        for _ in 0..20 {
            puppet.say(json!({"type": "project_file", "path": "grown", "text": "x".repeat(4 << 20), "more": true})).await;
        }
        puppet
            .say(json!({"type": "collected", "id": collect["id"]}))
            .await;
        let forget = puppet.receive().await;
        assert_eq!(forget, json!({"type": "forget", "paths": ["grown"]}));
        let execute = hear_execute(&mut puppet).await;
        puppet.done(&execute["id"]).await;
        puppet.hold().await;
    });
    let kept = folder.path().join("state");
    let sessions = sessions(stage, &kept, false);
    let first = run(&sessions, call("1")).await;
    assert_eq!(
        (first.status(), first.state()),
        (Status::Success, State::Kept)
    );
    let note = first.note().unwrap();
    assert!(
        note.contains("/projects/../outside is not kept")
            && note.contains("/projects/huge is not kept"),
        "{note}"
    );
    assert_eq!(run(&sessions, call("2")).await.status(), Status::Success);
    let names: Vec<String> = std::fs::read_dir(kept.join("user_tools"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".lock" && name != ".versions")
        .collect();
    assert_eq!(names, ["good"]);
    assert_eq!(
        std::fs::read_to_string(kept.join("user_tools/good")).unwrap(),
        "ok"
    );
    assert!(!folder.path().join("outside").exists());
    sessions.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_does_not_send_its_files_costs_time_and_a_note_only() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        let execute = hear_execute(&mut puppet).await;
        done_with(&puppet, &execute, json!({"changed": [["a", 1]]})).await;
        let execute = hear_execute(&mut puppet).await;
        puppet.done(&execute["id"]).await;
        puppet.hold().await;
    });
    let sessions = sessions(stage, &folder.path().join("state"), false);
    let began = Instant::now();
    let first = run(&sessions, call("1")).await;
    assert_eq!(
        (first.status(), first.state()),
        (Status::Success, State::Kept)
    );
    assert!(first.note().unwrap().contains("did not send it in time"));
    assert!(began.elapsed() < Duration::from_secs(25));
    assert_eq!(run(&sessions, call("2")).await.note(), None);
    sessions.shutdown().await;
}

#[tokio::test]
async fn a_guest_that_dies_while_it_sends_its_files_has_run_its_code() {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new(async |mut puppet: Puppet| {
        puppet.ready().await;
        let execute = hear_execute(&mut puppet).await;
        if puppet.number > 1 {
            puppet.done(&execute["id"]).await;
            return puppet.hold().await;
        }
        done_with(&puppet, &execute, json!({"changed": [["a", 1]]})).await;
        puppet.receive().await;
        puppet.end(3, false).await;
    });
    let sessions = sessions(stage, &folder.path().join("state"), false);
    let first = run(&sessions, call("1")).await;
    assert_eq!(
        (first.status(), first.state()),
        (Status::Success, State::Lost)
    );
    assert!(first.note().unwrap().contains("is not kept"));
    let second = run(&sessions, call("2")).await;
    assert!(second.note().unwrap().starts_with("fresh session"));
    sessions.shutdown().await;
}
