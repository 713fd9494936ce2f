//! The sandbox from the inside, as code that wants to get out sees it, and from the engine's side.

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, Kind, each_engine, limit};
use serde_json::{Value, json};

/// Runs a script of `probes/` in the guest and returns the JSON object that it prints.
#[track_caller]
fn probe(bridge: &mut Bridge, script: &str) -> Value {
    let answer =
        bridge.call(&json!({"code": script, "timeout": 60, "max_output_tokens": 1_000_000}));
    serde_json::from_str(answer.succeeded())
        .unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

fn guest_has_no_privileges(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let found = probe(&mut bridge, include_str!("probes/privileges.py"));
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(found["status"][set], "0000000000000000", "{set}");
    }
    assert_eq!(found["status"]["NoNewPrivs"], "1");
    assert_eq!(found["status"]["Seccomp"], "2", "a filter");
    assert_eq!(found["status"]["Uid"], "65534\t65534\t65534\t65534");
    assert_eq!(found["status"]["Gid"], "65534\t65534\t65534\t65534");
    let groups = &found["status"]["Groups"];
    assert!(
        groups == "" || groups == "65534",
        "no supplementary groups: {groups}"
    );
    assert_eq!(found["setuid_files"], json!([]));
    assert_eq!(
        found["programs"],
        json!(["/usr/bin/python3.14"]),
        "no shell, no tools"
    );
    assert_eq!(
        found["other_processes"],
        json!([]),
        "it sees its own processes only"
    );
    // Each call fails with EPERM (1) or ENOSYS (38); 0 would be success.
    for (call, errno) in found["calls"].as_object().unwrap() {
        assert!(
            [json!(1), json!(38)].contains(errno),
            "{call} is refused, not {errno}"
        );
    }
}

fn guest_has_no_network(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let found = probe(&mut bridge, include_str!("probes/network.py"));
    assert_eq!(
        found["unix_pair"], "works",
        "Python's own machinery needs it"
    );
    for family in ["inet", "inet6", "netlink", "packet", "vsock"] {
        assert_eq!(found[family], "refused", "{family}");
    }
    for address in found["interfaces"].as_array().unwrap() {
        assert_eq!(address, "lo");
    }
}

fn guest_can_write_only_to_its_own_folders(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let found = probe(&mut bridge, include_str!("probes/files.py"));
    // multiprocessing needs /dev/shm.
    assert_eq!(
        found["writable"],
        json!([
            "/dev/shm",
            "/projects",
            "/tmp",
            "/workspace",
            "/workspace/out"
        ])
    );
    for (place, mebibytes) in [
        ("/tmp", 64),
        ("/workspace", 128),
        ("/projects", 64),
        ("/dev/shm", 64),
    ] {
        assert_eq!(found["sizes"][place], json!(mebibytes), "{place}");
        assert_eq!(
            found["options"][place],
            json!(["nodev", "noexec", "nosuid"]),
            "{place}"
        );
    }
    assert_eq!(
        found["execution"],
        json!({"/tmp": "refused", "/workspace": "refused", "/projects": "refused", "/dev/shm": "refused"})
    );
    assert_eq!(
        found["filled"], "ENOSPC",
        "a full /tmp is the guest's own affair"
    );
    assert_eq!(
        found["readable_kernel_files"],
        json!([]),
        "what tells of the host is masked"
    );
    assert_eq!(bridge.run("print('alive')").succeeded(), "alive\n");
}

