# `nix run .#demo`: what the sandbox is, shown by running code in it.
{ writeShellApplication, bridge }:

writeShellApplication {
  name = "mcp-code-bridge-demo";
  runtimeInputs = [ bridge ];
  text = ''
    echo "The guest image has to be $(mcp-code-bridge image digest)."
    mcp-code-bridge doctor || echo "(what fails above has to be mended first)"
    code=$(cat <<'PYTHON'
    import os, socket, sys
    print("Python", sys.version.split()[0], "as uid", os.getuid(), "and process", os.getppid(), "->", os.getpid())
    print("variables:", sorted(os.environ))
    for what, act in {
        "write to /usr": lambda: open("/usr/x", "w"),
        "reach the network": lambda: socket.create_connection(("192.0.2.1", 80), 1),
        "find a shell": lambda: os.execv("/bin/sh", ["sh"]),
    }.items():
        try:
            act()
            print(what + ": possible!")
        except OSError as error:
            print(what + ":", error.strerror)
    PYTHON
    )
    echo
    mcp-code-bridge run -c "$code"
    echo
    echo "As an MCP server, with a client that is told this command: $(command -v mcp-code-bridge)"
  '';
  meta.description = "Show what code in mcp-code-bridge's sandbox sees and may do";
}
