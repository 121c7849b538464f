"""The token's file: who can read the data folder can read it, and so may connect over TCP."""

import os
import re
import secrets
import stat
from pathlib import Path

from filestore.files import FILE_MODE, replace_file, translated_os_errors
from srv.errors import ZonedError

TOKEN_NAME = "token"
TOKEN_BYTES = 32
TOKEN_FILE_BYTES_MAX = 1024
_TOKEN = re.compile(r"[A-Za-z0-9_-]{32,256}")


def load_token(data_dir: Path) -> str:
    """The token of this data folder, made at the first start. Raises ZonedError or StoreError."""
    path = data_dir / TOKEN_NAME
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return make_token(data_dir)
    except OSError as error:
        raise _bad_token(path, error.strerror or "it cannot be read") from error
    try:
        # Not by a file object: it makes an error of its own of a folder.
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise _bad_token(path, "it is not a regular file")
        if stat.S_IMODE(mode) != FILE_MODE:
            os.fchmod(descriptor, FILE_MODE)
        content = os.read(descriptor, TOKEN_FILE_BYTES_MAX)
    finally:
        os.close(descriptor)
    token = content.decode("latin-1").strip()
    if not _TOKEN.fullmatch(token):
        raise _bad_token(path, "it does not hold a token")
    return token


def make_token(data_dir: Path) -> str:
    """A new token in place of any other: a crash leaves the old or the new one. Durable."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    with translated_os_errors("token"):
        replace_file(data_dir / TOKEN_NAME, token.encode() + b"\n")
    return token


def _bad_token(path: Path, why: str) -> ZonedError:
    hint = "remove it; the next start makes a new one"
    return ZonedError(
        "UNAVAILABLE", f"the token file {str(path)!a} cannot be used: {why}", hint=hint
    )
