//! The command line, as a script uses it.

use integration_tests::bridge::Builder;
use integration_tests::cli::run;
use integration_tests::{EngineUnderTest, each_engine, engine};
use serde_json::{Value, json};

use crate::servers::stub;

fn no_engine<'a>() -> Builder<'a> {
    Builder::new(None).variable("PATH", "/nowhere")
}

fn run_has_documented_exit_codes(engine: &EngineUnderTest) {
    for (arguments, input, code, stdout) in [
        (vec!["run", "-c", "print('hello')"], "", 0, "hello\n"),
        (vec!["run", "-"], "print('from stdin')", 0, "from stdin\n"),
        (
            vec!["run", "-c", "print('so far')\nraise ValueError(3)"],
            "",
            1,
            "so far\n",
        ),
        (vec!["run", "-c", "import sys; sys.exit(5)"], "", 1, ""),
        (
            vec!["run", "--timeout", "1", "-c", "while True: pass"],
            "",
            124,
            "",
        ),
    ] {
        let ran = run(Builder::new(Some(engine)), &arguments, input.as_bytes());
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(code), stdout),
            "{arguments:?}: {}",
            ran.stderr
        );
        engine.assert_nothing_left_of(ran.pid);
    }
}

fn run_keeps_stdout_and_stderr_apart(engine: &EngineUnderTest) {
    let builder = Builder::new(Some(engine));
    let file = builder.home().write(
        "home/program.py",
        "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1 / 0\n",
    );
    let ran = run(builder, &["run", &file.display().to_string()], b"");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "out\n"));
    assert!(
        ran.stderr.starts_with("err\n") && ran.stderr.contains("ZeroDivisionError"),
        "{}",
        ran.stderr
    );

    let ran = run(
        Builder::new(Some(engine)),
        &["run", "--json", "-c", "print('x')\n6 * 7"],
        b"",
    );
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (
            told["status"].as_str(),
            told["stdout"].as_str(),
            told["result"].as_str()
        ),
        (Some("success"), Some("x\n"), Some("42"))
    );
}

fn doctor_passes_on_a_working_machine(engine: &EngineUnderTest) {
    let ran = run(Builder::new(Some(engine)), &["doctor", "--json"], b"");
    let told: Value = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.stdout, ran.stderr));
    assert_eq!(ran.code, Some(0), "{told:#}\n{}", ran.stderr);
    let checks = told["checks"]
        .as_array()
        .or_else(|| told.as_array())
        .unwrap();
    for check in checks {
        assert!(
            check["code"].is_string(),
            "each check has a stable code: {check:#}"
        );
    }
    assert!(
        ran.stdout
            .contains(engine.kind.name().split('-').next().unwrap()),
        "the engine is named: {told:#}"
    );
}

#[test]
fn doctor_names_what_is_missing() {
    let ran = run(no_engine(), &["doctor", "--json"], b"");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert!(told.to_string().contains("E0"), "{told:#}");
    let ran = run(no_engine(), &["doctor"], b"");
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.stdout.contains("engine") && ran.stdout.contains("E0"),
        "{}",
        ran.stdout
    );
}

#[test]
fn run_without_an_engine_is_an_error() {
    let ran = run(no_engine(), &["run", "-c", "print(1)"], b"");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""));
    assert!(ran.stderr.contains("no container engine"), "{}", ran.stderr);
}

#[test]
fn wrong_usage_exits_with_2() {
    for arguments in [
        vec!["run"],
        vec!["run", "-c"],
        vec!["run", "-c", ""],
        vec!["run", "-c", "1", "--timeout", "0"],
        vec!["run", "-c", "1", "--timeout", "soon"],
        vec!["run", "/no/such/file.py"],
        vec!["no-such-command"],
        vec!["--no-such-flag"],
    ] {
        let ran = run(no_engine(), &arguments, b"");
        assert_eq!(
            (ran.code, ran.stdout.as_str()),
            (Some(2), ""),
            "{arguments:?}: {}",
            ran.stderr
        );
        assert!(
            !ran.stderr.contains("panicked") && !ran.stderr.is_empty(),
            "{arguments:?}: {}",
            ran.stderr
        );
    }
}

