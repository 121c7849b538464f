"""The content blocks of Claude's messages: streamed as deltas, told whole, or both."""

from filestore.replay.frames import Frame, as_text, frame_at, parse, text_at
from filestore.replay.nodes import Nodes

_CALLS = frozenset(("tool_use", "server_tool_use", "mcp_tool_use"))


class Block:
    """One block of a message."""

    __slots__ = ("json", "key", "kind", "name")

    def __init__(self, kind: str, key: str, name: str = "") -> None:
        self.kind = kind
        self.key = key
        self.name = name
        self.json: list[str] = []
        """The parameters of a call as far as they have been streamed."""


class Message:
    """What is known of a message: its blocks, and those that were streamed but not told whole."""

    __slots__ = ("blocks", "by_frame", "streamed")

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.streamed: dict[int, Block] = {}
        # Files on disk repeat frames when a session is resumed; a frame told twice is the same.
        self.by_frame: dict[tuple[str, int], Block] = {}


class Blocks:
    """Builds nodes from the blocks of all messages of a stream."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._messages: dict[str, Message] = {}
        self._count = 0
        # Which message is being streamed, by sub-agent; the agent itself is the empty one.
        self._current: dict[str, str] = {}

    def stream(self, event: Frame, parent: str) -> None:
        """Take in an event of a message that is being written."""
        kind = event.get("type")
        if kind == "message_start":
            self._count += 1
            key = text_at(frame_at(event, "message"), "id") or f"message:{self._count}"
            self._current[parent] = key
            # A message that is streamed anew is told from its beginning.
            self._messages.pop(key, None)
            return
        current = self._current.get(parent)
        index = event.get("index")
        if current is None or type(index) is not int:
            return
        if kind == "content_block_start":
            self._start(current, index, frame_at(event, "content_block"), parent)
            return
        message = self._messages.get(current)
        block = message.streamed.get(index) if message else None
        if block is None:
            return
        if kind == "content_block_delta":
            self._delta(block, frame_at(event, "delta"), parent)
        elif kind == "content_block_stop":
            self._stop(block, parent)

    def _start(self, key: str, index: int, content: Frame, parent: str) -> None:
        kind = text_at(content, "type")
        message = self._messages.setdefault(key, Message())
        block = Block(kind, f"{key}:{index}")
        if kind in _CALLS:
            block.key = text_at(content, "id") or block.key
            block.name = text_at(content, "name")
            self._nodes.tool(block.key, block.name, {}, None, parent=parent)
        message.blocks.append(block)
        message.streamed[index] = block

    def _delta(self, block: Block, delta: Frame, parent: str) -> None:
        kind = delta.get("type")
        if kind == "text_delta":
            self._nodes.grow(block.key, text_at(delta, "text"), None, parent=parent)
        elif kind == "thinking_delta":
            text = text_at(delta, "thinking")
            self._nodes.grow(block.key, text, None, is_thinking=True, parent=parent)
        elif kind == "input_json_delta":
            block.json.append(text_at(delta, "partial_json"))

    def _stop(self, block: Block, parent: str) -> None:
        if block.kind in _CALLS:
            params = parse("".join(block.json))
            if params is not None:
                self._nodes.tool(block.key, block.name, params, None, parent=parent)
            block.json.clear()
        else:
            self._nodes.close(block.key)

    def whole(
        self, key: str, uuid: str, contents: list[object], at: int | None, parent: str
    ) -> None:
        """Take in blocks of a message that are complete."""
        message = self._messages.setdefault(key, Message())
        for place, content in enumerate(contents):
            if type(content) is not dict:
                continue
            kind = text_at(content, "type")
            if kind == "text" or kind == "thinking":
                text = text_at(content, kind)
                block = self._match(message, key, kind, text, (uuid, place))
                is_thinking = kind == "thinking"
                self._nodes.markdown(block.key, text, at, is_thinking=is_thinking, parent=parent)
            elif kind in _CALLS:
                block = self._call(message, key, kind, content)
                params = frame_at(content, "input")
                self._nodes.tool(block.key, text_at(content, "name"), params, at, parent=parent)
            elif kind.endswith("_tool_result") and text_at(content, "tool_use_id"):
                result = as_text(content.get("content"))
                self._nodes.tool_result(text_at(content, "tool_use_id"), "success", result, at)

    def _match(
        self, message: Message, key: str, kind: str, text: str, frame: tuple[str, int]
    ) -> Block:
        """The block that a whole one completes or repeats; else a new one."""
        for index, block in message.streamed.items():
            if block.kind == kind:
                del message.streamed[index]
                message.by_frame[frame] = block
                return block
        known = message.by_frame.get(frame) if frame[0] else None
        if known is not None:
            return known
        # Some tell a message anew each time it has grown.
        place = frame[1]
        if place < len(message.blocks) and message.blocks[place].kind == kind:
            before = self._nodes.find(message.blocks[place].key)
            if before is not None and text.startswith(str(before.get("content", ""))):
                return message.blocks[place]
        block = Block(kind, f"{key}:{len(message.blocks)}")
        message.blocks.append(block)
        message.by_frame[frame] = block
        return block

    def _call(self, message: Message, key: str, kind: str, content: Frame) -> Block:
        call = text_at(content, "id")
        for index, block in message.streamed.items():
            if block.key == call:
                del message.streamed[index]
                return block
        for block in message.blocks:
            if block.key == call:
                return block
        block = Block(kind, call or f"{key}:{len(message.blocks)}")
        message.blocks.append(block)
        return block
