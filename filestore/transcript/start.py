"""What a transcript is started with, checked. Pure.

{"agentSlug", "title"?, "context": {"workingDir", "fsScopeTier", "activeFile"?, "selection"?,
 "gitRef"?, "variables"?}, "agentSnapshot"?}
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, cast

from filestore.errors import SecretRefusedError
from filestore.transcript.fields import (
    a_json,
    a_name,
    a_text,
    an_object,
    below,
    fields_of,
    refuse,
)
from filestore.transcript.secrets import secret_in

if TYPE_CHECKING:
    from filestore.model import Json

SLUG_CHARS_MAX = 128
PATH_CHARS_MAX = 4096
TITLE_CHARS_MAX = 1000

_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_CONTEXT = ("workingDir", "fsScopeTier"), ("activeFile", "selection", "gitRef", "variables")


@dataclass(frozen=True, slots=True)
class Start:
    """What a transcript is started with; context and agent_snapshot as they were given."""

    agent_slug: str
    title: str | None
    context: "dict[str, Json]"
    agent_snapshot: "dict[str, Json] | None"


def check_start(value: object) -> Start:
    """The start of a transcript. Raises InvalidFieldError, or SecretRefusedError for a variable
    that looks like a key or token: it is named, and not shown.
    """
    fields = fields_of(value, "", ("agentSlug", "context"), ("title", "agentSnapshot"))
    slug = check_agent_slug(fields["agentSlug"])
    title = a_text(fields["title"], "title") if "title" in fields else None
    if title is not None and len(title) > TITLE_CHARS_MAX:
        refuse("title", f"must have at most {TITLE_CHARS_MAX} characters, not {len(title)}")
    snapshot = None
    if "agentSnapshot" in fields:
        a_json(an_object(fields["agentSnapshot"], "agentSnapshot"), "agentSnapshot")
        snapshot = cast("dict[str, Json]", fields["agentSnapshot"])
    return Start(slug, title, _context(fields["context"]), snapshot)


def check_agent_slug(value: object, path: str = "agentSlug") -> str:
    """Return `value` if it is a name in kebab case, else raise InvalidFieldError."""
    slug = a_name(value, path, SLUG_CHARS_MAX)
    if not _SLUG.fullmatch(slug):
        refuse(path, "must be kebab-case: a-z and 0-9 in words with single hyphens between them")
    return slug


def _context(value: object) -> "dict[str, Json]":
    fields = fields_of(value, "context", *_CONTEXT)
    for name, inner in fields.items():
        path = below("context", name)
        match name:
            case "selection":
                # What an editor has selected: a text, or whatever it says of places.
                if not isinstance(inner, str | dict):
                    refuse(path, "must be a string or an object")
                a_json(inner, path)
            case "variables":
                _variables(inner, path)
            case _:
                a_name(inner, path, PATH_CHARS_MAX)
    return cast("dict[str, Json]", fields)


def _variables(value: object, path: str) -> None:
    a_json(an_object(value, path), path)
    _refuse_secrets(value, path, "")


def _refuse_secrets(value: object, path: str, name: str) -> None:
    """Look at every text inside, by the nearest name above it; keys are texts as well."""
    if isinstance(value, str):
        found = secret_in(value, name)
        if found:
            _refuse_secret(path, f"looks like {found}; it was not stored")
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            _refuse_secrets(inner, below(path, place), name)
    elif isinstance(value, dict):
        for key, inner in value.items():
            found = secret_in(key)
            if found:
                # The path must not show it either.
                _refuse_secret(path, f"has a key that looks like {found}; it was not stored")
            _refuse_secrets(inner, below(path, key), key)


def _refuse_secret(path: str, what: str) -> NoReturn:
    raise SecretRefusedError(f"{path}: {what}", field=path)
