//! Gives a session the servers that a call of `run_python` asks for: names checked, servers started
//! side by side, and what the guest needs for their proxies.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;

use super::{GuestError, Scope};
use bridge_catalog::{Catalog, Definition, ServerName};
use bridge_tools::{ServerTools, Tool};
use bridge_upstream::{CallContext, Status, ToolList};
use bridge_wire::{ServerCard, ToolCard};

/// More servers in one call are more likely a mistake than a wish.
const MOST_SERVERS: usize = 100;

/// What loading has come to.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Servers whose proxies the guest has to make, or make anew.
    pub install: Vec<LoadedServer>,
    /// Servers that were tried and are not up, and why.
    pub failed: Vec<(ServerName, GuestError)>,
    /// Servers that failed in an earlier call and were not tried again, because this call has
    /// nothing to do with them.
    pub left: Vec<(ServerName, GuestError)>,
    /// Names of other servers that could be loaded.
    pub known: Vec<String>,
}

/// Why a server of the session is not up.
pub(super) struct Failure {
    /// The hash of the definition that was tried.
    of: String,
    /// The server was still starting when the call had waited for as long as it could.
    was_starting: bool,
    refusal: GuestError,
}

/// A server that is up, and its tools.
#[derive(Debug, Clone)]
pub struct LoadedServer {
    /// The definition that the server was started from.
    pub definition: Arc<Definition>,
    /// Tools of the server with their names in Python.
    pub tools: Arc<ServerTools>,
}

impl LoadedServer {
    /// What the guest needs to make proxies for the server's tools.
    pub fn card(&self) -> ServerCard<'_> {
        ServerCard {
            name: &self.definition.name.0,
            alias: &self.definition.alias,
            description: self.definition.description.as_deref(),
            tools: tool_cards(&self.tools),
        }
    }
}

/// What the guest needs to make proxies for these tools.
pub(super) fn tool_cards(tools: &ServerTools) -> Vec<ToolCard<'_>> {
    let card = |(tool, alias)| to_card(tool, alias);
    tools.iter().map(card).collect()
}

fn to_card<'a>(tool: &'a Tool, alias: &'a str) -> ToolCard<'a> {
    ToolCard {
        name: &tool.name,
        alias,
        description: tool.description.as_deref().or(tool.title.as_deref()),
        input_schema: &tool.input_schema,
        output_schema: tool.output_schema.as_ref(),
    }
}

impl Scope {
    /// Adds `servers` to what the session may use and brings up all that it may use. A name that
    /// nobody knows refuses the whole call before anything is started; a server that does not come
    /// up costs only itself, and later calls nothing: it is tried again by one that asks for it,
    /// whose `code` mentions it, or when its definition has changed.
    pub async fn load(
        &self,
        servers: &[String],
        code: &str,
        context: &CallContext,
    ) -> Result<Loaded, GuestError> {
        let catalog = self.broker.catalog().await;
        if servers.len() > MOST_SERVERS {
            let message = format!(
                "servers has {} names; at most {MOST_SERVERS} can be loaded in one call",
                servers.len()
            );
            return Err(GuestError::new(super::Kind::Type, message));
        }
        let mut asked = Vec::new();
        for name in servers {
            let definition = catalog.definition(name);
            asked.push(
                definition
                    .map_err(|error| GuestError::new(super::Kind::Name, error.to_string()))?,
            );
        }
        *self.catalog.lock() = Some(Arc::clone(&catalog));
        self.allowed
            .lock()
            .extend(asked.iter().map(|definition| definition.name.clone()));

        let mut loaded = Loaded::default();
        let allowed: HashSet<ServerName> = self.allowed().into_iter().collect();
        let definitions = catalog
            .definitions()
            .filter(|definition| allowed.contains(&definition.name));
        // What was loaded before is only looked at again: a server that has gone down since comes
        // up when it is called.
        let (new, old): (Vec<_>, Vec<_>) = definitions.partition(|definition| {
            asked.iter().any(|asked| asked.name == definition.name)
                || !self.installed.lock().contains_key(&definition.name)
        });
        let (new, left): (Vec<_>, Vec<_>) = new.into_iter().partition(|definition| {
            asked.iter().any(|asked| asked.name == definition.name)
                || mentions(code, definition)
                || self.failure(definition).is_none()
                || self.has_come_up(definition)
        });
        // A call that ends while it waits here must not leave the wait to the next one.
        for definition in &new {
            let name = &definition.name;
            let message = format!(
                "server \"{name}\" was still starting when the call that asked for it ended"
            );
            let refusal = GuestError::new(super::Kind::Timeout, message).of_server(name);
            self.note_failure(definition, true, refusal);
        }
        let starts = new.into_iter().map(|definition| async move {
            (definition, self.broker.tools(definition, context).await)
        });
        for (definition, tools) in join_all(starts).await {
            match tools {
                Ok(tools) => {
                    self.failures.lock().remove(&definition.name);
                    self.install(definition, tools, &mut loaded);
                }
                Err(mut refusal) => {
                    let redactor = self.broker.redactor(&catalog).await;
                    refusal.message = redactor.text(&refusal.message).into_owned();
                    let was_starting = matches!(self.status(definition), Status::Starting(_));
                    self.note_failure(definition, was_starting, refusal.clone());
                    loaded.failed.push((definition.name.clone(), refusal));
                }
            }
        }
        loaded.left.extend(
            left.into_iter().filter_map(|definition| {
                Some((definition.name.clone(), self.failure(definition)?))
            }),
        );
        for definition in old {
            if let Some(tools) = self.broker.book.tools(definition) {
                self.install(definition, tools, &mut loaded);
            }
        }
        loaded.known = known(&catalog, &allowed);
        Ok(loaded)
    }

