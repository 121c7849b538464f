"""MCP, with real clients of the official library."""
