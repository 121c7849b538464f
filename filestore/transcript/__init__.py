"""Transcripts: what a conversation is, its turns, and its export as a workflow. Pure.

No database, no clock, no randomness: whoever stores transcripts calls this before it writes and
after it reads. The law is docs/specs/0009-transcripts-and-export.md.
"""

from filestore.transcript.message import (
    NewMessage,
    Part,
    Role,
    Row,
    check_new_message,
    check_row,
    numbered,
)
from filestore.transcript.rest import row_of_message
from filestore.transcript.start import Start, check_agent_slug, check_start
from filestore.transcript.turns import (
    TURNS_MAX,
    Said,
    Turn,
    check_turn_limit,
    completed_turns,
    count_user_rows,
    resume,
    turn_cap,
    turns_of,
)
from filestore.transcript.workflow import Transcript, export, workflow_id
from filestore.transcript.yaml import to_yaml

__all__ = [
    "TURNS_MAX",
    "NewMessage",
    "Part",
    "Role",
    "Row",
    "Said",
    "Start",
    "Transcript",
    "Turn",
    "check_agent_slug",
    "check_new_message",
    "check_row",
    "check_start",
    "check_turn_limit",
    "completed_turns",
    "count_user_rows",
    "export",
    "numbered",
    "resume",
    "row_of_message",
    "to_yaml",
    "turn_cap",
    "turns_of",
    "workflow_id",
]
