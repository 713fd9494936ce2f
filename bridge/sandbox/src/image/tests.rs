use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex as StdMutex;

use async_trait::async_trait;
use bridge_engine::{
    Attached, ContainerId, ContainerSpec, Created, EngineReport, Error as EngineError, Exit,
    Identity, Owner,
};
use bridge_settings::EngineKind;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::*;

/// An engine that can only load images, and accepts whatever it gets.
struct LoadingEngine {
    identity: Identity,
    image: ImageFacts,
    loaded: StdMutex<Vec<Vec<u8>>>,
}

fn unsupported<T>() -> Result<T, EngineError> {
    Err(EngineError::Nonsense {
        engine: EngineKind::Docker,
        act: "do that",
        reason: "this engine only loads images".to_owned(),
    })
}

#[async_trait]
impl Engine for LoadingEngine {
    fn identity(&self) -> &Identity {
        &self.identity
    }
    async fn report(&self) -> Result<EngineReport, EngineError> {
        unsupported()
    }
    async fn ping(&self) -> Result<(), EngineError> {
        Ok(())
    }
    async fn image(&self, id: &str) -> Result<Option<ImageFacts>, EngineError> {
        let is_loaded = !self.loaded.lock().expect("no panic").is_empty();
        Ok((is_loaded && id == self.image.id).then(|| self.image.clone()))
    }
    async fn load_image(
        &self,
        mut archive: File,
        _sent: &(dyn Fn(u64) + Sync),
    ) -> Result<(), EngineError> {
        let mut bytes = Vec::new();
        archive.read_to_end(&mut bytes).expect("readable");
        self.loaded.lock().expect("no panic").push(bytes);
        Ok(())
    }
    async fn export_image(
        &self,
        _id: &str,
    ) -> Result<BoxStream<'static, Result<Bytes, EngineError>>, EngineError> {
        unsupported()
    }
    async fn create(&self, _spec: &ContainerSpec) -> Result<ContainerId, EngineError> {
        unsupported()
    }
    async fn inspect(
        &self,
        _id: &ContainerId,
        _spec: &ContainerSpec,
    ) -> Result<Created, EngineError> {
        unsupported()
    }
    async fn attach(&self, _id: &ContainerId) -> Result<Attached, EngineError> {
        unsupported()
    }
    async fn start(&self, _id: &ContainerId) -> Result<(), EngineError> {
        unsupported()
    }
    async fn wait(&self, _id: &ContainerId, _: CancellationToken) -> Result<Exit, EngineError> {
        unsupported()
    }
    async fn remove(&self, _id: &ContainerId) -> Result<(), EngineError> {
        unsupported()
    }
    async fn running(&self) -> Result<usize, EngineError> {
        unsupported()
    }
    async fn reap(&self, _owner: &Owner) -> Result<usize, EngineError> {
        unsupported()
    }
}

