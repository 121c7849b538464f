"""The fall-back for streams that nobody recognises: every text is shown, whoever said it."""

from filestore.replay.frames import Frame, frame_at, text_at, text_of, time_ms
from filestore.replay.nodes import Nodes
from filestore.replay.user_messages import user_text

_TEXTS = ("text", "content", "message", "delta", "output", "result", "response", "msg", "summary")
_TIMES = ("timestamp", "time", "ts", "at", "created_at", "createdAt", "date")


class Generic:
    """Folds frames of unknown shape."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes

    def fold(self, frame: Frame, line: int) -> bool:
        """Show the text of a frame. False: it has none."""
        text = _text(frame)
        if not text:
            return False
        times = [time_ms(frame[key]) for key in _TIMES if key in frame]
        at = next((ms for ms in times if ms is not None), None)
        if frame.get("role") == "user" or user_text(frame):
            self._nodes.user_message(f"line:{line}", text, at)
        else:
            self._nodes.markdown(f"line:{line}", text, at)
        return True


def _text(frame: Frame) -> str:
    for key in _TEXTS:
        if key in frame:
            inner = frame_at(frame, key)
            text = text_of(frame[key]) or text_at(inner, "text") or text_of(inner.get("content"))
            if text:
                return text
    return user_text(frame)
