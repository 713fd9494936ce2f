//! The lists of a server: asked for by one caller at a time, kept until the server says that they
//! changed.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::Server;
use crate::connection::RequestContext;
use crate::deadline::until;
use crate::failure::Failure;
use crate::list::{self, Pages};
use crate::start::RunningServer;
use crate::tool_list::ToolList;
use crate::{CallContext, Error};

/// The method that lists tools.
const TOOLS: &str = "tools/list";
/// Time for all pages of a list together.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

impl Server {
    /// The tools of the server, asked for only where the known list may be old.
    pub(crate) async fn tools(
        self: &Arc<Self>,
        context: &CallContext,
    ) -> Result<Arc<ToolList>, Error> {
        if let Some(known) = self.fresh_tools() {
            return Ok(known);
        }
        let deadline = self.list_deadline(context);
        let turn = tokio::select! {
            turn = self.tools_request.lock() => turn,
            () = context.cancel.cancelled() => {
                let (server, act) = (self.name().clone(), TOOLS.to_owned());
                return Err(Error::Cancelled { server, act });
            }
            () = until(Some(deadline)) => {
                return Err(Error::TimedOut {
                    server: self.name().clone(),
                    act: TOOLS.to_owned(),
                    after: LIST_TIMEOUT,
                    non_protocol: String::new(),
                });
            }
        };
        if let Some(known) = self.fresh_tools() {
            return Ok(known);
        }
        let pages = self.pages(TOOLS, "tools", context, deadline).await;
        let (running, (entries, incomplete)) =
            pages.inspect_err(|_| self.tools_stale.store(true, Ordering::SeqCst))?;
        let mut list = list::read_tools(entries, incomplete);
        running.connection.tools_listed(&mut list);
        let list = Arc::new(self.compare(list));
        *self.tools.lock() = Some(Arc::clone(&list));
        drop(turn);
        self.worked();
        Ok(list)
    }

    fn fresh_tools(&self) -> Option<Arc<ToolList>> {
        self.known_tools()
            .filter(|_| !self.tools_stale.load(Ordering::SeqCst))
    }

    /// Leaves out what the definition does not let through, and notes what has disappeared since
    /// the last list.
    fn compare(&self, mut list: ToolList) -> ToolList {
        for (tool, reason) in &list.skipped {
            tracing::warn!(server.name = %self.name(), tool.name = tool, reason, "tool skipped");
        }
        if let Some(reason) = &list.incomplete {
            tracing::warn!(server.name = %self.name(), reason, "list of tools is incomplete");
        }
        list.tools
            .retain(|tool| self.definition.tools.lets_through(&tool.name));
        if let Some(old) = self.known_tools() {
            let earlier = old.tools.iter().map(|tool| &tool.name).chain(&old.gone);
            let gone: HashSet<String> = earlier
                .filter(|name| list.get(name).is_none())
                .take(1000)
                .cloned()
                .collect();
            list.gone = gone;
        }
        list
    }

    /// All entries of a list other than tools.
    pub(crate) async fn list(
        self: &Arc<Self>,
        method: &'static str,
        key: &str,
        context: &CallContext,
    ) -> Result<Vec<Value>, Error> {
        let deadline = self.list_deadline(context);
        let (_, (entries, incomplete)) = self.pages(method, key, context, deadline).await?;
        if let Some(reason) = incomplete {
            tracing::warn!(server.name = %self.name(), method, reason, "list is incomplete");
        }
        self.worked();
        Ok(entries)
    }

    /// All pages of a list, and the server that gave them. A server that ended before it can have
    /// seen the request is started again, once.
    async fn pages(
        self: &Arc<Self>,
        method: &'static str,
        key: &str,
        context: &CallContext,
        deadline: Instant,
    ) -> Result<(Arc<RunningServer>, Pages), Error> {
        let mut running = self.connect(context).await?;
        let mut restarted = false;
        loop {
            if method == TOOLS {
                // Before asking: a change while the list is read makes the list old again.
                self.tools_stale.store(false, Ordering::SeqCst);
            }
            let context_of_page = || request_context(context, deadline);
            match list::pages(&running.connection, method, key, context_of_page).await {
                Err(Failure::Closed { sent: false, .. }) if !restarted => {
                    restarted = true;
                    running.connection.ended().await;
                    running = self.connect(context).await?;
                }
                Err(failure) => return Err(self.error(method, failure, &running)),
                Ok(pages) => return Ok((running, pages)),
            }
        }
    }

    fn list_deadline(&self, context: &CallContext) -> Instant {
        let own = Instant::now() + self.definition.call_timeout.unwrap_or(LIST_TIMEOUT);
        context.deadline.map_or(own, |deadline| deadline.min(own))
    }
}

fn request_context(context: &CallContext, deadline: Instant) -> RequestContext<'_> {
    RequestContext {
        deadline: Some(deadline),
        ..RequestContext::of(&context.cancel)
    }
}
