//! Lists and descriptions of containers, of which only what is needed is read.
//!
//! Podman names states that Docker's API does not have (`stopped`, `initialized`), mostly for a
//! moment. A container in such a state must hide neither the others nor itself.

use std::collections::HashMap;
use std::time::Duration;

use bollard::errors::Error as ApiError;
use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::ListContainersOptionsBuilder;
use serde::Deserialize;
use serde_json::Value;

use super::{DockerEngine, QUESTION};
use crate::{ContainerId, Error};

/// How often a refused list is asked for again: podman refuses it when a container is removed
/// meanwhile.
const TRIES: u32 = 10;
/// How long to wait in between.
const PAUSE: Duration = Duration::from_millis(100);

/// A container in a list.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    #[serde(rename = "Id")]
    pub(super) id: String,
    #[serde(rename = "Labels", default)]
    labels: Option<HashMap<String, String>>,
}

impl Listed {
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.as_ref()?.get(name).map(String::as_str)
    }
}

impl DockerEngine {
    /// Containers with a label, in whatever state; or all that run.
    pub(super) async fn listed(&self, label: Option<String>) -> Result<Vec<Listed>, Error> {
        let options = ListContainersOptionsBuilder::default().all(label.is_some());
        let options = match label {
            Some(label) => options.filters(&HashMap::from([("label", vec![label])])),
            None => options,
        };
        let options = options.build();
        let mut tries = 0;
        loop {
            let list = async {
                match self.client.list_containers(Some(options.clone())).await {
                    Ok(list) => Ok(list
                        .into_iter()
                        .filter_map(|container| {
                            Some(Listed {
                                id: container.id?,
                                labels: container.labels,
                            })
                        })
                        .collect()),
                    Err(error) => raw(error, |list: Vec<Value>| {
                        // What cannot even be named cannot be removed either.
                        let containers = list.into_iter().map(serde_json::from_value);
                        Ok(containers.filter_map(Result::ok).collect())
                    }),
                }
            };
            match self.within(QUESTION, "list containers", list).await {
                Err(Error::Rejected { .. }) if tries < TRIES => tries += 1,
                result => return result,
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The description of a container, without its state.
    pub(super) async fn described(
        &self,
        id: &ContainerId,
    ) -> Result<ContainerInspectResponse, Error> {
        let ask = async {
            let asked = self.client.inspect_container(&id.0, None).await;
            asked.or_else(|error| {
                raw(error, |mut found: Value| {
                    if let Some(fields) = found.as_object_mut() {
                        fields.remove("State");
                    }
                    serde_json::from_value(found)
                })
            })
        };
        self.within(QUESTION, "describe the guest's container", ask)
            .await
    }
}

/// Reads an answer that does not fit bollard's types with `take`; returns the old error where that
/// fails too.
fn raw<T, R: for<'a> Deserialize<'a>>(
    error: ApiError,
    take: impl FnOnce(R) -> Result<T, serde_json::Error>,
) -> Result<T, ApiError> {
    let ApiError::JsonDataError { contents, .. } = &error else {
        return Err(error);
    };
    serde_json::from_str(contents)
        .and_then(take)
        .map_err(|_| error)
}
