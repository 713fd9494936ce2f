use std::io::{Cursor, Write as _};
use std::sync::Mutex;

use tempfile::TempDir;
use zip::write::SimpleFileOptions;

use super::*;

const NATIVE: &str = "cp314-cp314-manylinux_2_28_x86_64";

/// Records the warnings.
#[derive(Default)]
struct Warnings(Mutex<Vec<String>>);

impl Progress for Warnings {
    fn report(&self, _message: &str, _done: u64, _total: Option<u64>) {}

    fn warn(&self, message: &str) {
        self.0
            .lock()
            .expect("nobody panics")
            .push(message.to_owned());
    }
}

fn wheel(metadata: &str, files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let metadata = ("x-1.dist-info/METADATA", metadata.as_bytes().to_vec());
    for (name, data) in [metadata].iter().chain(files) {
        let options = SimpleFileOptions::default();
        writer.start_file(*name, options).expect("in memory");
        writer.write_all(data).expect("in memory");
    }
    writer.finish().expect("in memory").into_inner()
}

fn named(name: &str) -> Vec<u8> {
    wheel(
        &format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1\n\nName: no\n"),
        &[],
    )
}

fn folder(files: &[(&str, Vec<u8>)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, data) in files {
        fs::write(folder.path().join(name), data).expect("a writable folder");
    }
    folder
}

fn base() -> Lock {
    Lock::embedded("base", Architecture::Amd64).expect("it is embedded")
}

fn pin(files: &[(&str, Vec<u8>)]) -> Result<(Lock, Vec<String>), Error> {
    let warnings = Warnings::default();
    let lock = pin_wheels(&base(), folder(files).path(), &warnings)?;
    Ok((lock, warnings.0.into_inner().expect("nobody panics")))
}

fn added(lock: &Lock) -> Vec<String> {
    let base = base();
    let new = lock
        .inputs
        .iter()
        .filter(|input| !base.inputs.contains(input));
    new.map(Input::file_name).collect()
}

#[test]
fn wheels_are_pinned_under_their_file_names() {
    let data = named("Some.Thing");
    let files = [
        ("Some_Thing-1.0+local-2-py3-none-any.whl", data.clone()),
        ("ruamel.yaml-1-py2.py3-none-any.whl", named("ruamel.yaml")),
        ("README.txt", b"no wheel".to_vec()),
    ];
    let (lock, warnings) = pin(&files).expect("good wheels");
    assert_eq!(added(&lock), [files[0].0, files[1].0]);
    assert_eq!(lock.libraries, base().libraries, "they need none");
    assert_eq!(warnings, Vec::<String>::new());
    let input = lock
        .inputs
        .iter()
        .find(|input| input.name() == "Some-Thing")
        .expect("it is there");
    assert_eq!(
        (input.version(), input.size()),
        ("1.0+local", data.len() as u64)
    );
    assert_eq!(input.sha256(), sha256::hex_digest(&data));
    // Wheels that the lock already has are replaced.
    let other = folder(&[("other-1-py3-none-any.whl", named("other"))]);
    let lock = pin_wheels(&lock, other.path(), &Warnings::default()).expect("a good wheel");
    assert_eq!(added(&lock), ["other-1-py3-none-any.whl"]);
}

#[test]
fn libraries_that_wheels_need_are_added() {
    let native = |needed: &[&str]| {
        let module = elf::tests::write(62, needed);
        let (lock, _) = pin(&[(
            &format!("x-1-{NATIVE}.whl"),
            wheel("Name: x\n", &[("x/m.so", module)]),
        )])
        .expect("a good wheel");
        let rest: Vec<_> = lock
            .libraries
            .iter()
            .map(|input| input.name().to_owned())
            .collect();
        (added(&lock).len() - 1, rest)
    };
    assert_eq!(native(&["libc.so.6"]).0, 0);
    let (count, rest) = native(&["libstdc++.so.6", "libm.so.6"]);
    assert_eq!(
        (count, rest),
        (2, vec!["libatomic1".to_owned()]),
        "libstdc++ needs libgcc"
    );
    assert_eq!(
        native(&["libgcc_s.so.1", "libatomic.so.1"]).1,
        ["libstdc++6"]
    );
}

