//! The measurements. Compared sides take turns.

use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use integration_tests::bridge::Builder;
use integration_tests::{Bridge, EngineUnderTest, limit, process, until};
use serde_json::json;

use crate::floor::Container;
use crate::rootfs::Rootfs;

const BARE: &[&str] = &["/usr/bin/python3.14", "-I", "-S", "-c", "print(1)"];

/// Python that parses each line as JSON and writes it back, which any protocol over attached stdio
/// must do.
const ECHO: &[&str] = &[
    "/usr/bin/python3.14",
    "-I",
    "-S",
    "-c",
    "import json, sys\nprint('ready', flush=True)\nfor line in sys.stdin:\n    print(json.dumps(json.loads(line)), flush=True)",
];

/// Median and tail of a series, in milliseconds.
pub(crate) struct Series {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Series {
    pub(crate) fn of(mut values: Vec<Duration>) -> Self {
        values.sort_unstable();
        let at = |percent: usize| {
            milliseconds(values[(values.len() * percent / 100).min(values.len() - 1)])
        };
        Self {
            p50: at(50),
            p99: at(99),
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn median(values: Vec<Duration>) -> f64 {
    Series::of(values).p50
}

/// Time from spawning the bridge to its answer to `initialize`.
pub(crate) fn initialize(rounds: usize) -> f64 {
    let once = || answered(Builder::new(None));
    median((0..rounds).map(|_| once()).collect())
}

/// Time from spawning a bridge that finds no engine to its answer to `initialize`.
pub(crate) fn answered(builder: Builder<'_>) -> Duration {
    let builder = builder.variable("PATH", "/nowhere");
    let begun = Instant::now();
    let mut bridge = builder.spawn();
    bridge.initialize("2025-11-25");
    begun.elapsed()
}

pub(crate) struct Cold {
    pub(crate) bridge_output: f64,
    pub(crate) bridge_end: f64,
    pub(crate) floor_output: f64,
    pub(crate) floor_end: f64,
    pub(crate) image_output: f64,
}

/// The bridge's `run`, and through the engine's API a bare Python and the image's entrypoint, in
/// turns.
pub(crate) fn cold(engine: &EngineUnderTest, rounds: usize) -> Cold {
    let mut series: [Vec<Duration>; 5] = Default::default();
    for _ in 0..rounds {
        let (output, end) = bridge_run(Builder::new(Some(engine)));
        series[0].push(output);
        series[1].push(end);
        let mut bare = Container::start(engine, Some(BARE));
        bare.line();
        series[2].push(bare.started.elapsed());
        let started = bare.started;
        bare.finish();
        series[3].push(started.elapsed());
        let mut guest = Container::start(engine, None);
        guest.line();
        series[4].push(guest.started.elapsed());
    }
    let [
        bridge_output,
        bridge_end,
        floor_output,
        floor_end,
        image_output,
    ] = series.map(median);
    Cold {
        bridge_output,
        bridge_end,
        floor_output,
        floor_end,
        image_output,
    }
}

/// Times from the start of `run` to its output and to its end.
pub(crate) fn bridge_run(builder: Builder<'_>) -> (Duration, Duration) {
    let (mut command, _home) = builder.command();
    command
        .args(["run", "-c", "print(1)"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let begun = Instant::now();
    let mut child = command.spawn().expect("the bridge can be started");
    let mut stdout = child.stdout.take().expect("its standard output is a pipe");
    let mut first = [0; 2];
    stdout.read_exact(&mut first).expect("it prints 1");
    let output = begun.elapsed();
    assert_eq!(&first, b"1\n");
    let status = child.wait().expect("a child can be waited for");
    assert!(status.success(), "{status}");
    (output, begun.elapsed())
}

pub(crate) struct GuestStart {
    pub(crate) ready: f64,
    pub(crate) bare: f64,
}

/// Times of the guest to its `ready` frame and of a bare Python to its first output, in turns.
/// `None` without root.
pub(crate) fn guest_start(archive: &Path, rounds: usize) -> Option<GuestStart> {
    let root = Rootfs::unpack(archive)?;
    let turns = (0..rounds).map(|_| (root.ready(), root.bare()));
    let (ready, bare): (Vec<_>, Vec<_>) = turns.unzip();
    Some(GuestStart {
        ready: median(ready),
        bare: median(bare),
    })
}

pub(crate) struct Guest {
    pub(crate) frame: Series,
    pub(crate) echo: Series,
}

/// Round trips of frames to the image's entrypoint and of lines to an echo, in turns.
pub(crate) fn guest(engine: &EngineUnderTest, rounds: usize) -> Guest {
    let mut container = Container::start(engine, None);
    container.line();
    let mut echo = Container::start(engine, Some(ECHO));
    echo.line();
    let execute = |id: usize| {
        let mut line = json!({"type": "execute", "id": id, "cell": id, "code": "pass", "limits": {"output_bytes": 1_048_576}}).to_string();
        line.push('\n');
        line.into_bytes()
    };
    let (mut frames, mut echoes) = (Vec::new(), Vec::new());
    for id in 1..=rounds + 50 {
        let line = execute(id);
        let frame = container.exchange(&line);
        let answer = echo.exchange(&line);
        if id > 50 {
            frames.push(frame);
            echoes.push(answer);
        }
    }
    Guest {
        frame: Series::of(frames),
        echo: Series::of(echoes),
    }
}

/// Times of empty calls of `run_python` on a ready session, as a raw JSON-RPC client sees them.
pub(crate) fn warm(engine: &EngineUnderTest, rounds: usize) -> Series {
    let mut bridge = Bridge::on(engine);
    bridge.run("pass").succeeded();
    // The session is ready when its start is over, including that of the spare guest.
    let pid = bridge.pid();
    until(limit(20), "the spare guest to be there", || {
        (engine.containers_of(pid).len() == 2).then_some(())
    });
    bridge.run("import time; time.sleep(1)").succeeded();
    for _ in 0..50 {
        bridge.run("pass").succeeded();
    }
    let mut once = || {
        let begun = Instant::now();
        bridge.run("pass");
        begun.elapsed()
    };
    Series::of((0..rounds).map(|_| once()).collect())
}

pub(crate) struct Flood {
    pub(crate) peak_megabytes: f64,
    pub(crate) seconds: f64,
}

/// The bridge's peak memory while a guest prints gigabytes.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub(crate) fn flood(engine: &EngineUnderTest, gigabytes: u64) -> Flood {
    let mut bridge = Builder::new(Some(engine))
        .variable("MCP_BRIDGE_MAX_TIMEOUT", "1h")
        .start();
    bridge.run("pass").succeeded();
    let code = format!(
        "import os\nblock = b'x' * 999_999 + b'\\n'\nfor _ in range({gigabytes} * 1000):\n    view = memoryview(block)\n    while view:\n        view = view[os.write(1, view):]"
    );
    let begun = Instant::now();
    let id = bridge.ask_run(&json!({"code": code, "timeout": 3000}));
    bridge.answer(id, limit(3000)).succeeded();
    let peak = process::peak_resident_bytes(bridge.pid()).unwrap_or_default();
    Flood {
        peak_megabytes: peak as f64 / 1e6,
        seconds: begun.elapsed().as_secs_f64(),
    }
}

/// The sizes of the files in an archive's layers.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub(crate) fn unpacked_megabytes(archive: &Path) -> f64 {
    let mut total = 0;
    let mut outer =
        tar::Archive::new(std::fs::File::open(archive).expect("the archive can be opened"));
    for entry in outer.entries().expect("the archive is a tar") {
        let entry = entry.expect("the archive is whole");
        let is_layer = entry.size() > 1_000_000;
        if is_layer {
            for file in tar::Archive::new(entry)
                .entries()
                .expect("a layer is a tar")
            {
                total += file.expect("the layer is whole").size();
            }
        }
    }
    total as f64 / 1e6
}
