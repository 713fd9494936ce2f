//! Makes a bill of materials from a lock, as SPDX 2.3 JSON: the same bytes from the same lock.

#![expect(clippy::struct_field_names, reason = "the names are those of SPDX")]

use serde::Serialize;

use crate::digests::Digests;
use crate::lock::{Error, Input, Lock};
use crate::sha256;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    spdx_version: &'static str,
    data_license: &'static str,
    #[serde(rename = "SPDXID")]
    id: &'static str,
    name: String,
    document_namespace: String,
    creation_info: Creation,
    packages: Vec<Package>,
    relationships: Vec<Relationship>,
}

#[derive(Serialize)]
struct Creation {
    created: String,
    creators: [&'static str; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Package {
    #[serde(rename = "SPDXID")]
    id: String,
    name: String,
    version_info: String,
    download_location: String,
    files_analyzed: bool,
    license_concluded: &'static str,
    license_declared: &'static str,
    copyright_text: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    checksums: Vec<Checksum>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    external_refs: Vec<Reference>,
    primary_package_purpose: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Checksum {
    algorithm: &'static str,
    checksum_value: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference {
    reference_category: &'static str,
    reference_type: &'static str,
    reference_locator: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Relationship {
    spdx_element_id: String,
    relationship_type: &'static str,
    related_spdx_element: String,
}

const IMAGE: &str = "SPDXRef-image";
const UNKNOWN: &str = "NOASSERTION";

/// The bill of materials of the image that is built from `lock`; with `digests` it has the digest
/// of the image's manifest.
pub fn sbom(lock: &Lock, digests: Option<&Digests>) -> Result<String, Error> {
    let name = format!(
        "mcp-code-bridge-guest-{}-{}",
        lock.flavour, lock.architecture
    );
    let lock_digest = lock.digest()?;
    let manifest = digests.map(|digests| digests.manifest.trim_start_matches("sha256:").to_owned());
    let image = Package {
        checksums: manifest.iter().cloned().map(Checksum::sha256).collect(),
        ..Package::new(IMAGE.to_owned(), &name, &lock_digest, UNKNOWN, "CONTAINER")
    };
    let mut packages = vec![image];
    packages.extend(lock.inputs.iter().map(|input| package(lock, input)));
    let contained = packages[1..].iter().map(|package| Relationship {
        spdx_element_id: IMAGE.to_owned(),
        relationship_type: "CONTAINS",
        related_spdx_element: package.id.clone(),
    });
    let mut relationships = vec![Relationship {
        spdx_element_id: "SPDXRef-DOCUMENT".to_owned(),
        relationship_type: "DESCRIBES",
        related_spdx_element: IMAGE.to_owned(),
    }];
    relationships.extend(contained);
    let identity = sha256::hex_digest(format!("{lock_digest} {manifest:?}").as_bytes());
    let document = Document {
        spdx_version: "SPDX-2.3",
        data_license: "CC0-1.0",
        id: "SPDXRef-DOCUMENT",
        document_namespace: format!("urn:mcp-code-bridge:sbom:{name}:{identity}"),
        name,
        creation_info: Creation {
            created: created(&lock.snapshot),
            creators: ["Tool: guest-image"],
        },
        packages,
        relationships,
    };
    Ok(serde_json::to_string_pretty(&document)?)
}

fn package(lock: &Lock, input: &Input) -> Package {
    let id = format!("SPDXRef-{}", identifier(&input.file_name()));
    let (location, purl) = match input {
        Input::Deb {
            name,
            version,
            architecture,
            url,
            ..
        } => (
            url.as_str(),
            format!(
                "pkg:deb/debian/{name}@{}?arch={architecture}&distro={}",
                escaped(version),
                lock.suite
            ),
        ),
        Input::Wheel { name, version, .. } => {
            (UNKNOWN, format!("pkg:pypi/{name}@{}", escaped(version)))
        }
    };
    Package {
        checksums: vec![Checksum::sha256(input.sha256().to_owned())],
        external_refs: vec![Reference {
            reference_category: "PACKAGE-MANAGER",
            reference_type: "purl",
            reference_locator: purl,
        }],
        ..Package::new(id, input.name(), input.version(), location, "LIBRARY")
    }
}

impl Package {
    fn new(id: String, name: &str, version: &str, location: &str, purpose: &'static str) -> Self {
        Self {
            id,
            name: name.to_owned(),
            version_info: version.to_owned(),
            download_location: location.to_owned(),
            files_analyzed: false,
            license_concluded: UNKNOWN,
            license_declared: UNKNOWN,
            copyright_text: UNKNOWN,
            checksums: Vec::new(),
            external_refs: Vec::new(),
            primary_package_purpose: purpose,
        }
    }
}

impl Checksum {
    fn sha256(value: String) -> Self {
        Self {
            algorithm: "SHA256",
            checksum_value: value,
        }
    }
}

/// Replaces what SPDX does not allow in identifiers.
fn identifier(text: &str) -> String {
    let plain = |character: char| {
        if character.is_ascii_alphanumeric() || character == '.' {
            character
        } else {
            '-'
        }
    };
    text.chars().map(plain).collect()
}

/// Escapes a version for a package URL.
fn escaped(version: &str) -> String {
    version
        .replace('+', "%2B")
        .replace(':', "%3A")
        .replace('~', "%7E")
}

/// The snapshot time of the lock as SPDX writes it, instead of the time of this run.
fn created(snapshot: &str) -> String {
    let part = |from, to| snapshot.get(from..to).unwrap_or_default();
    format!(
        "{}-{}-{}T{}:{}:{}Z",
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(9, 11),
        part(11, 13),
        part(13, 15)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::Architecture;

    #[test]
    fn every_input_is_listed_once() {
        let lock = Lock::embedded("base", Architecture::Amd64).unwrap();
        let text = sbom(&lock, None).unwrap();
        assert_eq!(text, sbom(&lock, None).unwrap());
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let packages = document["packages"].as_array().unwrap();
        assert_eq!(packages.len(), lock.inputs.len() + 1);
        let ids: std::collections::BTreeSet<_> = packages
            .iter()
            .map(|package| package["SPDXID"].as_str())
            .collect();
        assert_eq!(ids.len(), packages.len());
        for (package, input) in packages[1..].iter().zip(&lock.inputs) {
            assert_eq!(package["checksums"][0]["checksumValue"], input.sha256());
        }
    }

    #[test]
    fn small_bill_of_materials() {
        let lock = r#"{"schema":1,"flavour":"small","architecture":"arm64","suite":"unstable","snapshot":"20261030T200801Z","inputs":[
            {"kind":"deb","name":"zlib1g","version":"1:1.3+really1-4","architecture":"arm64","sha256":"SUM","size":1,"url":"mirror://debian/pool/main/z/zlib/zlib1g_1.3_arm64.deb"},
            {"kind":"wheel","name":"six","version":"1.17","tags":"py3-none-any","sha256":"SUM","size":1}]}"#
            .replace("SUM", &"0".repeat(64));
        let lock = Lock::parse(lock.as_bytes()).unwrap();
        insta::assert_snapshot!(sbom(&lock, None).unwrap());
    }
}
