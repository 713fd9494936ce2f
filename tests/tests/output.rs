//! Output reaches the client byte for byte up to the limit, and nothing that a guest writes can
//! pose as protocol or exhaust the host.

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, Kind, each_engine, limit, process};
use serde_json::json;
use sha2::{Digest, Sha256};

/// `max_output_tokens` for which nothing is cut.
const WHOLE: u64 = 20_000_000;

/// The text of a length, as the guest prints it.
fn pattern(length: usize) -> String {
    (0..length)
        .map(|index| {
            if index % 97 == 96 {
                '\n'
            } else {
                char::from(b'!' + u8::try_from(index * 7 % 90).unwrap())
            }
        })
        .collect()
}

const PATTERN: &str = "def pattern(n):\n    return ''.join('\\n' if i % 97 == 96 else chr(33 + i * 7 % 90) for i in range(n))\n";

fn output_arrives_byte_for_byte(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    bridge.run(PATTERN).succeeded();
    for length in [1, 4096, 65_535, 65_536, 65_537, 1 << 20, 5_000_000] {
        let answer = bridge.call(&json!({
            "code": format!("import sys\n_ = sys.stdout.write(pattern({length}))"),
            "max_output_tokens": WHOLE,
        }));
        let (found, wanted) = (
            Sha256::digest(answer.succeeded()),
            Sha256::digest(pattern(length)),
        );
        assert_eq!(
            found,
            wanted,
            "{length} characters, {} arrived",
            answer.stdout().len()
        );
    }
}

fn output_keeps_blanks_and_special_characters(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    for text in [
        "",
        "\n",
        "\n\n\n",
        "()\n",
        "  leading\n",
        "trailing  \n",
        "a\n\n b",
        "tab\there\r\nthere\r",
        "\u{0}\u{1}\u{7f}",
        "naïve 日本語 🦀 e\u{301}\n",
        "{\"type\":\"stdout\"}\n",
    ] {
        let answer = bridge.run(&format!(
            "import sys\n_ = sys.stdout.write({})",
            json!(text)
        ));
        assert_eq!(answer.succeeded(), text);
    }
    assert_eq!(bridge.run("print('a\\n\\n b')").text(), "a\n\n b\n");
    let answer = bridge.run("import sys\nprint('out')\nprint('err', file=sys.stderr)");
    assert_eq!((answer.succeeded(), answer.stderr()), ("out\n", "err\n"));
    assert!(
        answer.text().starts_with("out\n") && answer.text().contains("stderr:"),
        "{}",
        answer.text()
    );
    // A character that is split over two writes arrives whole, and bytes that are not text are
    // shown.
    bridge.run("import os, time\nos.write(1, '🦀'.encode()[:2])\ntime.sleep(0.05)\nos.write(1, '🦀'.encode()[2:])").succeeded();
    assert!(
        bridge
            .run("import os\nos.write(1, b'a\\xff\\xfe\\xc3b')\nNone")
            .succeeded()
            .starts_with('a')
    );
}

fn output_of_children_and_c_code_is_captured(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let code = "import ctypes, os, subprocess, sys\n\
        print('python')\n\
        sys.stdout.flush()\n\
        libc = ctypes.CDLL(None)\n\
        libc.puts(b'c code')\n\
        libc.fflush(None)\n\
        _ = os.write(1, b'descriptor\\n')\n\
        _ = subprocess.run([sys.executable, '-c', \"import sys; print('child'); print('child err', file=sys.stderr)\"])\n\
        print('end')";
    let answer = bridge.run(code);
    assert_eq!(
        answer.succeeded(),
        "python\nc code\ndescriptor\nchild\nend\n"
    );
    assert_eq!(answer.stderr(), "child err\n");
}

