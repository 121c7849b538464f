"""The journal of a session: typed records, append-only, and the row that is their fold.

Below `filestore.sessions`, which keeps journals of what panes do; `filestore.records` is the face
for everyone else.
"""
