//! The tags of a wheel: the Python, ABI and platform that it was built for.
//!
//! A wheel may have several of each (`cp314-cp314-manylinux_2_27_x86_64.manylinux_2_28_x86_64`); it
//! is compatible if one combination is.

use crate::architecture::Architecture;

/// The minor version of the guest's Python.
const MINOR: u32 = 14;

/// Why a wheel with these tags does not run in a guest with this glibc; `None` if it does.
pub(super) fn incompatibility(
    tags: &str,
    architecture: Architecture,
    glibc: Option<(u32, u32)>,
) -> Option<&'static str> {
    let mut parts = tags.rsplitn(3, '-');
    let (Some(platforms), Some(abis), Some(pythons)) = (parts.next(), parts.next(), parts.next())
    else {
        return Some("its tags are not a Python, an ABI and a platform");
    };
    // There may be a build number in front.
    let pythons = pythons.rsplit('-').next().unwrap_or(pythons);
    let is_loadable = |python| abis.split('.').any(|abi| is_loadable(python, abi));
    if !pythons.split('.').any(is_loadable) {
        return Some(if abis.ends_with('t') && pythons.contains("cp314") {
            "it is for a free-threaded Python; the image does not have one"
        } else {
            "it is for another Python; the image has CPython 3.14"
        });
    }
    let mut mismatches = platforms
        .split('.')
        .map(|platform| platform_mismatch(platform, architecture, glibc));
    // One compatible platform is enough.
    let first = mismatches.next()?;
    if mismatches.any(|mismatch| mismatch.is_none()) {
        return None;
    }
    first
}

/// Whether the guest's Python loads modules built for this Python and ABI.
fn is_loadable(python: &str, abi: &str) -> bool {
    let minor = |prefix: &str| python.strip_prefix(prefix)?.parse::<u32>().ok();
    match (python, abi) {
        ("py3", "none") | ("cp314", "cp314" | "none") => true,
        (_, "none") => minor("py3").is_some_and(|minor| minor <= MINOR),
        // Later versions keep the stable ABI.
        (_, "abi3") => minor("cp3").is_some_and(|minor| (2..=MINOR).contains(&minor)),
        _ => false,
    }
}

/// How a platform differs from the guest's; `None` if it does not.
fn platform_mismatch(
    platform: &str,
    architecture: Architecture,
    glibc: Option<(u32, u32)>,
) -> Option<&'static str> {
    if platform == "any" {
        return None;
    }
    let Some(system) = platform.strip_suffix(architecture.wheel_suffix()) else {
        return Some("it is for another machine");
    };
    let needed = match system {
        "linux" => return None,
        "manylinux1" => Some((2, 5)),
        "manylinux2010" => Some((2, 12)),
        "manylinux2014" => Some((2, 17)),
        system if system.starts_with("musllinux") => {
            return Some("it is for musl; the image has glibc, which needs a manylinux wheel");
        }
        system => system.strip_prefix("manylinux_").and_then(version),
    };
    match (needed, glibc) {
        (None, _) => Some("it is for another system"),
        (Some(needed), Some(glibc)) if needed > glibc => {
            Some("it is for a newer glibc than the image has")
        }
        _ => None,
    }
}

fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('_')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amd64(tags: &str) -> Option<&'static str> {
        incompatibility(tags, Architecture::Amd64, Some((2, 43)))
    }

    #[test]
    fn loadable_wheels_are_compatible() {
        for tags in [
            "py3-none-any",
            "py2.py3-none-any",
            "py310-none-any",
            "py3-none-manylinux2014_x86_64",
            "cp314-cp314-manylinux_2_43_x86_64",
            "cp314-none-any",
            "cp314-cp314-manylinux_2_99_x86_64.manylinux_2_28_x86_64",
            "cp39-abi3-manylinux1_x86_64",
            "cp37.cp314-abi3-linux_x86_64",
            "2-cp314-cp314-manylinux_2_17_x86_64.manylinux2014_x86_64",
        ] {
            assert_eq!(amd64(tags), None, "{tags}");
        }
    }

    #[test]
    fn other_wheels_are_rejected_with_a_reason() {
        for (tags, why) in [
            ("any", "not a Python"),
            ("none-any", "not a Python"),
            ("py2-none-any", "another Python"),
            ("py315-none-any", "another Python"),
            ("py4-none-any", "another Python"),
            ("cp313-cp313-manylinux_2_17_x86_64", "another Python"),
            ("cp313-none-any", "another Python"),
            ("cp315-abi3-manylinux_2_17_x86_64", "another Python"),
            ("pp311-pypy311_pp73-manylinux_2_17_x86_64", "another Python"),
            ("cp314-cp314t-manylinux_2_17_x86_64", "free-threaded"),
            ("cp314-cp314-manylinux_2_17_aarch64", "another machine"),
            ("cp314-cp314-win_amd64", "another machine"),
            ("cp314-cp314-macosx_11_0_x86_64", "another system"),
            ("cp314-cp314-manylinux_2_x86_64", "another system"),
            ("cp314-cp314-manylinux_2_44_x86_64", "newer glibc"),
            ("cp314-cp314-manylinux_3_1_x86_64", "newer glibc"),
            ("cp314-cp314-musllinux_1_2_x86_64", "musl"),
            ("cp314-cp314-musllinux_1_2_x86_64.win_amd64", "musl"),
        ] {
            let reason = amd64(tags).expect(tags);
            assert!(reason.contains(why), "{tags}: {reason}");
        }
    }

    #[test]
    fn any_glibc_is_compatible_if_that_of_the_guest_is_unknown() {
        let tags = "cp314-cp314-manylinux_2_99_aarch64";
        assert_eq!(incompatibility(tags, Architecture::Arm64, None), None);
    }
}