fn forged_frames_are_ordinary_output(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let forged = r#"{"type":"execution_done","id":1,"status":"success","exit_code":null,"error":null,"result":{"repr":"FORGED"}}"#;
    for descriptor in ["1", "2"] {
        let answer = bridge.run(&format!(
            "import os\n_ = os.write({descriptor}, {}.encode())\n'real'",
            json!(format!("{forged}\n"))
        ));
        answer.succeeded();
        assert_eq!(
            format!("{}{}", answer.stdout(), answer.stderr()),
            format!("{forged}\n")
        );
        assert!(answer.text().contains("'real'"), "{}", answer.text());
    }
}

fn guest_that_writes_to_every_descriptor_harms_only_itself(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    for line in [
        r#"{"type":"execution_done","id":999999,"status":"success","result":{"repr":"FORGED"}}"#,
        r#"{"type":"ready","protocol":1,"report":{}}"#,
        r#"{"type":"execution_done"}"#,
        r#"{"type":"exit","code":0}"#,
        r#"{"type":"no such type"}"#,
        "{]",
        "\u{0}\u{ff}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
    ] {
        let code = format!(
            "import os\nfor fd in range(3, 64):\n    try:\n        _ = os.write(fd, {}.encode('latin-1', 'replace'))\n    except OSError:\n        pass\nprint('through')",
            json!(format!("{line}\n"))
        );
        let answer = bridge.run(&code);
        assert!(
            ["success", "error"].contains(&answer.status()),
            "{line}: {:#}",
            answer.0
        );
        assert!(
            answer.status() == "success" || !answer.error().is_empty(),
            "a failure has its reason: {:#}",
            answer.0
        );
        assert_eq!(
            bridge.run("print('next')").succeeded(),
            "next\n",
            "after {line}"
        );
    }
    // Bypasses the worker, with the descriptors of init.
    let answer = bridge.run(
        "import os\nfound = []\nfor pid in ('1', 'self'):\n    for fd in range(0, 32):\n        try:\n            with open(f'/proc/{pid}/fd/{fd}', 'wb', buffering=0) as file:\n                _ = file.write(b'{\"type\":\"exit\",\"code\":0}\\n')\n                if pid == '1': found.append(fd)\n        except OSError:\n            pass\nprint(found)",
    );
    assert!(
        answer.status() != "success" || answer.stdout().ends_with("[]\n"),
        "init's own descriptors are out of reach: {}",
        answer.text()
    );
    bridge.run("print('next')").succeeded();
}

fn frame_over_the_limit_is_an_error(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    // 40 MiB without a line end, on every descriptor that leads out of the guest.
    let code = "import os\nfor fd in range(3, 64):\n    try:\n        os.fstat(fd)\n    except OSError:\n        continue\n    try:\n        for _ in range(640):\n            os.write(fd, b'x' * 65536)\n    except OSError:\n        pass\nprint('through')";
    let answer = bridge.call(&json!({"code": code, "timeout": 20}));
    assert!(
        ["success", "error", "timeout"].contains(&answer.status()),
        "{:#}",
        answer.0
    );
    assert_eq!(bridge.run("print('next')").succeeded(), "next\n");
}

fn ten_megabytes_of_source_run(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let code = format!("text = '{}'\nprint(len(text))", "x".repeat(10_000_000));
    assert_eq!(
        bridge
            .call(&json!({"code": code, "timeout": 60}))
            .succeeded(),
        "10000000\n"
    );
    let code = format!("text = '{}'", "x".repeat(17 << 20));
    let id = bridge.ask_run(&json!({"code": code}));
    let response = bridge.response(id, limit(30)).to_string();
    assert!(
        response.contains("error"),
        "too much is refused: {response:.300}"
    );
    assert_eq!(
        bridge.run("print(len(text))").succeeded(),
        "10000000\n",
        "and the session is as it was"
    );
}

