"""Asking before something is done that cannot be taken back."""

import os
import sys

from srv.cli.options import Invocation, UsageError


def can_ask(call: Invocation, purpose: str) -> None:
    """Refuse now what would have to be asked later, where nobody can be asked."""
    if "yes" not in call.flags and not (os.isatty(0) and call.screen.is_error_terminal):
        raise UsageError(f"there is no terminal to ask on: give --yes to {purpose}", call.verb)


def is_agreed(call: Invocation, question: str) -> bool:
    """Ask, unless told not to. The question must be harmless."""
    if "yes" in call.flags:
        return True
    call.screen.end_progress()
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
