//! Answers the protocol for one server: `initialize`, `server/discover`, `tools/list`, `tools/call`.
//!
//! Promises: a request is answered in the era that it speaks, whatever came before it on the same
//! pipe; a mistake in a call's arguments is a tool error that the model can read, a request that is
//! no call is a JSON-RPC error. Leaves out what tools do, and everything that is not a tool.

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock,
        CustomRequest, CustomResult, DiscoverResult, ErrorCode, Implementation,
        InitializeRequestParams, InitializeResult, ListToolsResult, PaginatedRequestParams,
        ProtocolVersion, ServerCapabilities, ServerConfig,
    },
    service::RequestContext,
};

use crate::{
    built_in::BuiltIn,
    pipe::Handshake,
    toolbox::{Call, Toolbox},
};

/// How long a client may keep what it learned: it never changes while the process lives.
const TTL_MS: u64 = 3_600_000;

pub(crate) struct Handler {
    server: BuiltIn,
    toolbox: Toolbox,
    handshake: Handshake,
}

impl Handler {
    pub(crate) fn new(server: BuiltIn, toolbox: Toolbox) -> (Self, Handshake) {
        let handshake = Handshake::default();
        let handler = Self {
            server,
            toolbox,
            handshake: handshake.clone(),
        };
        (handler, handshake)
    }

    /// Refuses a request that belongs to neither era. The SDK has already judged the `_meta` of one
    /// that names a version.
    fn require_era(&self, context: &RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if self.handshake.is_done() || context.meta.protocol_version().is_some() {
            return Ok(());
        }
        Err(ErrorData::invalid_params(
            "no protocol version is agreed: send `initialize` first (2025-11-25 and older), or name \
             `io.modelcontextprotocol/protocolVersion` and \
             `io.modelcontextprotocol/clientCapabilities` in `_meta` (2026-07-28)",
            None,
        ))
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let name = format!("outrigger-{}", self.server);
        let mut info = ServerConfig::new(capabilities);
        info.server_info = Implementation::new(name, env!("CARGO_PKG_VERSION"))
            .with_description(self.server.description());
        info
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let answer = self.negotiate_initialize(&request)?;
        // The version agreed, not the one asked for: it decides how later requests are answered.
        let mut agreed = request;
        agreed.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(agreed);
        Ok(answer)
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info())
            .with_ttl_ms(TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.require_era(&context)?;
        if let Some(cursor) = request.and_then(|request| request.cursor) {
            let message = format!("unknown cursor `{cursor}`: all tools are on one page");
            return Err(ErrorData::invalid_params(message, None));
        }
        let list = ListToolsResult::with_all_items(self.toolbox.tools().to_vec());
        let modern = context
            .protocol_version()
            .is_some_and(|version| version >= ProtocolVersion::V_2026_07_28);
        Ok(if modern {
            list.with_ttl_ms(TTL_MS)
                .with_cache_scope(CacheScope::Public)
        } else {
            list
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.require_era(&context)?;
        let tools = self.toolbox.tools();
        let Some(tool) = tools.iter().find(|tool| tool.name == request.name) else {
            let known: Vec<String> = tools
                .iter()
                .map(|tool| format!("`{}`", tool.name))
                .collect();
            let message = format!(
                "unknown tool `{}`: the server `{}` has {}",
                request.name,
                self.server,
                known.join(", ")
            );
            return Err(ErrorData::invalid_params(message, None));
        };
        let call = Call {
            tool,
            arguments: request.arguments,
            cancelled: context.ct,
        };
        let result = match self.toolbox.call(call).await {
            Ok(reply) => CallToolResult::from(reply),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
        };
        Ok(result.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // The SDK hands known methods over as custom ones when their parameters do not parse.
        let wanted = match request.method.as_str() {
            "tools/call" => "`name` must be a string, `arguments` an object",
            "tools/list" => "`cursor` must be a string",
            "initialize" => {
                "`protocolVersion`, `capabilities` and `clientInfo` (`name`, `version`) are required"
            }
            "server/discover" | "ping" => "`params` must be an object",
            method => {
                let message = format!("the server `{}` has no method `{method}`", self.server);
                return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None));
            }
        };
        let message = format!(
            "the parameters of `{}` do not fit: {wanted}",
            request.method
        );
        Err(ErrorData::invalid_params(message, None))
    }
}