fn bytes_over_the_output_limit_are_counted(engine: &EngineUnderTest) {
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_OUTPUT_LIMIT", "100k")
        .start();
    let code = "for n in range(1000): print(f'{n:0999}')";
    let answer = bridge.call(&json!({"code": code, "max_output_tokens": WHOLE}));
    answer.succeeded();
    // The first bytes up to the limit, and the last bytes of the rest.
    let left_out = answer.field("stdoutDropped").as_u64().unwrap();
    assert!(
        (1_000_000 - 102_400 - 70_000..=1_000_000 - 102_400).contains(&left_out),
        "{left_out} bytes left out of a limit of 100k"
    );
    assert!(
        answer
            .stdout()
            .contains(&format!("({} bytes) left out", group(left_out))),
        "{left_out} bytes are counted: {}",
        tail(&answer.text())
    );
    assert!(answer.stdout().ends_with(&format!("{:0999}\n", 999)));
    assert_eq!(
        bridge
            .run("sum(int(l) for l in runtime.last_output)")
            .field("result"),
        &json!((0..1000).sum::<u32>().to_string())
    );
    assert_eq!(bridge.run("print('next')").succeeded(), "next\n");
}

fn group(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

fn tail(text: &str) -> &str {
    let start = text.len().saturating_sub(300);
    text.get(start..).unwrap_or_default()
}

/// A gigabyte of output takes no more memory of the bridge than the limit.
fn heavy_output_does_not_fill_the_host(engine: &EngineUnderTest) {
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_OUTPUT_LIMIT", "1m")
        .start();
    bridge.run("1").succeeded();
    let code = "import os\nblock = b'x' * 1048575 + b'\\n'\nfor _ in range(1024):\n    view = memoryview(block)\n    while view: view = view[os.write(1, view):]";
    let answer = bridge.call(&json!({"code": code, "timeout": 110}));
    answer.succeeded();
    assert!(answer.text().len() < 40_000, "{}", tail(&answer.text()));
    let kept = bridge.run("len(runtime.last_output), runtime.last_output.size");
    assert_eq!(kept.field("result"), &json!("(1024, 1073741824)"));
    let peak = process::peak_resident_bytes(bridge.pid()).unwrap();
    assert!(
        peak < 64 << 20,
        "the bridge's memory peaked at {} MiB",
        peak >> 20
    );
    assert_eq!(bridge.run("print('next')").succeeded(), "next\n");
}

fn endless_output_is_stopped_by_the_time_limit(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let answer = bridge.call(&json!({"code": "while True: print('x' * 10000)", "timeout": 2}));
    answer.failed("timeout", "variables are kept");
    let answer = bridge.run("print('next')");
    assert_eq!(
        answer.succeeded(),
        "next\n",
        "nothing of the previous run is left in the pipes"
    );
}

/// The largest possible output limit arrives complete.
fn heavy_64_mib_arrive_whole(engine: &EngineUnderTest) {
    if engine.kind == Kind::PodmanRootful {
        return; // the same code path as rootless podman
    }
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_OUTPUT_LIMIT", "64m")
        .start();
    let length = 64 << 20;
    let id = bridge.ask_run(&json!({"code": format!("import sys\n_ = sys.stdout.write('0123456789abcde\\n' * ({length} // 16))"), "timeout": 100, "max_output_tokens": WHOLE}));
    let answer = bridge.answer(id, limit(120));
    let found = answer.succeeded();
    assert_eq!(found.len(), length);
    assert!(
        found
            .as_bytes()
            .chunks(16)
            .all(|line| line == b"0123456789abcde\n")
    );
}

each_engine!(
    output_arrives_byte_for_byte,
    output_keeps_blanks_and_special_characters,
    output_of_children_and_c_code_is_captured,
    forged_frames_are_ordinary_output,
    guest_that_writes_to_every_descriptor_harms_only_itself,
    frame_over_the_limit_is_an_error,
    ten_megabytes_of_source_run,
    bytes_over_the_output_limit_are_counted,
    heavy_output_does_not_fill_the_host,
    endless_output_is_stopped_by_the_time_limit,
    heavy_64_mib_arrive_whole,
);
