"""Values of old databases, where any column may hold anything. Pure."""

INTEGER_MAX = (1 << 62) - 1


class MissingError(Exception):
    """A table that is needed is missing, or one of its columns."""

    def __init__(self, table: str, message: str) -> None:
        super().__init__(message)
        self.table = table


def text(value: object) -> str:
    """Text as it was stored, or ValueError."""
    if not isinstance(value, bytes):
        raise ValueError(f"no text but {value!r}")
    return value.decode()


def shown(value: object) -> str:
    """Any value, for people."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def clean_size(value: object) -> int | None:
    """A size, or None."""
    return value if isinstance(value, int) and value >= 0 else None


def clean_ms(value: object) -> int:
    """A time in milliseconds; 0 if it is none."""
    return int(value) if isinstance(value, int | float) and 0 < value <= INTEGER_MAX else 0
