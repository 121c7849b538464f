"""The protocol, in pure tests and through real daemons."""
