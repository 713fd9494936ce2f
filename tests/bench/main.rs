//! Speed and size beside their lower bounds, in one run: medians of interleaved rounds, so that a
//! busy machine slows both sides alike.
//!
//! `bridge-bench [--json] [--quick] [--kept | --render]` is run by `make bench` with the engines of
//! the suite and the release build of the bridge. `--kept` measures only what outlives sessions,
//! and `--render` only rendering.
#![expect(clippy::print_stdout, reason = "a table is what it is for")]

mod calls;
mod floor;
mod kept;
mod measure;
mod render;
mod report;
mod rootfs;

use bridge_settings::OutputMode;
use integration_tests::{EngineUnderTest, Kind};
use report::{Report, Target};

fn main() {
    let has = |flag: &str| std::env::args().any(|argument| argument == flag);
    let scale = if has("--quick") { 5 } else { 1 };
    let mut report = Report::default();
    if has("--render") {
        render_part(&mut report, scale);
    } else {
        parts(&mut report, scale, has("--kept"));
    }
    if has("--json") {
        println!("{}", report.json());
    } else {
        println!("{}", report.table());
    }
}

fn parts(report: &mut Report, scale: usize, only_kept: bool) {
    if !only_kept {
        bridge_part(report, scale);
        render_part(report, scale);
    }
    kept_part(report, scale);
    for kind in [Kind::Docker, Kind::PodmanRootful, Kind::PodmanRootless] {
        let Some(engine) = EngineUnderTest::shared(kind) else {
            continue;
        };
        engine.ensure_image();
        starts_part(report, &engine, scale);
        if !only_kept {
            engine_part(report, &engine, scale);
            servers_part(report, &engine, scale);
        }
    }
}

fn bridge_part(report: &mut Report, scale: usize) {
    let binary = integration_tests::bridge::binary();
    let size = std::fs::metadata(&binary).map_or(0, |facts| facts.len());
    report.add(
        "bridge binary",
        "MB",
        megabytes(size),
        None,
        Target::Most(15.0),
    );
    report.add(
        "guest image unpacked",
        "MB",
        measure::unpacked_megabytes(&integration_tests::engine::image_archive()),
        None,
        Target::Most(48.0),
    );
    if let Some(start) =
        measure::guest_start(&integration_tests::engine::image_archive(), 30 / scale)
    {
        report.add(
            "guest ready after process start, bare Python beside it",
            "ms",
            start.ready,
            Some(start.bare),
            Target::Most(40.0),
        );
    }
    report.add(
        "initialize, no engine running",
        "ms",
        measure::initialize(30 / scale),
        None,
        Target::Most(20.0),
    );

    let [many, few] = calls::defined(None, 300 / scale);
    report.add(
        "initialize, 300 servers defined, 3 beside it",
        "ms",
        many,
        Some(few),
        Target::Times(1.05),
    );

    report.add(
        "definition files looked at, 300 servers",
        "ms",
        calls::look(2000),
        None,
        Target::Most(0.1),
    );
}

fn render_part(report: &mut Report, scale: usize) {
    for (what, mode, room) in [
        (
            "1 MB of output rendered, cut to the budget",
            OutputMode::Compact,
            32_000,
        ),
        (
            "1 MB of output rendered whole",
            OutputMode::Compact,
            1 << 24,
        ),
        (
            "1 MB of output rendered whole, toon",
            OutputMode::Toon,
            1 << 24,
        ),
    ] {
        let time = render::megabyte(mode, room, 50 / scale);
        report.add(what, "ms", time, None, Target::Most(10.0));
    }
}

fn kept_part(report: &mut Report, scale: usize) {
    let (ours, raw) = kept::writes(400 / scale);
    report.add(
        "a memory saved, a file written and synced beside it",
        "ms",
        ours,
        Some(raw),
        Target::Over(3.0),
    );
    report.add(
        "1,000 memories listed, unread before",
        "ms",
        kept::listing(30 / scale),
        None,
        Target::Most(20.0),
    );
}

