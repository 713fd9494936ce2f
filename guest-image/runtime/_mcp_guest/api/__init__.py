"""What `mcp.runtime` is made of: its manual, its exceptions, and the output of earlier runs."""
