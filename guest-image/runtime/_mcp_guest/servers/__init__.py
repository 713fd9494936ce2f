"""MCP servers as Python modules: proxies, argument checks, docs, results, and the calls to the
host."""
