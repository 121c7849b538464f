"""The journal below the sessions: bodies, the fold, damage."""
