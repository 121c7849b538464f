"""A transcript as a workflow: a scaffold in YAML that repeats what was asked, turn by turn. Pure.

No clock, no randomness, nothing but the transcript: equal transcripts give equal bytes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from filestore.model import Json
from filestore.transcript.message import Row
from filestore.transcript.turns import Turn, completed_turns, in_order
from filestore.transcript.yaml import to_yaml

SCHEMA_VERSION = "1.0"
UNTITLED = "exported-session"

_UPPER = re.compile("[A-Z]+")
_NO_SLUG = re.compile("[^a-z0-9]+")
_OPENING = re.compile(r"\{(?=\{)")


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session as it is exported. Times are texts, as they are to stand in the document; an empty
    title is none; rows may come in any order."""

    session_id: str
    agent_slug: str
    title: str | None
    created_at: str
    updated_at: str
    agent_snapshot: Mapping[str, Json] | None
    messages: Sequence[Row]


def export(transcript: Transcript) -> bytes:
    """The document, as UTF-8.

    Raises InvalidArgumentError if two rows have the same number, or a value has no YAML.
    """
    return to_yaml({"schema_version": SCHEMA_VERSION, "workflow": _workflow(transcript)})


def workflow_id(title: str | None) -> str:
    """The id that a title gives. Only A to Z are lower-cased: what other letters become depends on
    a language, and sometimes on the version of Unicode."""
    lowered = _UPPER.sub(lambda found: found[0].lower(), title or "")
    return _NO_SLUG.sub("-", lowered).strip("-") or UNTITLED


def prompt_template(text: str) -> str:
    """A text that no reader of templates takes for one: `{{` does not occur in it."""
    return _OPENING.sub("{ ", text)


def _workflow(transcript: Transcript) -> dict[str, object]:
    rows = in_order(transcript.messages)
    nodes = [_node(number, turn, transcript.agent_slug)
             for number, turn in enumerate(completed_turns(rows), 1)]  # fmt: skip
    ids = ["input", *(str(node["id"]) for node in nodes), "output"]
    workflow: dict[str, object] = {
        "id": workflow_id(transcript.title),
        "nodes": [
            {"id": "input", "type": "input"},
            *nodes,
            {"id": "output", "type": "output"},
        ],
        "edges": [{"from": start, "to": end} for start, end in pairwise(ids)],
        "metadata": {"relaviumExport": _source(transcript, rows)},
    }
    if transcript.title:
        workflow["name"] = transcript.title
    if transcript.agent_snapshot is not None:
        workflow["agents"] = [dict(transcript.agent_snapshot)]
    return workflow


def _node(number: int, turn: Turn, agent_slug: str) -> dict[str, object]:
    node: dict[str, object] = {"id": f"turn-{number}", "type": "agent", "agent_ref": agent_slug}
    prompt, tools = prompt_template(turn.prompt), turn.tools
    if prompt:
        node["prompt_template"] = prompt
    if tools:
        node["tools"] = tools
    return node


def _source(transcript: Transcript, rows: list[Row]) -> dict[str, object]:
    """All that the workflow was made from, so that nothing is lost in it."""
    source: dict[str, object] = {
        "source": "session",
        "sessionId": transcript.session_id,
        "agentSlug": transcript.agent_slug,
        "createdAt": transcript.created_at,
        "updatedAt": transcript.updated_at,
        "messages": rows,
    }
    if transcript.title:
        source["title"] = transcript.title
    return source