#[test]
fn wrong_settings_name_the_variable_and_accepted_values() {
    for (variable, value) in [
        ("MCP_BRIDGE_TIMEOUT", "-4"),
        ("MCP_BRIDGE_MEMORY", "lots"),
        ("MCP_BRIDGE_PIDS", "1.5"),
        ("MCP_BRIDGE_RUNTIME", "lxc"),
        ("MCP_BRIDGE_OUTPUT_MODE", "xml"),
        ("MCP_BRIDGE_CONTAINER_USER", "root"),
        ("MCP_BRIDGE_LOG_LEVEL", "loud"),
        ("MCP_BRIDGE_IMAGE", "python:3.14-slim"),
    ] {
        for arguments in [vec![], vec!["run", "-c", "1"]] {
            let ran = run(no_engine().variable(variable, value), &arguments, b"");
            assert_eq!(
                (ran.code, ran.stdout.as_str()),
                (Some(2), ""),
                "{variable}={value}: {}",
                ran.stderr
            );
            assert!(
                ran.stderr.contains(variable) && ran.stderr.contains(value),
                "{}",
                ran.stderr
            );
            assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        }
    }
}

#[test]
fn image_digest_prints_the_committed_manifest() {
    let ran = run(
        no_engine().variable("MCP_BRIDGE_IMAGE_LOCK", ""),
        &["image", "digest"],
        b"",
    );
    let committed = guest_image::committed("base", engine::architecture()).unwrap();
    assert_eq!(
        (ran.code, ran.stdout),
        (Some(0), format!("{}\n", committed.manifest))
    );
}

#[test]
fn help_and_version_go_to_stdout() {
    for argument in ["--help", "--version"] {
        let ran = run(no_engine(), &[argument], b"");
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
        assert!(ran.stdout.contains("mcp-code-bridge"), "{}", ran.stdout);
    }
}

fn image_commands_load_and_verify(engine: &EngineUnderTest) {
    for arguments in [
        vec!["image", "load"],
        vec!["image", "verify"],
        vec!["image", "verify", "--deep"],
    ] {
        let ran = run(Builder::new(Some(engine)), &arguments, b"");
        assert_eq!(
            ran.code,
            Some(0),
            "{arguments:?}: {}{}",
            ran.stdout,
            ran.stderr
        );
    }
}

/// Four server definitions: one that works, one that exits, one that is wrong, and a disabled one.
fn with_servers() -> Builder<'static> {
    let builder = no_engine();
    let issue = json!({"name": "create-issue", "description": "Open a new issue", "inputSchema":
        {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}});
    let scenario = json!({"tools": [issue, {"inputSchema": {}}]}).to_string();
    let dead =
        json!({"greeting": [{"stderr": "DEAD_TOKEN is not set\n"}, {"exit": 1}]}).to_string();
    let definitions = json!({"mcpServers": {
        "git-hub": {"command": stub(), "args": [scenario], "env": {"TOKEN": "secret-of-the-test"}},
        "dead": {"command": stub(), "args": [dead]},
        "wrong": {"command": "x", "args": ["${NO_SUCH_VARIABLE}"]},
        "off": {"command": "x", "disabled": true},
    }});
    let file = builder
        .home()
        .write("servers.json", definitions.to_string());
    builder.variable("MCP_SERVERS_CONFIG", file.display().to_string())
}

fn of_name<'v>(servers: &'v Value, name: &str) -> &'v Value {
    let servers = servers.as_array().unwrap();
    servers
        .iter()
        .find(|server| server["name"] == name)
        .unwrap()
}

