"""Everything that talks: command line, daemon, RPC, HTTP and the Python client."""
