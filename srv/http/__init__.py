"""The port: who may connect, WebSocket upgrades, and plain HTTP."""
