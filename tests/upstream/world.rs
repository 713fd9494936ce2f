//! What the tests share: a folder with a definition file, and the servers that it defines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bridge_catalog::{Catalog, Definition, SearchPaths, Watcher};
use bridge_upstream::{
    CallContext, Error, Event, Interact, Options, Payload, Question, Reply, ToolList, Upstreams,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

pub(crate) const STUB: &str = env!("CARGO_BIN_EXE_stub-server");

pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) upstreams: Arc<Upstreams>,
    search_paths: SearchPaths,
    catalog: Catalog,
}

/// The entry of a stub with this scenario.
pub(crate) fn stub(scenario: &Value) -> Value {
    json!({"command": STUB, "args": [scenario.to_string()]})
}

impl World {
    /// A world of these servers, each with its scenario.
    pub(crate) fn new(scenarios: &[(&str, Value)]) -> Self {
        let entries = scenarios
            .iter()
            .map(|(name, scenario)| ((*name).to_owned(), stub(scenario)))
            .collect();
        Self::with(&Value::Object(entries), Self::options())
    }

    /// A world of one server called `stub`.
    pub(crate) fn stub(scenario: Value) -> Self {
        Self::new(&[("stub", scenario)])
    }

    /// A world with these entries in its definition file.
    pub(crate) fn with(entries: &Value, options: Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("servers.json");
        std::fs::write(&file, json!({"mcpServers": entries}).to_string()).unwrap();
        let nowhere = folder.path().join("nowhere");
        let search_paths = SearchPaths {
            extra: Some(file),
            ..SearchPaths::new(
                nowhere.clone(),
                nowhere.clone(),
                nowhere,
                options.environment.clone(),
            )
        };
        let catalog = Catalog::load(search_paths.clone());
        assert_eq!(catalog.problems(), []);
        Self {
            folder,
            upstreams: Arc::new(Upstreams::new(options)),
            search_paths,
            catalog,
        }
    }

    pub(crate) fn options() -> Options {
        let path = ("PATH".to_owned(), "/usr/bin:/bin".to_owned());
        let hush = ("BRIDGE_ONLY".to_owned(), "not for servers".to_owned());
        Options {
            environment: BTreeMap::from([path, hush]),
            ..Options::default()
        }
    }

    /// The definitions, read again when their file changes.
    pub(crate) fn watcher(&self) -> Arc<Watcher> {
        Arc::new(Watcher::new(self.search_paths.clone()))
    }

    pub(crate) fn definition(&self, name: &str) -> &Arc<Definition> {
        self.catalog.definition(name).unwrap()
    }

    /// The tools of `stub`.
    pub(crate) async fn tools(&self) -> Result<Arc<ToolList>, Error> {
        let stub = self.definition("stub");
        self.upstreams.tools(stub, &soon()).await
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Calls a tool of `stub` and waits at most 20 s.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Value, Error> {
        self.call_with(tool, arguments, &soon()).await
    }

    pub(crate) async fn call_with(
        &self,
        tool: &str,
        arguments: Value,
        context: &CallContext,
    ) -> Result<Value, Error> {
        let arguments = Payload::of(&arguments);
        let result = self
            .upstreams
            .call(self.definition("stub"), tool, arguments, context)
            .await;
        result.map(|result| result.value())
    }
}

/// A context in which a call that hangs ends soon enough for a test.
pub(crate) fn soon() -> CallContext {
    within(Duration::from_secs(20))
}

pub(crate) fn within(time: Duration) -> CallContext {
    CallContext {
        deadline: Some(Instant::now() + time),
        ..CallContext::default()
    }
}

/// What the stub has recorded, one value per line.
pub(crate) fn record(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The stub may be in the middle of a line.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Waits until the record has a line that `wanted` recognises. The file is all that can be seen of
/// the other process.
pub(crate) async fn recorded(path: &Path, wanted: impl Fn(&Value) -> bool) -> Value {
    let patience = Instant::now() + Duration::from_secs(20);
    while Instant::now() < patience {
        if let Some(found) = record(path).into_iter().find(&wanted) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not recorded: {:#?}", record(path));
}

/// A client that answers as told and passes on what it is shown.
pub(crate) struct Client {
    pub(crate) reply: Reply,
    pub(crate) offers: Value,
    pub(crate) asked: mpsc::UnboundedSender<Question>,
    pub(crate) told: mpsc::UnboundedSender<Event>,
}

#[async_trait]
impl Interact for Client {
    fn offers(&self) -> Value {
        self.offers.clone()
    }

    async fn request(&self, question: Question) -> Reply {
        let _ = self.asked.send(question);
        self.reply.clone()
    }

    fn notify(&self, event: Event) {
        let _ = self.told.send(event);
    }
}

/// A context with such a client, and what it is asked and told.
pub(crate) fn client(
    reply: Reply,
) -> (
    CallContext,
    mpsc::UnboundedReceiver<Question>,
    mpsc::UnboundedReceiver<Event>,
) {
    let (asked, questions) = mpsc::unbounded_channel();
    let (told, events) = mpsc::unbounded_channel();
    (
        CallContext {
            interact: Arc::new(Client {
                reply,
                offers: json!({"elicitation": {"form": {}}, "sampling": {}}),
                asked,
                told,
            }),
            ..soon()
        },
        questions,
        events,
    )
}

pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "inputSchema": {"type": "object"}})
}

pub(crate) fn no_arguments() -> Payload {
    Payload::of(&json!({}))
}
