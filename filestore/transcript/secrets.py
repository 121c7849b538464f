"""Whether a value looks like a key or token, which must not be stored. Pure.

Three looks, in this order: the forms of known issuers; a value that its name, or a word before it,
says is secret; and characters so mixed that no person chose them. Hashes in hex, UUIDs, paths,
addresses and words are harmless unless their name says otherwise. What was found is told by its
kind; the value itself is never shown.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from filestore.transcript.secret_forms import FORMS

NAMED_CHARS_MIN = 12
MIXED_CHARS_MIN = 24
UNCASED_CHARS_MIN = 40

_NAME_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = frozenset([
    "token", "secret", "password", "passwd", "passphrase", "credential", "credentials", "jwt",
    "authorization", "bearer", "apikey", "authtoken", "accesstoken", "secretkey",
])  # fmt: skip
_KEY_KINDS = frozenset(("api", "access", "secret", "private", "signing", "encryption", "auth"))

# The value is only looked at, for it may hold an assignment itself: https://a.b/?token=…
_ASSIGNED = re.compile(
    rf"([A-Za-z][\w-]{{0,63}})[\"']?\s{{0,8}}[=:]\s{{0,8}}[\"']?"
    rf"(?=([^\s\"',;&]{{{NAMED_CHARS_MIN},256}}))"
)
_ANNOUNCED = re.compile(r"\b(?:bearer|basic|token)[ \t]+([\w.~+/=-]{16,})", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"://[^\s/:@]{0,256}:([^\s/@]{1,256})@")
_REFERENCE = re.compile(r"[$<{@*\\]|[.~]{0,2}/|%\w+%|[a-z]+:|[A-Z]:\\")
_WORDY_PIECE = re.compile(r"[A-Z]*[a-z]{0,20}|[A-Z]?[a-z]{1,20}(?:[A-Z][a-z]{1,20}){0,4}|v?\d{0,8}")
_PIECES = re.compile(r"[^A-Za-z0-9]+")

_TOKEN = re.compile(rf"[A-Za-z0-9+/_=-]{{{MIXED_CHARS_MIN},}}")
_HEX = re.compile(r"[0-9a-fA-F-]+")
_PUBLIC = re.compile(r"\b(?:(?:sha|SHA)(?:1|256|384|512)[-:]|AAAA[A-E])[A-Za-z0-9+/=]+")
_WORD = re.compile(r"[A-Z]?[a-z]{3,}")
# Of random tokens of 32 characters one in two hundred is beyond one of these.
_MIXED_RATE_MIN = 0.33
_LETTERS_RATE_MIN = 0.45
_UNCASED_RATE_MIN = 0.1
_WORDS_SHARE_MAX = 0.6


def secret_in(text: str, name: str = "") -> str:
    """What kind of secret a value looks like, given what it is called; empty if like none."""
    for what, form in FORMS:
        if form.search(text):
            return what
    if is_secret_name(name) and _is_chosen_secret(text.strip()):
        return "the secret that its name promises"
    # Digests and public keys are as random, and harmless.
    rest = _PUBLIC.sub(" ", text)
    return _announced(rest) or _unordered(rest)


def is_secret_name(name: str) -> bool:
    """True if what is called so is meant to be kept secret: apiKey, GITHUB_TOKEN, db-password."""
    words = [word.lower() for word in _NAME_WORD.findall(name)]
    if not _SECRET_WORDS.isdisjoint(words):
        return True
    return any(kind in _KEY_KINDS and word == "key" for kind, word in pairwise(words))


def _announced(text: str) -> str:
    """A secret with its announcement in front of it: in a header, an assignment, an address."""
    if any(_is_chosen_secret(found) for found in _ANNOUNCED.findall(text)):
        return "a bearer token"
    for name, value in _ASSIGNED.findall(text):
        if is_secret_name(name) and _is_chosen_secret(value):
            return "an assignment of a secret"
    if any(not _REFERENCE.match(found) for found in _IN_ADDRESS.findall(text)):
        return "an address with a password"
    return ""


def _is_chosen_secret(text: str) -> bool:
    """True for one long word that is neither made of words nor the place of something."""
    if len(text) < NAMED_CHARS_MIN or len(text.split()) != 1 or _REFERENCE.match(text):
        return False
    return not all(_WORDY_PIECE.fullmatch(piece) for piece in _PIECES.split(text))


def _unordered(text: str) -> str:
    is_found = any(_is_unordered(token) for token in _tokens(text))
    return "a random key" if is_found else ""


def _tokens(text: str) -> Iterator[str]:
    """Long runs of the characters of keys. The path of an address names what anybody may see."""
    for word in text.split():
        if "://" not in word:
            yield from _TOKEN.findall(word)


def _is_unordered(token: str) -> bool:
    """True if letters of both cases and digits follow each other as they fall.

    In names, camel case too, one kind of character is mostly followed by the same kind, and most
    characters stand in words.
    """
    kinds = [_kind(char) for char in token if char.isalnum()]
    if _HEX.fullmatch(token) or not kinds:
        return False
    changes = sum(before != after for before, after in pairwise(kinds)) / len(kinds)
    words = sum(map(len, _WORD.findall(token))) / len(kinds)
    match ("upper" in kinds, "lower" in kinds, "digit" in kinds):
        case (True, True, has_digit):
            rate_min = _MIXED_RATE_MIN if has_digit else _LETTERS_RATE_MIN
            return changes >= rate_min and words < _WORDS_SHARE_MAX
        case (False, True, True):
            is_one_piece = len(token) == len(kinds) >= UNCASED_CHARS_MIN
            return is_one_piece and changes >= _UNCASED_RATE_MIN
    return False


def _kind(char: str) -> str:
    if char.isdigit():
        return "digit"
    return "upper" if char.isupper() else "lower"
