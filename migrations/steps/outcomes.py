"""What can become of an item, as the ledger says it; the meanings are in
docs/specs/0005-migrations.md."""

IMPORTED = "imported"
DAMAGED = "damaged"
PRESENT = "present"
KEPT = "kept"
ARCHIVED = "archived"
SEEDED = "seeded"
IN_USE = "in use"
CLOSED = "closed"
NOTED = "noted"
