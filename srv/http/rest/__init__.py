"""REST: sessions, repos, messages and transcripts as JSON below `/api`.

`table.py` lists every call once; routing, checking what is given and the OpenAPI document are all
made from that list. The law is docs/specs/0010-rest.md.
"""
