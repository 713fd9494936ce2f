//! Answers beyond plain output: cut output and its rest, previews, pictures, and files as
//! resources.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use integration_tests::bridge::Builder;
use integration_tests::{Answer, Bridge, EngineUnderTest, cli, each_engine, limit};
use serde_json::{Value, json};

/// A handmade picture of two pixels.
const PNG: &str = r#"
import struct, zlib
def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
head = chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0))
png = b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0" + b"\xff\0\0" * 2)) + chunk(b"IEND", b"")
"#;

fn blocks<'a>(answer: &'a Answer, kind: &str) -> Vec<&'a Value> {
    let all = answer.0["content"].as_array().unwrap();
    all.iter().filter(|block| block["type"] == kind).collect()
}

fn uri(path: &str) -> String {
    format!("resource://mcp-code-bridge/session/default/files/{path}")
}

/// The error message of reading this resource.
fn read_error(bridge: &mut Bridge, uri: &str) -> String {
    let id = bridge.ask("resources/read", &json!({ "uri": uri }));
    let response = bridge.response(id, limit(40));
    response["error"]["message"]
        .as_str()
        .unwrap_or_else(|| panic!("{uri} can be read: {response:.300}"))
        .to_owned()
}

fn output_over_the_budget_is_cut_and_kept_in_the_guest(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let answer = bridge.run("for n in range(20_000): print('row', n)");
    let text = answer.text();
    assert!(
        text.len() < 33_000 && text.starts_with("row 0\n") && text.ends_with("row 19999\n"),
        "{text:.300}"
    );
    assert!(
        text.contains(" left out; runtime.last_output.lines("),
        "{text:.300}"
    );
    assert_eq!(answer.stdout(), text, "both say the same");
    assert_eq!(bridge.run("runtime.last_output[777]").text(), "'row 777'");
    assert_eq!(
        bridge
            .run("runtime.outputs[1].grep('row 1999.$').numbers")
            .text(),
        "[19990, 19991, 19992, 19993, 19994, 19995, 19996, 19997, 19998, 19999]"
    );
    let small = bridge.call(&json!({"code": "print('x' * 1000)", "max_output_tokens": 100}));
    assert!(small.text().len() < 600, "{}", small.text());
}

fn unusual_values_can_be_shown(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    for (code, expected) in [
        ("float('nan')", "nan"),
        ("[float('inf'), -0.0]", "[inf, -0.0]"),
        ("b'\\xff\\x00'", "b'\\xff\\x00'"),
        ("'\\ud800'", "'\\ud800'"),
        ("10**5000", "int of 16,610 bits (kept as _r5)"),
        ("show(float('nan'))", "nan\n"),
        (
            "class J:\n    def _repr_json_(self): return [float('nan')]\nJ()",
            "[\n  NaN\n]",
        ),
    ] {
        assert_eq!(bridge.run(code).text(), expected, "{code}");
    }
    assert_eq!(bridge.run("'a\\u202eb\\x1b[31m'").status(), "success");
}

fn pictures_arrive_as_images(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let answer = bridge.run(&format!("{PNG}\nprint('drawn')\nshow(png)\npng"));
    answer.succeeded();
    let images = blocks(&answer, "image");
    assert_eq!(images.len(), 2);
    assert_eq!(images[0]["mimeType"], "image/png");
    assert!(
        images[0]["data"]
            .as_str()
            .unwrap()
            .starts_with("iVBORw0KGgo")
    );
    assert!(
        answer.text().starts_with("drawn\nshown: image/png ("),
        "{}",
        answer.text()
    );
    assert_eq!(answer.field("displays").as_array().unwrap().len(), 2);
    let svg = bridge.run("class S:\n    def _repr_svg_(self): return '<svg/>'\nS()");
    assert_eq!(blocks(&svg, "resource")[0]["resource"]["text"], "<svg/>");
    // A guest that lies about what it sends.
    let lie = "from _mcp_guest.session import session\nfrom _mcp_guest.frames import encode\nsession.calls.notify(encode({'type': 'display', 'mime': 'image/png', 'data': '<script>'}))";
    let answer = bridge.run(lie);
    assert_eq!(answer.text(), "shown: 1 more that could not be shown");
    assert_eq!(blocks(&answer, "image").len(), 0);
}

