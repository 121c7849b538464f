"""What looks like a secret, and what does not: figures over seeded values."""

import pytest

from filestore.transcript.secret_forms import FORMS
from filestore.transcript.secrets import is_secret_name, secret_in
from tests.transcript.seeded_secrets import MAKERS, harmless, secrets

SECRETS = 1220
HARMLESS = 960
RECALL_MIN = 0.995


def test_seeded_secrets_are_found() -> None:
    """More than the 200 that were asked for: each form about twenty times."""
    missed = [(name, text) for name, text in secrets(7, SECRETS) if not secret_in(text, name)]
    recall = 1 - len(missed) / SECRETS
    print(f"recall {recall:.4f} of {SECRETS} secrets of {len(MAKERS)} forms")
    assert recall >= RECALL_MIN, missed


def test_first_seeded_secrets_are_found_all() -> None:
    """One of each form, so that none is lost in the mean."""
    found = secrets(14, len(MAKERS))
    assert [(name, text) for name, text in found if not secret_in(text, name)] == []


def test_seeded_secrets_inside_a_text_are_found() -> None:
    missed = [
        (name, text)
        for name, text in secrets(21, len(MAKERS))
        if name in ("note", "header", "x") and not secret_in(f"use this:\n  {text}\nand no other")
    ]
    assert missed == []


def test_harmless_values_are_kept() -> None:
    taken = [
        (name, text, found)
        for name, text in harmless(7, HARMLESS)
        if (found := secret_in(text, name))
    ]
    print(f"{len(taken)} of {HARMLESS} harmless values refused")
    assert taken == []


@pytest.mark.parametrize(
    "name",
    ["API_KEY", "apiKey", "APIKEY", "GITHUB_TOKEN", "authToken", "db-password", "client_secret",
     "SECRET_KEY", "signing key", "Authorization", "aws.secret.access.key", "JWT"],
)  # fmt: skip
def test_name_of_a_secret_is_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "PATH", "PWD", "max_tokens", "tokenizer", "cache_key", "primaryKey", "author", "secretary",
     "authority", "keyboard", "compass"],
)  # fmt: skip
def test_name_of_something_else_is_not(name: str) -> None:
    assert not is_secret_name(name)


def test_every_form_says_what_it_is() -> None:
    assert [what for what, _ in FORMS if not what.startswith(("a ", "an "))] == []


@pytest.mark.parametrize("text", ["a" * 300_000, "a1B2" * 80_000, "x=" * 150_000, "://:" * 80_000,
                                  "eyJ" * 100_000, "data token " * 30_000])  # fmt: skip
def test_long_value_is_looked_at_in_time(text: str) -> None:
    """Linear: the longest takes a second or so, not minutes."""
    secret_in(text, "token")
