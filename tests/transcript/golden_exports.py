"""Transcripts of every shape, and the documents that must come of them.

`<name>.json` is the transcript, `<name>.yaml` its export, byte for byte. The exports are read line
by line when they change: they are what users' tools were written for.
"""

from pathlib import Path
from typing import Any

import orjson

from filestore.transcript import Transcript

FOLDER = Path(__file__).parent / "golden"
SHAPES = sorted(path.stem for path in FOLDER.glob("*.json"))


def read_transcript(name: str) -> Transcript:
    return transcript_of(orjson.loads((FOLDER / f"{name}.json").read_bytes()))


def transcript_of(fields: dict[str, Any]) -> Transcript:
    """The transcript that a golden file, or the spec, writes down."""
    return Transcript(
        session_id=fields["sessionId"],
        agent_slug=fields["agentSlug"],
        title=fields["title"],
        created_at=fields["createdAt"],
        updated_at=fields["updatedAt"],
        agent_snapshot=fields["agentSnapshot"],
        messages=fields["messages"],
    )


def read_export(name: str) -> bytes:
    return (FOLDER / f"{name}.yaml").read_bytes()