fn files_are_resources_while_their_sandbox_lives(engine: &EngineUnderTest) {
    let mut bridge = Bridge::on(engine);
    let answer = bridge.run("import os\nwith open('out/a b.csv', 'w') as f: _ = f.write('1,é')\nos.mkdir('out/sub'); open('out/sub/x.bin', 'wb').write(b'\\xff' * 3_000_000);\nopen('/workspace/secret', 'w').write('s'); os.symlink('/etc/passwd', 'out/link'); os.symlink('/', 'out/root');");
    answer.succeeded();
    let links = blocks(&answer, "resource_link");
    assert_eq!(links.len(), 2, "{:#}", answer.0);
    assert_eq!(links[0]["uri"], uri("a%20b.csv"));
    assert_eq!(links[1]["size"], 3_000_000);
    assert_eq!(
        bridge.run("1").text(),
        "1",
        "what is not new is not told again"
    );
    let mut read = |path: &str| {
        bridge.request("resources/read", &json!({"uri": uri(path)}))["contents"][0].take()
    };
    assert_eq!(
        read("a%20b.csv"),
        json!({"uri": uri("a%20b.csv"), "mimeType": "text/csv", "text": "1,é"})
    );
    assert_eq!(read("sub/x.bin")["blob"].as_str().unwrap().len(), 4_000_000);
    let list = bridge.request("resources/list", &json!({}));
    assert_eq!(list["resources"].as_array().unwrap().len(), 3, "{list:#}");
    for path in [
        "../secret",
        "%2e%2e/secret",
        "link",
        "root/etc/passwd",
        "sub",
        "",
        "missing",
        "sub/../../secret",
    ] {
        let told = read_error(&mut bridge, &uri(path));
        assert!(
            told.contains("no file") || told.contains("no resource"),
            "{path}: {told}"
        );
    }
    bridge
        .run("with open('out/large', 'wb') as f: f.truncate(9_000_000);")
        .succeeded();
    let told = read_error(&mut bridge, &uri("large"));
    assert!(
        told.contains("has 9000000 bytes; at most 8388608"),
        "{told}"
    );
    let many = bridge.run("for n in range(120): open(f'out/m{n:03}', 'w').close()");
    many.succeeded();
    assert_eq!(blocks(&many, "resource_link").len(), 100);
    assert!(
        many.text()
            .starts_with("note: 20 more new files in /workspace/out are not listed"),
        "{}",
        many.text()
    );
    bridge
        .run("for n in range(120): os.remove(f'out/m{n:03}')")
        .succeeded();
    // Files can be read while code runs.
    let running = bridge.begin(&json!({"code": "import time\nwhile not os.path.exists('out/stop'): time.sleep(0.01)", "timeout": 100}));
    let read = bridge.request("resources/read", &json!({"uri": uri("a%20b.csv")}));
    assert_eq!(read["contents"][0]["text"], "1,é");
    bridge.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": running}}));
    let _ = bridge.call(&json!({"code": "import os\nos._exit(3)"}));
    let told = read_error(&mut bridge, &uri("a%20b.csv"));
    assert!(told.contains("has no sandbox now"), "{told}");
}

fn run_saves_displays_and_files_to_a_folder(engine: &EngineUnderTest) {
    let folder = tempfile::tempdir().unwrap();
    // The bridge of the rootless engine is another user's.
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let out = folder.path().join("new");
    let code = format!("{PNG}\nopen('out/a.txt', 'w').write('hi');\npng");
    let target = out.display().to_string();
    let arguments = ["run", "--out", &target, "-c", &code];
    let ran = cli::run(Builder::new(Some(engine)), &arguments, b"");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let picture = std::fs::read(out.join("display-1.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));
    assert_eq!(std::fs::read(out.join("a.txt")).unwrap(), b"hi");
    assert!(ran.stderr.contains("saved "), "{}", ran.stderr);
}

each_engine!(
    output_over_the_budget_is_cut_and_kept_in_the_guest,
    unusual_values_can_be_shown,
    pictures_arrive_as_images,
    files_are_resources_while_their_sandbox_lives,
    run_saves_displays_and_files_to_a_folder,
);
