//! Every tool list that is known, whether or not its server runs, in memory and in the cache on disk.

use std::collections::HashMap;
use std::sync::Arc;

use bridge_catalog::{Catalog, Definition};
use bridge_common::Mutex;

use crate::cache::ToolCache;
use crate::search::{Findings, Index, IndexedServer};
use crate::tool::{ServerTools, Tool};

/// Lists in memory; more definitions than that come only from endless edits.
const LISTS: usize = 4096;

/// Every tool list that is known, by the hash of its server's definition.
#[derive(Debug)]
pub struct ToolBook {
    cache: Option<ToolCache>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the hash of the definition. `None`: the cache was read and has no list.
    lists: HashMap<String, Option<Arc<ServerTools>>>,
    /// The last index, with the servers that it was made of.
    index: Option<(Vec<IndexedServer>, Arc<Index>)>,
}

impl ToolBook {
    /// An empty book over a cache.
    pub fn new(cache: Option<ToolCache>) -> Self {
        Self {
            cache,
            state: Mutex::default(),
        }
    }

    /// Remembers the list that a server sent, and writes it to the cache if it has changed.
    pub fn learn(&self, definition: &Definition, tools: Vec<Tool>) -> Arc<ServerTools> {
        let known = self.tools(definition);
        let list = ServerTools::new(definition, tools);
        if let Some(known) = known.filter(|known| **known == list) {
            return known;
        }
        let list = Arc::new(list);
        if let Some(cache) = &self.cache {
            cache.store(definition, &list.tools);
        }
        self.state
            .lock()
            .lists
            .insert(definition.hash.clone(), Some(Arc::clone(&list)));
        list
    }

    /// The last known list of a server, from memory or the cache.
    pub fn tools(&self, definition: &Definition) -> Option<Arc<ServerTools>> {
        if let Some(list) = self.state.lock().lists.get(&definition.hash) {
            return list.clone();
        }
        let tools = self.cache.as_ref().and_then(|cache| cache.read(definition));
        let list = tools.map(|tools| Arc::new(ServerTools::new(definition, tools)));
        let mut state = self.state.lock();
        if state.lists.len() >= LISTS {
            state.lists.clear();
        }
        // Another thread may have learned a newer list since the lookup above.
        state
            .lists
            .entry(definition.hash.clone())
            .or_insert(list)
            .clone()
    }

    /// Ranks all known tools of all servers; at most `limit` are returned.
    pub fn search(&self, catalog: &Catalog, query: &str, limit: usize) -> Findings {
        let mut servers = Vec::new();
        let mut unknown = Vec::new();
        for definition in catalog.definitions() {
            match self.tools(definition) {
                Some(tools) => servers.push(IndexedServer {
                    name: definition.name.clone(),
                    alias: definition.alias.clone(),
                    tools,
                }),
                None => unknown.push(definition),
            }
        }
        self.index(servers).search(query, limit, &unknown)
    }

    fn index(&self, servers: Vec<IndexedServer>) -> Arc<Index> {
        if let Some((known, index)) = &self.state.lock().index
            && *known == servers
        {
            return Arc::clone(index);
        }
        let index = Arc::new(Index::new(&servers));
        self.state.lock().index = Some((servers, Arc::clone(&index)));
        index
    }
}
