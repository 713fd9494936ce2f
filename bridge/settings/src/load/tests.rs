//! Every setting from every source, and every nonsense.

use std::time::Duration;

use super::*;
use crate::{EngineKind, KEYS, Limit, OutputMode};

fn load(variables: &[(&str, &str)]) -> Result<Settings, Error> {
    let home = [("HOME", "/nonexistent")];
    let all = home.iter().chain(variables).copied();
    Settings::load(&Overrides::default(), &HostEnv::fake(all))
}

fn message(variables: &[(&str, &str)]) -> String {
    load(variables)
        .map(|_| ())
        .map_err(|error| error.to_string())
        .expect_err("accepted")
}

fn flags(values: &[(&str, &str, &str)]) -> Overrides {
    let values = values
        .iter()
        .map(|(flag, key, value)| ((*flag).to_owned(), (*key).to_owned(), (*value).into()))
        .collect();
    Overrides {
        config: None,
        values,
    }
}

fn yaml(text: &str) -> (tempfile::TempDir, Result<Settings, Error>) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("bridge.yaml"), text).expect("written");
    let state = folder.path().to_str().expect("UTF-8").to_owned();
    let result = load(&[("MCP_BRIDGE_STATE_DIR", &state)]);
    (folder, result)
}

#[test]
fn the_defaults_are_those_documented() {
    let settings = load(&[]).expect("defaults");
    assert_eq!(settings.session.timeout, Duration::from_secs(30));
    assert_eq!(settings.session.max_timeout, Duration::from_secs(120));
    assert_eq!(settings.session.max_run, Duration::from_secs(3600));
    assert_eq!(settings.limits.memory_bytes, 512 << 20);
    assert_eq!((settings.limits.pids, settings.limits.cpus), (128, None));
    assert_eq!(settings.limits.user, (65534, 65534));
    assert_eq!(settings.engine.machine_idle, Duration::from_secs(300));
    assert_eq!(settings.state_dir, Path::new("/nonexistent/MCPs"));
    assert_eq!(settings.output_mode, OutputMode::Compact);
    assert_eq!(settings.output_tokens, 8000);
    assert_eq!(
        settings.log_level,
        tracing::level_filters::LevelFilter::INFO
    );
    assert_eq!(
        settings.host.config_home().as_deref(),
        Some(Path::new("/nonexistent/.config"))
    );
}

