# Where each MCP client keeps its servers, under which key, and how it writes one: what the bridge itself reads (bridge/catalog), written.
# Paths are relative to the home folder.
{ lib, isDarwin }:

let
  application = if isDarwin then "Library/Application Support" else ".config";
  plain = command: {
    inherit command;
    args = [ ];
  };
  typed = command: { type = "stdio"; } // plain command;
in
lib.mapAttrs
  (
    _: client:
    {
      entry = plain;
    }
    // client
  )
  {
    claude-code = {
      title = "Claude Code";
      file = ".claude.json";
      key = "mcpServers";
      entry = typed;
    };
    claude-desktop = {
      title = "Claude Desktop";
      file = "${application}/Claude/claude_desktop_config.json";
      key = "mcpServers";
    };
    codex = {
      title = "Codex";
      file = ".codex/config.toml";
      key = "mcp_servers";
    };
    cursor = {
      title = "Cursor";
      file = ".cursor/mcp.json";
      key = "mcpServers";
    };
    gemini = {
      title = "Gemini CLI";
      file = ".gemini/settings.json";
      key = "mcpServers";
    };
    opencode = {
      title = "OpenCode";
      file = ".config/opencode/opencode.json";
      key = "mcp";
      entry = command: {
        type = "local";
        command = [ command ];
        enabled = true;
      };
    };
    vscode = {
      title = "VS Code";
      file = "${application}/Code/User/mcp.json";
      key = "servers";
      entry = typed;
    };
    windsurf = {
      title = "Windsurf";
      file = ".codeium/windsurf/mcp_config.json";
      key = "mcpServers";
    };
    zed = {
      title = "Zed";
      file = ".config/zed/settings.json";
      key = "context_servers";
      entry = command: { source = "custom"; } // plain command;
    };
  }
