//! Decides which files of the packages a guest gets: Python and what it needs. A guest has no
//! shell, package manager or other program.

use crate::architecture::Architecture;
use crate::rootfs::{PYTHON, STDLIB};
use crate::tree::TreePath;

/// The only files and folders that are kept.
const KEPT: [&str; 8] = [
    "etc/ethertypes",
    "etc/mime.types",
    "etc/protocols",
    "etc/rpc",
    "etc/services",
    "usr/lib",
    "usr/share/ca-certificates",
    "usr/share/zoneinfo",
];

/// Data of other programs below the kept folders.
const DROPPED: [&str; 9] = [
    "usr/lib/binfmt.d",
    "usr/lib/debug",
    "usr/lib/mime",
    "usr/lib/sysusers.d",
    "usr/lib/tmpfiles.d",
    "usr/share/zoneinfo/leap-seconds.list",
    "usr/share/zoneinfo/leapseconds",
    "usr/share/zoneinfo/posix",
    "usr/share/zoneinfo/right",
];

/// Prefixes below the folder of shared libraries: unused modules of libc and OpenSSL, and debugging
/// aids.
const DROPPED_LIBRARIES: [&str; 17] = [
    "audit",
    "engines-3",
    "gconv",
    "ossl-modules",
    "pkgconfig",
    "libBrokenLocale.so",
    "libanl.so",
    "libc_malloc_debug.so",
    "libexpatw.so",
    "libmemusage.so",
    "libmvec.so",
    "libnsl.so",
    "libnss_compat.so",
    "libnss_hesiod.so",
    "libpcprofile.so",
    "libthread_db.so",
    "perl-base",
];

/// Modules of the standard library: tests, tools for a terminal or desktop, and installers.
const DROPPED_MODULES: [&str; 17] = [
    "EXTERNALLY-MANAGED",
    "__phello__",
    "antigravity.py",
    "curses",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "sitecustomize.py",
    "test",
    "this.py",
    "tkinter",
    "turtle.py",
    "turtledemo",
    "venv",
    "__hello__.py",
];

/// Prefixes of extension modules that lack their library, test the interpreter or inspect other
/// processes.
const DROPPED_EXTENSIONS: [&str; 10] = [
    "_crypt.",
    "_ctypes_test",
    "_curses",
    "_dbm.",
    "_gdbm.",
    "_remote_debugging",
    "_test",
    "_xxtest",
    "readline.",
    "xx",
];

/// The modules of the interactive console that `pdb` and `pydoc` import; the rest needs a terminal.
const KEPT_OF_CONSOLE: [&str; 5] = [
    "__init__.py",
    "pager.py",
    "trace.py",
    "types.py",
    "utils.py",
];

/// Whether the image gets this file of `package`.
pub(super) fn keeps(package: &str, path: &TreePath, architecture: Architecture) -> bool {
    if package == "libc-bin" {
        return path.is_within("usr/lib/locale");
    }
    let text = path.as_str();
    if text == PYTHON || path.is_within("usr/lib64") {
        return true;
    }
    if !KEPT.iter().any(|kept| path.is_within(kept))
        || DROPPED.iter().any(|dropped| path.is_within(dropped))
    {
        return false;
    }
    let libraries = format!("usr/lib/{}/", architecture.triplet());
    if let Some(library) = text.strip_prefix(&libraries) {
        return !DROPPED_LIBRARIES
            .iter()
            .any(|dropped| library.starts_with(dropped));
    }
    match text
        .strip_prefix(STDLIB)
        .and_then(|rest| rest.strip_prefix('/'))
    {
        Some(module) => keeps_module(module),
        None => true,
    }
}

fn keeps_module(module: &str) -> bool {
    if module.starts_with("site-packages/") {
        return true;
    }
    if let Some(extension) = module.strip_prefix("lib-dynload/") {
        return !DROPPED_EXTENSIONS
            .iter()
            .any(|dropped| extension.starts_with(dropped));
    }
    if let Some(part) = module.strip_prefix("_pyrepl/") {
        return KEPT_OF_CONSOLE.contains(&part);
    }
    let top = module.split('/').next().unwrap_or(module);
    !DROPPED_MODULES.contains(&top)
        && !top.starts_with("config-3.14")
        && !module
            .split('/')
            .any(|part| matches!(part, "tests" | "test" | "idle_test" | "__pycache__"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_python_and_its_libraries_are_kept() {
        let keeps = |path: &str| {
            keeps(
                "some",
                &TreePath::known(path).expect(path),
                Architecture::Amd64,
            )
        };
        for path in [
            "usr/bin/python3.14",
            "usr/lib64/ld-linux-x86-64.so.2",
            "usr/lib/x86_64-linux-gnu/libc.so.6",
            "usr/lib/python3.14/json/__init__.py",
            "usr/lib/python3.14/unittest/mock.py",
            "usr/lib/python3.14/_pyrepl/utils.py",
            "usr/lib/python3.14/lib-dynload/_ssl.cpython-314-x86_64-linux-gnu.so",
            "usr/lib/python3.14/site-packages/thing/tests/a.py",
            "usr/share/zoneinfo/Europe/Paris",
            "etc/services",
        ] {
            assert!(keeps(path), "{path}");
        }
        for path in [
            "usr/bin/sh",
            "usr/bin/pdb3.14",
            "usr/sbin/ldconfig",
            "bin/sh",
            "usr/lib/x86_64-linux-gnu/gconv/UTF-7.so",
            "usr/lib/python3.14/test/a.py",
            "usr/lib/python3.14/json/tests/a.py",
            "usr/lib/python3.14/lib-dynload/_testcapi.so",
            "usr/lib/python3.14/lib-dynload/_dbm.cpython-314-x86_64-linux-gnu.so",
            "usr/lib/python3.14/_pyrepl/main.py",
            "usr/share/zoneinfo/leapseconds",
            "usr/share/doc/libc6/copyright",
            "etc/ld.so.conf.d/x.conf",
            "etc/passwd",
        ] {
            assert!(!keeps(path), "{path}");
        }
    }
}