fn starts_part(report: &mut Report, engine: &EngineUnderTest, scale: usize) {
    let name = |what: &str| format!("{}: {what}", engine.kind.name());
    let starts = kept::starts(engine, 11 / scale + 1);
    report.add(
        &name("first call with 1,000 memories and 100 tools, with none"),
        "ms",
        starts.much,
        Some(starts.nothing),
        Target::Over(15.0),
    );
    report.add(
        &name("the same on the spare guest"),
        "ms",
        starts.spare_much,
        Some(starts.spare_nothing),
        Target::Over(15.0),
    );
}

fn servers_part(report: &mut Report, engine: &EngineUnderTest, scale: usize) {
    let name = |what: &str| format!("{}: {what}", engine.kind.name());
    let [many, few] = calls::defined(Some(engine), 40 / scale + 1);
    report.add(
        &name("cold run, 300 servers defined, 3 beside it"),
        "ms",
        many,
        Some(few),
        Target::Times(1.05),
    );
    let (through, straight) = calls::sides(engine, 5 / scale + 1, 1000 / scale);
    report.add(
        &name("tool call p50, the SDK straight to the server beside it"),
        "ms",
        through.single.p50,
        Some(straight.single.p50),
        Target::Over(0.5),
    );
    report.add(
        &name("tool call p99"),
        "ms",
        through.single.p99,
        Some(straight.single.p99),
        Target::None,
    );
    report.add(
        &name("1,000 tool calls at once"),
        "a second",
        through.many_a_second,
        Some(straight.many_a_second),
        Target::Least(3000.0),
    );
    report.add(
        &name("50 tool calls of 100 ms at once"),
        "ms",
        through.slow_ms,
        Some(straight.slow_ms),
        Target::Most(150.0),
    );
}

fn engine_part(report: &mut Report, engine: &EngineUnderTest, scale: usize) {
    let name = |what: &str| format!("{}: {what}", engine.kind.name());
    let cold = measure::cold(engine, 21 / scale + 1);
    report.add(
        &name("cold run -c 'print(1)', to its output"),
        "ms",
        cold.bridge_output,
        Some(cold.floor_output),
        Target::Times(1.5),
    );
    report.add(
        &name("cold run -c 'print(1)', to its end"),
        "ms",
        cold.bridge_end,
        Some(cold.floor_end),
        Target::Times(1.5),
    );
    report.add(
        &name("same, by the engine's API, locked image"),
        "ms",
        cold.image_output,
        Some(cold.floor_output),
        Target::None,
    );

    let guest = measure::guest(engine, 2000 / scale);
    report.add(
        &name("frame round trip p50, raw echo beside it"),
        "ms",
        guest.frame.p50,
        Some(guest.echo.p50),
        Target::Times(2.0),
    );
    report.add(
        &name("frame round trip p99"),
        "ms",
        guest.frame.p99,
        Some(guest.echo.p99),
        Target::None,
    );

    let warm = measure::warm(engine, 1000 / scale);
    report.add(
        &name("warm no-op run_python p50"),
        "ms",
        warm.p50,
        Some(guest.echo.p50),
        Target::Most(1.0),
    );
    report.add(
        &name("warm no-op run_python p99"),
        "ms",
        warm.p99,
        Some(guest.echo.p99),
        Target::Most(4.0),
    );

    let gigabytes = if scale > 1 { 1 } else { 10 };
    let flood = measure::flood(engine, gigabytes);
    report.add(
        &name(&format!(
            "bridge memory while a guest prints {gigabytes} GB"
        )),
        "MB",
        flood.peak_megabytes,
        None,
        Target::Less(64.0),
    );
    report.add(
        &name("time for that"),
        "s",
        flood.seconds,
        None,
        Target::None,
    );
}

#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
