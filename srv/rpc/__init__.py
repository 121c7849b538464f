"""What a pane speaks: JSON-RPC 2.0 over WebSocket, in JSON or MessagePack frames."""
