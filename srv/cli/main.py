"""The `zoned` command: find the verb, run it, and tell a failure in one line.

Exit codes: 0 ok, 1 failed, 2 bad invocation, 3 found problems; 130 after Ctrl-C and 141 when nobody
reads the answer any more, as shells expect. Nothing is imported that the verb does not need.
"""

import atexit
import gc
import os
import sys
from collections.abc import Sequence

EXIT_PIPE = 141
_SUBJECTS = {"INVALID_DEFINITION_ID": "defId ", "INVALID_ZONE": "zone "}
"""What is wrong, where the message only says what it must be."""
OBJECTS_MAX = 100_000
"""So many new objects before the collector looks for garbage: a command makes modules and ends, and
looking through them costs a tenth of its time. One that runs long is still looked after."""
HELPER = "__complete"
"""What completion scripts call; no verb, so neither listed nor completed itself."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if not __debug__:
            # Asserts state what only a bug can break; without them it would be written to disk.
            from srv.cli.options import UsageError

            raise UsageError("refuses to run under `python -O`: it needs its assertions")
        _open_standard_streams()
        gc.set_threshold(OBJECTS_MAX)
        # Nor is what a command leaves behind looked through at its end, which takes as long again.
        atexit.register(gc.freeze)
        if words[:1] == [HELPER]:
            from srv.cli.completion import complete

            return complete(words[1:])
        return _run(words)
    except KeyboardInterrupt:
        # In code that Python runs from a string, as it does to make a dataclass, an interrupt is
        # remembered though it is caught, and the process would die of SIGINT. The next string
        # makes Python forget it.
        exec("")
        return 130
    except BrokenPipeError:
        return EXIT_PIPE
    except Exception as error:  # the rim: whatever it is becomes one line and an exit code
        return _fail(error)


def _open_standard_streams() -> None:
    """A stream that was closed is nowhere. Else the next file opened would get its number, and a
    message meant for people would be written into the database.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _run(words: list[str]) -> int:
    from srv.cli.options import parse

    call = parse(words)
    from srv.cli.screen import Screen, say_raw

    call.screen = Screen()
    if "version" in call.flags:
        from importlib.metadata import version

        call.screen.line(f"zoned {version('zoned')}")
        call.screen.flush()
        return 0
    from srv.cli.verbs import VERBS

    if call.verb not in VERBS or "help" in call.flags:
        from srv.cli.help import text_of

        if "help" not in call.flags:
            say_raw(text_of(call.verb) + "\n")
            return 2
        call.screen.line(text_of(call.verb))
        call.screen.flush()
        return 0
    from importlib import import_module

    module, _, function = VERBS[call.verb].run.partition(":")
    code = getattr(import_module(module), function)(call)
    assert isinstance(code, int)
    call.screen.flush()
    return code


def _fail(error: Exception) -> int:
    from srv.cli.options import UsageError
    from srv.cli.screen import say
    from srv.errors import EXIT_FAILED, EXIT_USAGE, KINDS, told

    if isinstance(error, UsageError):
        where = f" {error.verb}" if error.verb else ""
        say(f"{error} (see: zoned help{where})")
        return EXIT_USAGE
    if found := told(error):
        say(f"{_SUBJECTS.get(found.kind, '')}{found}")
        return KINDS[found.kind].exit_code
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        say(f"{name}{error.strerror or error}")
        return EXIT_FAILED
    if sys.flags.dev_mode:
        raise error
    say(
        f"a bug: {type(error).__name__}: {error} (to see where, run: python -X dev -m srv.cli.main)"
    )
    return EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main())
