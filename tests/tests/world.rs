//! Containers that do not belong to the bridge, made with testcontainers.

use std::collections::HashMap;
use std::path::Path;

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{StartContainerOptions, TagImageOptionsBuilder};
use futures_util::StreamExt;
use integration_tests::{EngineUnderTest, engine};
use testcontainers::core::{AccessMode, Mount};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};

/// A name for the guest image, because testcontainers finds images by name only.
const REPOSITORY: &str = "localhost/mcb-test-world";

/// Arguments that make Python wait until SIGTERM.
const SLEEP: [&str; 4] = [
    "-I",
    "-S",
    "-c",
    "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit()); signal.pause()",
];

async fn image(engine: &EngineUnderTest) -> GenericImage {
    let digests = engine::image_digests();
    let options = TagImageOptionsBuilder::new()
        .repo(REPOSITORY)
        .tag("1")
        .build();
    for id in [&digests.config, &digests.manifest] {
        if engine
            .client
            .tag_image(id, Some(options.clone()))
            .await
            .is_ok()
        {
            break;
        }
    }
    GenericImage::new(REPOSITORY, "1").with_entrypoint("/usr/bin/python3.14")
}

/// Uses no network of the engine, as there may be none.
fn offline(request: ContainerRequest<GenericImage>) -> ContainerRequest<GenericImage> {
    request.with_host_config_modifier(|host| host.network_mode = Some("none".to_owned()))
}

/// Starts a container with these labels.
pub(crate) async fn sleeper(
    engine: &EngineUnderTest,
    labels: HashMap<String, String>,
) -> ContainerAsync<GenericImage> {
    let request = image(engine).await.with_cmd(SLEEP).with_labels(labels);
    offline(request).start().await.unwrap()
}

/// Starts a container as a dead bridge would have left it, and returns its ID. Uses the engine's
/// API, since testcontainers fails if the container is removed before it has inspected it, and any
/// bridge may remove it at once.
pub(crate) async fn leftover(engine: &EngineUnderTest, labels: HashMap<String, String>) -> String {
    let _ = image(engine).await;
    let body = ContainerCreateBody {
        image: Some(format!("{REPOSITORY}:1")),
        entrypoint: Some(vec!["/usr/bin/python3.14".to_owned()]),
        cmd: Some(SLEEP.map(str::to_owned).to_vec()),
        labels: Some(labels),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let created = engine.client.create_container(None, body).await.unwrap();
    let start = engine
        .client
        .start_container(&created.id, None::<StartContainerOptions>)
        .await;
    assert!(
        matches!(
            start,
            Ok(())
                | Err(Error::DockerResponseServerError {
                    status_code: 404 | 409,
                    ..
                })
        ),
        "it starts, unless it is reaped already: {start:?}"
    );
    created.id
}

/// Runs Python in the image with read-only folders of this machine; returns its exit status and
/// output.
pub(crate) async fn python(
    engine: &EngineUnderTest,
    arguments: &[&str],
    folders: &[(&Path, &str)],
    variables: &[(&str, &str)],
) -> (i64, String) {
    let mut request = image(engine).await.with_cmd(arguments.iter().copied());
    for (from, to) in folders {
        request = request.with_mount(
            Mount::bind_mount(from.display().to_string(), *to)
                .with_access_mode(AccessMode::ReadOnly),
        );
    }
    for (name, value) in variables {
        request = request.with_env_var(*name, *value);
    }
    let container = offline(request).start().await.unwrap();
    // Does not inspect the container, as bollard's types do not know all of podman's states.
    let code = match engine
        .client
        .wait_container(container.id(), None)
        .next()
        .await
        .unwrap()
    {
        Ok(ended) => ended.status_code,
        Err(Error::DockerContainerWaitError { code, .. }) => code,
        Err(error) => panic!("the engine waits for the container: {error}"),
    };
    let stdout = container.stdout_to_vec().await.unwrap();
    let stderr = container.stderr_to_vec().await.unwrap();
    (
        code,
        format!(
            "{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        ),
    )
}
