//! Questions within an answer, passed through rmcp unchanged: its types would sort and cut the
//! schemas of forms.

use std::borrow::Cow;

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ClientRequest, CustomResult, ErrorData, InputRequiredResult, MetaObject,
    ProtocolVersion, ServerConfig, ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, Service};
use serde_json::{Map, Value, json};

use super::Server;

/// Key of the metadata that carries the questions through rmcp.
const QUESTIONS: &str = "io.mcp-code-bridge/questions";

/// The server as rmcp serves it: puts the questions of answers back where the protocol wants them.
pub(super) struct QuestionPassthrough(pub(super) Server);

/// An answer that asks the client `questions`; the client calls again with `state`.
pub(super) fn input_required(questions: Map<String, Value>, state: String) -> InputRequiredResult {
    let mut meta = MetaObject::new();
    meta.0.insert(QUESTIONS.to_owned(), questions.into());
    InputRequiredResult::from_request_state(state).with_meta(meta)
}

fn with_questions(result: ServerResult) -> ServerResult {
    match result {
        ServerResult::InputRequiredResult(InputRequiredResult {
            meta: Some(mut meta),
            request_state,
            ..
        }) => {
            let questions = meta.0.shift_remove(QUESTIONS);
            ServerResult::CustomResult(CustomResult(json!({
                "resultType": "input_required",
                "inputRequests": questions,
                "requestState": request_state,
            })))
        }
        other => other,
    }
}

impl Service<RoleServer> for QuestionPassthrough {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        Service::handle_request(&self.0, request, context)
            .await
            .map(with_questions)
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Service::handle_notification(&self.0, notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.0)
    }
}
