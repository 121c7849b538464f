"""The Model Context Protocol: sessions as tools and resources for agents. docs/specs/0012-mcp.md.

Only `zoned mcp` and the daemon's `/mcp` import this package, and only `server` and what serves it
import the library: it takes most of a second.
"""