/// A small image of one layer, its lock and its archive.
struct Fixture {
    folder: TempDir,
    engine: LoadingEngine,
    images: Images,
    other_manifest: String,
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let layer = digest(b"layer");
        let config = json!({"architecture": "amd64", "rootfs": {"diff_ids": [layer]}}).to_string();
        let manifest =
            json!({"config": {"digest": digest(config.as_bytes())}, "layers": [{"digest": layer}]});
        let manifest = manifest.to_string();
        let (config_id, manifest_id) = (digest(config.as_bytes()), digest(manifest.as_bytes()));
        let path = |digest: &str| digest.replace("sha256:", "blobs/sha256/");
        let list = json!([{"Config": path(&config_id), "Layers": [path(&layer)]}]).to_string();
        let index = json!({"manifests": [{"digest": manifest_id}]}).to_string();
        let layout = json!({"imageLayoutVersion": "1.0.0"}).to_string();
        let archive = folder.path().join("guest.tar");
        let mut tar = tar::Builder::new(File::create(&archive).expect("created"));
        for (name, text) in [
            (path(&layer), "layer"),
            (path(&config_id), &config),
            (path(&manifest_id), &manifest),
            ("manifest.json".to_owned(), &list),
            ("index.json".to_owned(), &index),
            ("oci-layout".to_owned(), &layout),
        ] {
            let mut header = tar::Header::new_ustar();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, name, text.as_bytes())
                .expect("written");
        }
        tar.finish().expect("written");
        let digests = json!({
            "schema": 1, "flavour": "own", "architecture": "amd64", "lock": "", "runtime": "",
            "manifest": manifest_id, "config": config_id, "diff_ids": [layer],
        });
        let lock = folder.path().join("own.json");
        fs::write(folder.path().join("own.digest.json"), digests.to_string()).expect("written");
        let engine = LoadingEngine {
            identity: Identity {
                kind: EngineKind::Docker,
                version: String::new(),
                api_version: String::new(),
                endpoint: String::new(),
                origin: String::new(),
                architecture: "amd64".to_owned(),
            },
            image: ImageFacts {
                id: config_id,
                diff_ids: vec![layer],
                architecture: "amd64".to_owned(),
                os: "linux".to_owned(),
                ..ImageFacts::default()
            },
            loaded: StdMutex::default(),
        };
        let images = Images::new(ImageSettings {
            lock: Some(lock),
            archive: Some(archive),
            ..ImageSettings::default()
        });
        Self {
            folder,
            engine,
            images,
            other_manifest: digest(b"another manifest"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn archive(&self) -> Vec<u8> {
        fs::read(self.path("guest.tar")).expect("just written")
    }

    /// Writes a copy of the archive whose `index.json` names another manifest.
    fn write_with_other_index(&self, path: &Path) {
        let manifest = digest_in(&self.path("own.digest.json"), "manifest");
        let mut builder = tar::Builder::new(Vec::new());
        let archive = self.archive();
        for entry in tar::Archive::new(&*archive).entries().expect("a tar") {
            let mut entry = entry.expect("an entry");
            let mut header = entry.header().clone();
            let mut text = String::new();
            entry.read_to_string(&mut text).expect("text");
            let name = entry.path().expect("a name").into_owned();
            if name == Path::new("index.json") {
                text = text.replace(&manifest, &self.other_manifest);
            }
            header.set_size(text.len() as u64);
            builder
                .append_data(&mut header, name, text.as_bytes())
                .expect("written");
        }
        fs::write(path, builder.into_inner().expect("written")).expect("written");
    }

    async fn ready(&self, progress: OnProgress<'_>) -> Result<ImageFacts, Error> {
        self.images.ready(&self.engine, progress).await
    }

    fn loaded(&self) -> Vec<Vec<u8>> {
        self.engine.loaded.lock().expect("no panic").clone()
    }
}

fn digest_in(path: &Path, field: &str) -> String {
    let text = fs::read(path).expect("readable");
    let value: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    value[field].as_str().expect("a digest").to_owned()
}

#[tokio::test]
async fn missing_image_is_loaded_from_its_archive_once() {
    let fixture = Fixture::new();
    let ignore = |_: &str, _, _| ();
    fixture.ready(&ignore).await.expect("it is loaded");
    fixture.ready(&ignore).await.expect("it is there");
    assert_eq!(fixture.loaded(), [fixture.archive()]);
}

#[tokio::test]
async fn archive_whose_two_tables_of_contents_differ_never_reaches_the_engine() {
    let fixture = Fixture::new();
    fixture.write_with_other_index(&fixture.path("guest.tar"));
    let error = fixture.ready(&|_, _, _| ()).await.expect_err("rejected");
    assert!(matches!(error, Error::Archive { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&fixture.other_manifest), "{text}");
    assert!(text.contains("mcp-code-bridge image build"), "{text}");
    assert_eq!(fixture.loaded(), Vec::<Vec<u8>>::new());
}

#[tokio::test]
async fn archive_replaced_during_its_check_is_not_loaded() {
    let fixture = Fixture::new();
    let (verified, path) = (fixture.archive(), fixture.path("guest.tar"));
    let replace = |message: &str, _, _| {
        if message.starts_with("checking") {
            fixture.write_with_other_index(&fixture.path("other.tar"));
            fs::rename(fixture.path("other.tar"), &path).expect("renamed");
        }
    };
    fixture.ready(&replace).await.expect("what was verified");
    assert_ne!(fixture.archive(), verified);
    assert_eq!(fixture.loaded(), [verified]);
}

#[tokio::test]
async fn lock_is_read_once() {
    let fixture = Fixture::new();
    let first = fixture.images.expected("amd64").expect("readable");
    fs::remove_file(fixture.path("own.digest.json")).expect("removed");
    assert_eq!(fixture.images.expected("amd64").expect("known"), first);
    assert!(fixture.images.expected("arm64").is_err());
}