#[test]
fn every_variable_is_read() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let settings = load(&[
        ("MCP_BRIDGE_RUNTIME", "Docker"),
        ("MCP_BRIDGE_ENGINE_HOST", "unix:///run/x.sock"),
        ("MCP_BRIDGE_OCI_RUNTIME", "crun"),
        ("MCP_BRIDGE_ALLOW_UNENFORCED", "memory,pids"),
        ("MCP_BRIDGE_RUNTIME_IDLE_TIMEOUT", "0"),
        ("MCP_BRIDGE_IMAGE", &digest),
        ("MCP_BRIDGE_IMAGE_ARCHIVE", "~/a.tar"),
        ("MCP_BRIDGE_IMAGE_LOCK", "/l.json"),
        ("GUEST_IMAGE_INPUTS", "/in"),
        ("MCP_BRIDGE_MEMORY", "1g"),
        ("MCP_BRIDGE_PIDS", "64"),
        ("MCP_BRIDGE_CPUS", "1.5"),
        ("MCP_BRIDGE_OPEN_FILES", "256"),
        ("MCP_BRIDGE_CONTAINER_USER", "1000:100"),
        ("MCP_BRIDGE_OUTPUT_LIMIT", "1m"),
        ("MCP_BRIDGE_OUTPUT_TOKENS", "500"),
        ("MCP_BRIDGE_TIMEOUT", "10s"),
        ("MCP_BRIDGE_MAX_TIMEOUT", "2m"),
        ("MCP_BRIDGE_MAX_RUN", "30m"),
        ("MCP_BRIDGE_GRACE", "500ms"),
        ("MCP_BRIDGE_SESSION_IDLE", "1h"),
        ("MCP_BRIDGE_MAX_SESSIONS", "2"),
        ("MCP_BRIDGE_SPARE", "off"),
        ("MCP_BRIDGE_STATE_DIR", "~/state"),
        ("MCP_BRIDGE_PROJECT", "on"),
        ("MCP_BRIDGE_STORE_VALUE", "1m"),
        ("MCP_BRIDGE_STORE_MEMORY", "8m"),
        ("MCP_BRIDGE_STORE_MEMORY_COUNT", "100"),
        ("MCP_BRIDGE_STORE_TOOLS", "10"),
        ("MCP_BRIDGE_STORE_FILES", "2m"),
        ("MCP_BRIDGE_STORE_FILE_COUNT", "50"),
        ("MCP_BRIDGE_OUTPUT_MODE", "TOON"),
        ("MCP_BRIDGE_LOG_LEVEL", "Warning"),
        ("MCP_BRIDGE_ALLOW_SELF_SERVER", "1"),
        ("MCP_SERVERS_CONFIG", "/s.json"),
        ("MCP_BRIDGE_HTTP", "[::1]:8722"),
        ("MCP_BRIDGE_HTTP_TOKEN_FILE", "~/token"),
        ("XDG_RUNTIME_DIR", "/run/user/1000"),
    ])
    .expect("accepted");
    let expected = Settings {
        engine: EngineSettings {
            kind: Some(EngineKind::Docker),
            host: Some("unix:///run/x.sock".to_owned()),
            runtime: Some("crun".to_owned()),
            allow_unenforced: [Limit::Memory, Limit::Pids].into(),
            machine_idle: Duration::ZERO,
        },
        image: ImageSettings {
            reference: Some(digest),
            archive: Some("/nonexistent/a.tar".into()),
            lock: Some("/l.json".into()),
            inputs: Some("/in".into()),
        },
        limits: Limits {
            memory_bytes: 1 << 30,
            pids: 64,
            cpus: Some(1.5),
            open_files: 256,
            user: (1000, 100),
            output_bytes: 1 << 20,
        },
        session: SessionSettings {
            timeout: Duration::from_secs(10),
            max_timeout: Duration::from_secs(120),
            max_run: Duration::from_secs(1800),
            grace: Duration::from_millis(500),
            idle: Duration::from_secs(3600),
            max_sessions: 2,
            spare: false,
        },
        state_dir: "/nonexistent/state".into(),
        project: Project::Here,
        store: StoreLimits {
            value_bytes: 1 << 20,
            memory_bytes: 8 << 20,
            memories: 100,
            tools: 10,
            file_bytes: 2 << 20,
            files: 50,
        },
        output_mode: OutputMode::Toon,
        output_tokens: 500,
        log_level: tracing::level_filters::LevelFilter::WARN,
        allow_self_server: true,
        servers_config: Some("/s.json".into()),
        http: Some("[::1]:8722".parse().expect("an address")),
        http_token_file: Some("/nonexistent/token".into()),
        file: None,
        host: settings.host.clone(),
    };
    assert_eq!(settings, expected);
    assert_eq!(
        settings.host.raw("XDG_RUNTIME_DIR"),
        Some("/run/user/1000".as_ref())
    );
}