#[test]
fn servers_are_listed_with_their_files_and_problems() {
    let ran = run(with_servers(), &["servers", "list", "--json"], b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    let servers = &told["servers"];
    assert_eq!(servers.as_array().unwrap().len(), 4, "{told:#}");
    for (name, status) in [
        ("git-hub", "ready"),
        ("dead", "ready"),
        ("wrong", "broken"),
        ("off", "disabled"),
    ] {
        assert_eq!(of_name(servers, name)["status"], status, "{told:#}");
    }
    assert!(ran.stdout.contains("NO_SUCH_VARIABLE"), "{told:#}");
    assert!(!ran.stdout.contains("secret-of-the-test"), "{told:#}");

    let ran = run(with_servers(), &["servers", "list"], b"");
    let line = |name: &str| {
        ran.stdout
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap()
    };
    assert!(line("git-hub").contains("never started"), "{}", ran.stdout);
    assert!(line("wrong").contains("broken"), "{}", ran.stdout);
    assert!(
        ran.stdout.contains("files, in the order in which they win"),
        "{}",
        ran.stdout
    );
}

#[test]
fn checked_servers_have_searchable_tools() {
    let builder = with_servers();
    let (mut check, home) = builder.command();
    let output = check
        .args(["servers", "check", "--json", "--timeout", "30"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    let (good, dead) = (
        of_name(&told["servers"], "git-hub"),
        of_name(&told["servers"], "dead"),
    );
    assert_eq!(
        (&good["status"], &good["tools"]),
        (&json!("ok"), &json!(1)),
        "{told:#}"
    );
    assert!(
        good["leftOut"].is_object(),
        "a tool without a name is left out: {told:#}"
    );
    assert_eq!(dead["status"], "failed");
    assert!(
        dead["error"]
            .as_str()
            .unwrap()
            .contains("DEAD_TOKEN is not set"),
        "{told:#}"
    );
    assert_eq!(of_name(&told["servers"], "wrong")["status"], "broken");

    // Another process, which starts nothing, now knows the tools too.
    let search = |arguments: &[&str]| {
        let mut command = home.command(integration_tests::bridge::binary());
        command
            .env("MCP_SERVERS_CONFIG", home.join("servers.json"))
            .args(["servers", "search"])
            .args(arguments);
        let output = command.output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    let (code, text) = search(&["opne", "issue", "--json"]);
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (code, &told["tools"][0]["tool"]),
        (Some(0), &json!("create-issue")),
        "{told:#}"
    );
    assert_eq!(told["notStarted"], json!(["dead"]), "{told:#}");
    let (code, text) = search(&["issue"]);
    assert!(code == Some(0) && text.contains("create_issue"), "{text}");
    let (code, text) = search(&["zebra", "crossing"]);
    assert_eq!(code, Some(1), "{text}");

    let ran = run(with_servers(), &["servers", "check", "git-hub"], b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(
        ran.stdout.starts_with("ok      git-hub  1 tool in "),
        "{}",
        ran.stdout
    );
    let ran = run(with_servers(), &["servers", "check", "githup"], b"");
    assert!(
        ran.code == Some(2) && ran.stderr.contains("did you mean git-hub?"),
        "{}",
        ran.stderr
    );
}

#[test]
fn doctor_names_wrong_definitions() {
    let ran = run(with_servers(), &["doctor", "--json"], b"");
    let told: Value = serde_json::from_str(&ran.stdout).unwrap();
    let checks = told["checks"].as_array().unwrap();
    let servers = checks.iter().find(|check| check["code"] == "S0").unwrap();
    assert_eq!(servers["outcome"], "warn", "{servers:#}");
    let found = servers["found"].as_str().unwrap();
    assert!(
        found.starts_with("4 defined in 1 file, 1 disabled, 1 broken")
            && found.contains("NO_SUCH_VARIABLE"),
        "{found}"
    );
}

each_engine!(
    run_has_documented_exit_codes,
    run_keeps_stdout_and_stderr_apart,
    doctor_passes_on_a_working_machine,
    image_commands_load_and_verify
);