    /// Why the server did not come up, where it was last tried with its present definition.
    fn failure(&self, definition: &Definition) -> Option<GuestError> {
        let failures = self.failures.lock();
        let failure = failures.get(&definition.name)?;
        (failure.of == definition.hash).then(|| failure.refusal.clone())
    }

    fn note_failure(&self, definition: &Definition, was_starting: bool, refusal: GuestError) {
        let failure = Failure {
            of: definition.hash.clone(),
            was_starting,
            refusal,
        };
        self.failures
            .lock()
            .insert(definition.name.clone(), failure);
    }

    /// Whether a server that an earlier call did not wait for is there by now.
    fn has_come_up(&self, definition: &Definition) -> bool {
        let failures = self.failures.lock();
        let failure = failures.get(&definition.name);
        failure.is_some_and(|failure| failure.was_starting)
            && matches!(self.status(definition), Status::Running { .. })
    }

    fn status(&self, definition: &Definition) -> Status {
        self.broker.upstreams.status(&definition.name)
    }

    /// Adds the server to what the guest is given, unless the guest has it already.
    fn install(&self, definition: &Arc<Definition>, tools: Arc<ServerTools>, loaded: &mut Loaded) {
        let mut installed = self.installed.lock();
        let before = installed.insert(definition.name.clone(), Arc::clone(&tools));
        if before.is_none_or(|before| *before != *tools) {
            loaded.install.push(LoadedServer {
                definition: Arc::clone(definition),
                tools,
            });
        }
    }
}

/// Whether code may be about a server: it mentions the server's variable, its module, or its name
/// as a string.
fn mentions(code: &str, definition: &Definition) -> bool {
    let (name, alias) = (&definition.name.0, &definition.alias);
    [
        format!("mcp_{alias}"),
        format!("servers.{alias}"),
        format!("\"{name}\""),
        format!("'{name}'"),
    ]
    .iter()
    .any(|spoken| code.contains(spoken.as_str()))
}

fn known(catalog: &Catalog, allowed: &HashSet<ServerName>) -> Vec<String> {
    let others = catalog
        .definitions()
        .filter(|definition| !allowed.contains(&definition.name));
    others.map(|definition| definition.name.0.clone()).collect()
}

impl super::Broker {
    /// The tools of a server, as the server lists them; the book notes them.
    pub(super) async fn tools(
        &self,
        definition: &Arc<Definition>,
        context: &CallContext,
    ) -> Result<Arc<ServerTools>, GuestError> {
        let list = self.upstreams.tools(definition, context).await?;
        Ok(self.name_tools(definition, &list))
    }

    /// The tools of a list with their names in Python, which are made once for each list and not
    /// with each call.
    pub(super) fn name_tools(
        &self,
        definition: &Definition,
        list: &Arc<ToolList>,
    ) -> Arc<ServerTools> {
        if let Some((of, tools)) = self.named.lock().get(&definition.name)
            && Arc::ptr_eq(of, list)
        {
            return Arc::clone(tools);
        }
        let tools = self.book.learn(definition, list.tools.clone());
        self.named.lock().insert(
            definition.name.clone(),
            (Arc::clone(list), Arc::clone(&tools)),
        );
        tools
    }
}