#[test]
fn all_bad_values_are_named_at_once() {
    insta::assert_snapshot!(message(&[
        ("MCP_BRIDGE_MEMORY", "12q"),
        ("MCP_BRIDGE_TIMEOUT", "-1"),
        ("MCP_BRIDGE_RUNTIME", "containerd"),
        ("MCP_BRIDGE_IMAGE", "python:3.14-slim"),
    ]), @r#"
    4 settings are wrong:
      invalid MCP_BRIDGE_RUNTIME "containerd": use podman, docker or auto
      invalid MCP_BRIDGE_IMAGE "python:3.14-slim": use sha256:<64 hex digits> or name@sha256:<64 hex digits>; any name with a lock
      invalid MCP_BRIDGE_MEMORY "12q": use a size of at least 32m, such as 512m, 1g or 512MiB
      invalid MCP_BRIDGE_TIMEOUT "-1": use whole seconds from 1 up to the largest timeout, such as 30, 30s or 2m
    "#);
}

#[test]
fn nonsense_is_refused_for_every_setting_but_paths() {
    let paths = [
        "image_archive",
        "image_lock",
        "guest_image_inputs",
        "state_dir",
        "project",
        "servers_config",
        "http_token_file",
    ];
    for key in KEYS.iter().filter(|key| !paths.contains(&key.name)) {
        let text = message(&[(key.variable, "\u{7f}?")]);
        assert!(
            text.contains(key.variable) && text.contains(&key.accepts),
            "{text}"
        );
    }
}

#[test]
fn timeouts_agree_with_each_other() {
    let both = |timeout, max| {
        load(&[
            ("MCP_BRIDGE_TIMEOUT", timeout),
            ("MCP_BRIDGE_MAX_TIMEOUT", max),
        ])
    };
    assert!(both("60", "30").is_err());
    let raised = load(&[("MCP_BRIDGE_TIMEOUT", "300")])
        .expect("accepted")
        .session;
    assert_eq!(
        (raised.timeout.as_secs(), raised.max_timeout.as_secs()),
        (300, 300)
    );
    let lowered = load(&[("MCP_BRIDGE_MAX_TIMEOUT", "10")])
        .expect("accepted")
        .session;
    assert_eq!(
        (lowered.timeout.as_secs(), lowered.max_timeout.as_secs()),
        (10, 10)
    );
}

#[test]
fn an_empty_variable_counts_as_unset() {
    assert!(load(&[("MCP_BRIDGE_MEMORY", ""), ("MCP_BRIDGE_RUNTIME", "")]).is_ok());
}

#[test]
fn a_flag_wins_over_a_variable_and_that_over_the_file() {
    let (folder, _) = yaml("memory: 64m\npids: 10\ntimeout: 5\n");
    let state = folder.path().to_str().expect("UTF-8");
    let host = HostEnv::fake([
        ("MCP_BRIDGE_STATE_DIR", state),
        ("MCP_BRIDGE_PIDS", "20"),
        ("MCP_BRIDGE_TIMEOUT", "6"),
    ]);
    let overrides = flags(&[
        ("--set timeout=7", "timeout", "7"),
        ("--set timeout=8", "timeout", "8"),
    ]);
    let settings = Settings::load(&overrides, &host).expect("accepted");
    assert_eq!(settings.limits.memory_bytes, 64 << 20);
    assert_eq!(settings.limits.pids, 20);
    assert_eq!(settings.session.timeout.as_secs(), 8);
    assert_eq!(settings.file, Some(folder.path().join("bridge.yaml")));
}

#[test]
fn the_file_reads_lists_numbers_and_nulls() {
    let (_folder, result) =
        yaml("allow_unenforced: [memory, pids]\ncpus: 0.5\nspare: false\nimage:\n");
    let settings = result.expect("accepted");
    assert_eq!(
        settings.engine.allow_unenforced,
        [Limit::Memory, Limit::Pids].into()
    );
    assert_eq!(settings.limits.cpus, Some(0.5));
    assert!(!settings.session.spare);
    assert_eq!(settings.image.reference, None);
}

#[test]
fn list_is_refused_where_one_value_is_expected() {
    let (_folder, result) = yaml("servers_config: [a, b]\n");
    let error = result.map(|_| ()).expect_err("accepted");
    assert_eq!(error.problems.len(), 1);
    let text = error.to_string();
    assert!(
        text.contains(":1: invalid servers_config \"a list\""),
        "{text}"
    );
}

#[test]
fn only_some_unknown_settings_are_named() {
    let many: Vec<String> = (0..2000).map(|number| format!("k{number}: 1")).collect();
    let (_folder, result) = yaml(&many.join("\n"));
    let error = result.map(|_| ()).expect_err("accepted");
    assert_eq!(error.problems.len(), 51);
}

#[test]
fn problems_in_the_file_name_their_line() {
    let (folder, result) =
        yaml("# ours\nmemory: 12q\n\n\"timout\": 3\nlimits: {memory: 1g}\npids: {a: 1}\n");
    let text = result.map(|_| ()).expect_err("accepted").to_string();
    let text = text.replace(folder.path().to_str().expect("UTF-8"), "STATE");
    insta::assert_snapshot!(text, @r#"
    4 settings are wrong:
      STATE/bridge.yaml:4: unknown setting "timout": did you mean "timeout"?
      STATE/bridge.yaml:5: unknown setting "limits"
      STATE/bridge.yaml:6: invalid pids "a mapping": use a whole number from 8 to 4194304
      STATE/bridge.yaml:2: invalid memory "12q": use a size of at least 32m, such as 512m, 1g or 512MiB
    "#);
}

#[test]
fn a_broken_file_is_an_error_with_its_line_and_never_a_crash() {
    let aliases = format!(
        "a: &a [x,x,x,x,x,x,x,x]\n{}",
        (0..20).fold(String::new(), |text, i| {
            format!("{text}b{i}: [*a,*a,*a,*a,*a,*a,*a,*a]\n")
        })
    );
    for text in [
        "a: [",
        "- a\n- b\n",
        "just text",
        "a: 1\na: 2\n",
        "\u{0}",
        &aliases,
        &"[".repeat(20_000),
    ] {
        let (_folder, result) = yaml(text);
        assert!(result.is_err(), "{}", &text[..text.len().min(40)]);
    }
    let (_folder, empty) = yaml("# nothing\n");
    assert!(empty.is_ok());
    let (_folder, large) = yaml(&format!("# {}\n", "x".repeat(300 << 10)));
    assert!(
        large
            .expect_err("accepted")
            .to_string()
            .contains("more than 262144 bytes")
    );
}

#[test]
fn a_named_file_must_be_there_and_be_a_file() {
    assert!(message(&[("MCP_BRIDGE_CONFIG", "/nonexistent/b.yaml")]).contains("cannot be read"));
    assert!(message(&[("MCP_BRIDGE_CONFIG", "/dev/zero")]).contains("not a regular file"));
}

#[test]
fn fifo_in_place_of_the_file_is_refused_without_waiting() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("bridge.yaml");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO");
    let error = check_file(&path).expect_err("accepted");
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn file_is_checked_by_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("bridge.yaml");
    std::fs::write(&path, "memory: 1g\n").expect("written");
    assert!(check_file(&path).is_ok());
    std::fs::write(
        &path,
        "memory: 1k\ntimeout: 60\nmax_timeout: 30\nmemroy: 1g\n",
    )
    .expect("written");
    let problems = check_file(&path).expect_err("accepted").problems;
    let mut found: Vec<_> = problems
        .iter()
        .map(|problem| (problem.line(), problem.name()))
        .collect();
    found.sort_unstable();
    let expected = [
        (Some(1), Some("memory")),
        (Some(2), Some("timeout")),
        (Some(4), Some("memroy")),
    ];
    assert_eq!(found, expected);
}

#[test]
fn every_default_is_accepted_by_its_own_setting() {
    for setting in table::ALL {
        assert!(setting.has_valid_default(), "{}", setting.name());
    }
}

#[test]
fn what_matches_a_pattern_of_nix_is_accepted() {
    let texts = [&table::ENGINE_HOST, &table::OCI_RUNTIME, &table::IMAGE];
    let mut runner = proptest::test_runner::TestRunner::default();
    for setting in texts {
        let pattern = setting.accepts.pattern;
        let matching = proptest::string::string_regex(pattern).expect("a pattern");
        let checked = runner.run(&matching, |text| {
            use crate::kinds::Kind as _;
            proptest::prop_assert!(setting.accepts.parse(&text).is_some(), "{}", text);
            Ok(())
        });
        assert!(checked.is_ok(), "{}: {checked:?}", setting.name);
    }
}

#[test]
fn a_project_is_a_switch_or_a_folder() {
    let project = |value: &str| {
        load(&[("MCP_BRIDGE_PROJECT", value)])
            .expect("taken")
            .project
    };
    assert_eq!(load(&[]).expect("defaults").project, Project::Shared);
    assert_eq!(project("off"), Project::Shared);
    assert_eq!(project("On"), Project::Here);
    assert_eq!(
        project("~/work"),
        Project::Folder("/nonexistent/work".into())
    );
    assert_eq!(
        yaml("project: true").1.expect("taken").project,
        Project::Here
    );
}

#[test]
fn an_unknown_flag_key_is_named() {
    let overrides = flags(&[("--set memry=1g", "memry", "1g")]);
    let error = Settings::load(&overrides, &HostEnv::fake([("HOME", "/h")])).expect_err("accepted");
    assert_eq!(
        error.to_string(),
        "unknown setting \"--set memry=1g\": did you mean \"memory\"?"
    );
}

#[test]
fn without_a_home_the_state_folder_must_be_given() {
    let load = |pairs: &[(&str, &str)]| {
        Settings::load(&Overrides::default(), &HostEnv::fake(pairs.iter().copied()))
    };
    assert!(
        load(&[])
            .expect_err("accepted")
            .to_string()
            .contains("MCP_BRIDGE_STATE_DIR")
    );
    assert!(load(&[("MCP_BRIDGE_STATE_DIR", "/state")]).is_ok());
}