#[test]
fn missing_requirements_are_warned_about() {
    let metadata = "Name: x\nRequires-Dist: Num_Py[extra] (>=2)\nRequires-Dist: y\nRequires-Dist: z; python_version < '3'\n\
        Requires-Dist: six>=1.5\n\nRequires-Dist: text\n";
    let files = [
        ("x-1-py3-none-any.whl", wheel(metadata, &[])),
        ("Y-1-py3-none-any.whl", named("Y")),
    ];
    let (_, warnings) = pin(&files).expect("good wheels");
    let missing = |name| format!("x needs {name}, which is not among the wheels");
    assert_eq!(warnings, [missing("num-py"), missing("six")]);
}

#[test]
fn unusable_wheels_are_rejected_by_name() {
    let x = || named("x");
    let long = "x".repeat(300);
    let cut = x()[..60].to_vec();
    for (file, data, words) in [
        ("x-1.tar.gz", x(), "source archive"),
        ("x-1.zip", x(), "source archive"),
        ("x.whl", x(), "not named like a wheel"),
        ("x-1-any.whl", x(), "not named like a wheel"),
        ("x-1-2-3-py3-none-any.whl", x(), "not named like a wheel"),
        (
            "x-1-cp313-cp313-manylinux_2_28_x86_64.whl",
            x(),
            "another Python",
        ),
        (
            "x-1-cp314-cp314-manylinux_2_28_aarch64.whl",
            x(),
            "another machine",
        ),
        ("x-1-cp314-cp314-musllinux_1_2_x86_64.whl", x(), "musl"),
        (
            "x-1-cp314-cp314-manylinux_2_99_x86_64.whl",
            x(),
            "newer glibc",
        ),
        ("x 1-1-py3-none-any.whl", x(), "characters"),
        (
            "x-1-py3-none-any.whl",
            named("y"),
            "its metadata says \"y\"",
        ),
        ("x-1-py3-none-any.whl", named(&long), "its metadata says"),
        (
            "x-1-py3-none-any.whl",
            wheel("", &[]),
            "its metadata says \"\"",
        ),
        (
            "x-1-py3-none-any.whl",
            cut,
            "x-1-py3-none-any.whl is damaged",
        ),
        ("x-1-py3-none-any.whl", b"<html>".to_vec(), "is damaged"),
        (
            "x-1-py3-none-any.whl",
            wheel("Name: x", &[("../x.py", vec![])]),
            "is damaged",
        ),
        (
            "x-1-py3-none-any.whl",
            Vec::new(),
            "its size is not between",
        ),
        ("x-1.txt", x(), "no wheel in"),
    ] {
        let message = pin(&[(file, data)]).expect_err(file).to_string();
        assert!(
            message.contains(words) && message.len() < 600,
            "{file}: {message}"
        );
    }
    let two = [
        ("X.y-1-py3-none-any.whl", named("X.y")),
        ("x_y-2-py3-none-any.whl", named("x-y")),
    ];
    let warnings = pin(&two).expect_err("two versions").to_string();
    assert_eq!(
        warnings,
        format!("x-y occurs twice: {} and {}", two[0].0, two[1].0)
    );
    let nowhere = pin_wheels(&base(), Path::new("/nonexistent"), &Warnings::default());
    assert!(matches!(nowhere, Err(Error::Read { .. })));
    let help = pin(&[("x-1-cp314-cp314-win32.whl", x())])
        .expect_err("no Linux")
        .to_string();
    assert!(help.contains("--platform manylinux_2_28_x86_64"), "{help}");
}

#[test]
fn damaged_file_in_a_wheel_is_found() {
    let mut data = wheel("Name: x\n", &[("x.py", b"print('hello')".repeat(3))]);
    let at = data
        .windows(5)
        .position(|bytes| bytes == b"x.py\0" || &bytes[..4] == b"x.py")
        .expect("its name");
    data[at + 6] ^= 0xff;
    let warnings = pin(&[("x-1-py3-none-any.whl", data)]).expect_err("damaged");
    assert!(matches!(warnings, Error::Damaged { .. }), "{warnings}");
}