fn guest_sees_nothing_of_the_host(engine: &EngineUnderTest) {
    let secret = format!("hunter2-{}", std::process::id());
    let builder = Builder::new(Some(engine))
        .variable("MY_TOKEN", &secret)
        .variable("GITHUB_TOKEN", format!("ghp_{secret}"));
    let home = builder.home().path().display().to_string();
    let mut bridge = builder.start();
    let found = probe(&mut bridge, include_str!("probes/host.py"));
    let mut environment = found["environment"].as_object().unwrap().clone();
    // What engines add by themselves reveals nothing.
    for (name, value) in [
        ("HOSTNAME", "guest"),
        ("TERM", "xterm"),
        ("container", "podman"),
    ] {
        if environment.get(name) == Some(&json!(value)) {
            environment.remove(name);
        }
    }
    assert_eq!(
        Value::Object(environment),
        json!({"HOME": "/workspace", "LANG": "C.UTF-8", "PATH": "/usr/bin", "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "agg"})
    );
    let everything = found.to_string();
    let host_name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for text in [
        secret.as_str(),
        home.as_str(),
        "docker.sock",
        "podman.sock",
        "mcp-code-bridge",
        env!("CARGO_MANIFEST_DIR"),
    ] {
        assert!(!everything.contains(text), "{text} is seen in the guest");
    }
    assert_ne!(found["host_name"], host_name.trim());
    let devices: Vec<&str> = found["devices"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let known = "core fd full mqueue null ptmx pts random shm stderr stdin stdout tty urandom zero";
    for device in devices {
        assert!(
            known.split(' ').any(|known| known == device),
            "/dev/{device}"
        );
    }
}

fn engine_reports_a_hardened_container(engine: &EngineUnderTest) {
    // A spare guest may be starting, in a state that bollard's types do not know.
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_SPARE", "off")
        .start();
    bridge.run("1").succeeded();
    let owned = engine.containers_of(bridge.pid());
    assert!(!owned.is_empty());
    for id in owned {
        let container = engine
            .block(engine.client.inspect_container(&id, None))
            .unwrap();
        let host = container.host_config.unwrap();
        let settings = container.config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("none"));
        assert_eq!(host.readonly_rootfs, Some(true));
        assert_eq!(host.privileged, Some(false));
        assert_eq!(host.auto_remove, Some(true), "removed with its process");
        assert_eq!(settings.user.as_deref(), Some("65534:65534"));
        assert_eq!(settings.stop_timeout, Some(0), "removal need not wait");
        assert!(
            host.binds.unwrap_or_default().is_empty(),
            "nothing of the host is mounted"
        );
        assert!(host.devices.unwrap_or_default().is_empty());
        assert!(host.port_bindings.unwrap_or_default().is_empty());
        if engine.enforces_limits() {
            assert_eq!(host.memory, Some(512 << 20));
            assert_eq!(
                host.memory_swap,
                Some(512 << 20),
                "swap does not extend the limit"
            );
            assert_eq!(host.pids_limit, Some(128));
        }
        let labels = settings.labels.unwrap();
        for label in ["instance", "owner-pid", "owner-start", "boot-id", "session"] {
            assert!(
                labels.contains_key(&format!("io.mcp-code-bridge.{label}")),
                "{label}: {labels:?}"
            );
        }
    }
}

fn memory_limit_is_named_as_the_reason(engine: &EngineUnderTest) {
    if !engine.enforces_limits() {
        return refused_unless_allowed(engine);
    }
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_MEMORY", "64m")
        .start();
    let answer = bridge
        .run("kept = 1\nblocks = []\nwhile True:\n    blocks.append(bytearray(b'x' * (4 << 20)))");
    answer.failed("error", "killed: memory limit 64 MiB reached");
    assert_eq!(answer.state(), "lost");
    assert!(
        answer.text().contains("variables are lost"),
        "{}",
        answer.text()
    );
    let next = bridge.run("print('kept' in globals())");
    assert_eq!(next.succeeded(), "False\n");
    // A SIGKILL from elsewhere is not taken for the kernel's, even after one of the kernel's.
    let answer = bridge.run("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)");
    answer.failed("error", "exit 137 (SIGKILL)");
    assert!(!answer.text().contains("memory"), "{}", answer.text());
}

fn process_limit_is_an_error_in_the_code(engine: &EngineUnderTest) {
    if !engine.enforces_limits() {
        return refused_unless_allowed(engine);
    }
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_PIDS", "32")
        .start();
    let found = probe(&mut bridge, include_str!("probes/forks.py"));
    let forks = found["forks"].as_u64().unwrap();
    assert!(
        (8..32).contains(&forks),
        "{forks} forks before the limit of 32"
    );
    assert_eq!(found["error"], "EAGAIN");
    assert_eq!(bridge.run("print('alive')").succeeded(), "alive\n");
}

fn open_files_are_limited(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let found = "import resource, subprocess, sys\nfound = 'import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE))'\nexec(found)\nsubprocess.run([sys.executable, '-c', found], check=True)";
    let limits = "(1024, 1024) (0, 0)\n";
    assert_eq!(bridge.run(found).succeeded(), limits.repeat(2));
    let answer = bridge.run("resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 2048))");
    answer.failed("error", "ValueError");
    let answer = bridge.run(
        "files = []\ntry:\n    while True: files.append(open('/dev/null'))\nexcept OSError as error:\n    count = len(files)\n    files.clear()\n    print(error.strerror, 900 < count < 1024)",
    );
    assert_eq!(answer.succeeded(), "Too many open files True\n");
}

/// If limits cannot be enforced, the error names them and nothing runs, unless the settings allow
/// it.
fn refused_unless_allowed(engine: &EngineUnderTest) {
    assert_eq!(engine.kind, Kind::PodmanRootless);
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_ALLOW_UNENFORCED", "")
        .start();
    let answer = bridge.run("print('ran')");
    answer.failed("error", "allow_unenforced");
    for word in ["memory", "pids", "512 MiB", "128"] {
        assert!(
            answer.text().contains(word),
            "{word} is named: {}",
            answer.text()
        );
    }
    assert_eq!(answer.stdout(), "");
    let pid = bridge.pid();
    bridge.finish();
    engine.assert_nothing_left_of(pid);

    let mut partly = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_ALLOW_UNENFORCED", "memory")
        .start();
    let answer = partly.run("print('ran')");
    answer.failed("error", "pids");
    assert!(
        !answer.text().contains("512 MiB"),
        "what is allowed is not complained of: {}",
        answer.text()
    );

    let mut allowed = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_ALLOW_UNENFORCED", "memory,pids")
        .start();
    assert_eq!(allowed.run("print('ran')").succeeded(), "ran\n");
}

fn ordinary_programs_run(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let answer = bridge.call(&json!({"code": include_str!("probes/workload.py"), "timeout": 100}));
    assert!(
        answer.succeeded().ends_with("all parts work\n"),
        "{}",
        answer.text()
    );
    let id = bridge.ask_run(&json!({"code": "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(1)'], check=True)"}));
    assert_eq!(bridge.answer(id, limit(20)).succeeded(), "1\n");
}

each_engine!(
    guest_has_no_privileges,
    guest_has_no_network,
    guest_can_write_only_to_its_own_folders,
    guest_sees_nothing_of_the_host,
    engine_reports_a_hardened_container,
    memory_limit_is_named_as_the_reason,
    process_limit_is_an_error_in_the_code,
    open_files_are_limited,
    ordinary_programs_run,
);
