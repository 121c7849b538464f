"""Where statements meet a database: one small interface (`base`) and its SQLite implementation."""
