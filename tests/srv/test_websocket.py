"""The frames of WebSocket, without a connection: however the bytes are cut, the same comes out."""

import contextlib
import itertools
from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srv import websocket
from srv.websocket import Decoder, FrameError, Message
from tests.support.daemon import BINARY, CLOSE, PING, PONG, TEXT, frame

LIMIT = 1000
KEYS = st.binary(min_size=4, max_size=4)


@st.composite
def streams(draw: st.DrawFn) -> tuple[bytes, list[Message]]:
    """Bytes of a client that keeps the rules, and the messages in them."""
    data, messages = b"", []
    for _ in range(draw(st.integers(0, 5))):
        opcode = draw(st.sampled_from([TEXT, BINARY]))
        parts = draw(st.lists(st.binary(max_size=140), min_size=1, max_size=4))
        for index, part in enumerate(parts):
            if draw(st.booleans()):
                control = draw(st.sampled_from([PING, PONG]))
                payload = draw(st.binary(max_size=125))
                data += frame(control, payload, key=draw(KEYS))
                messages.append(Message(control, payload))
            is_final = index == len(parts) - 1
            data += frame(opcode if index == 0 else 0, part, is_final=is_final, key=draw(KEYS))
        messages.append(Message(opcode, b"".join(parts)))
    return data, messages


@given(stream=streams(), cuts=st.lists(st.integers(0, 2000), max_size=12))
def test_stream_cut_anywhere_gives_the_same_messages(
    stream: tuple[bytes, list[Message]], cuts: list[int]
) -> None:
    data, wanted = stream
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    decoder = Decoder(LIMIT, is_server=True)
    found: list[Message] = []
    for start, stop in itertools.pairwise(places):
        found += decoder.feed(data[start:stop])
    assert found == wanted
    assert decoder.pending_bytes == 0


@given(stream=streams())
def test_stream_byte_by_byte_gives_the_same_messages(stream: tuple[bytes, list[Message]]) -> None:
    decoder = Decoder(LIMIT, is_server=True)
    assert [message for byte in stream[0] for message in decoder.feed(bytes([byte]))] == stream[1]


@given(chunks=st.lists(st.binary(max_size=400), max_size=20))
def test_random_bytes_raise_nothing_else_and_keep_bounded_state(chunks: list[bytes]) -> None:
    decoder, most = Decoder(LIMIT, is_server=True), LIMIT + websocket.CONTROL_BYTES_MAX
    with contextlib.suppress(FrameError):
        for chunk in chunks:
            for message in decoder.feed(chunk):
                assert len(message.payload) <= LIMIT
            assert decoder.pending_bytes <= most
            assert decoder.pending_bytes_max <= most


BROKEN: list[tuple[bytes, int]] = [
    (frame(TEXT, b"", key=None), 1002),
    (frame(TEXT, b"", reserved=0x40), 1002),
    (frame(TEXT, b"", reserved=0x20), 1002),
    (frame(TEXT, b"", reserved=0x10), 1002),
    *((frame(opcode, b""), 1002) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)),
    (frame(0, b""), 1002),
    (frame(TEXT, b"a", is_final=False) + frame(BINARY, b"b"), 1002),
    (frame(PING, b"", is_final=False), 1002),
    (frame(PING, b"x" * 126), 1002),
    (frame(CLOSE, b"x" * 126), 1002),
    (frame(TEXT, b"", claimed=LIMIT + 1), 1009),
    (frame(TEXT, b"", claimed=1 << 40), 1009),
    (frame(TEXT, b"", claimed=(1 << 64) - 1), 1009),
    (frame(TEXT, b"x" * 600, is_final=False) + frame(0, b"", claimed=401), 1009),
]


@pytest.mark.parametrize(("data", "code"), BROKEN)
def test_broken_frame_is_told_with_its_code(data: bytes, code: int) -> None:
    with pytest.raises(FrameError) as caught:
        Decoder(LIMIT, is_server=True).feed(data)
    assert caught.value.code == code
    decoder = Decoder(LIMIT, is_server=True)
    with pytest.raises(FrameError) as caught:
        deque(map(decoder.feed, (bytes([byte]) for byte in data)))
    assert caught.value.code == code


def test_client_refuses_masked_frames_and_takes_others() -> None:
    decoder = Decoder(LIMIT, is_server=False)
    assert decoder.feed(frame(TEXT, b"hi", key=None)) == [Message(TEXT, b"hi")]
    with pytest.raises(FrameError):
        decoder.feed(frame(TEXT, b"hi"))


def test_fragments_over_their_number_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket, "FRAGMENTS_MAX", 3)
    decoder = Decoder(LIMIT, is_server=True)
    decoder.feed(frame(TEXT, b"", is_final=False) + frame(0, b"", is_final=False) * 2)
    with pytest.raises(FrameError) as caught:
        decoder.feed(frame(0, b"", is_final=False))
    assert caught.value.code == 1009


def test_pending_bytes_tell_of_the_message_before_it_is_there() -> None:
    decoder = Decoder(LIMIT, is_server=True)
    decoder.feed(frame(TEXT, b"x", claimed=900))
    assert decoder.pending_bytes == decoder.pending_bytes_max == 900
    decoder = Decoder(LIMIT, is_server=True)
    decoder.feed(frame(TEXT, b"x" * 10, is_final=False))
    assert (decoder.pending_bytes, decoder.pending_bytes_max) == (10, LIMIT)


@given(payload=st.binary(max_size=300), is_masked=st.booleans())
def test_encoded_frame_is_decoded(payload: bytes, is_masked: bool) -> None:
    data = websocket.encode(BINARY, payload, is_masked=is_masked)
    assert Decoder(LIMIT, is_server=is_masked).feed(data) == [Message(BINARY, payload)]


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536, 70_000])
def test_lengths_of_every_kind_go_through(size: int) -> None:
    data = websocket.encode(TEXT, b"x" * size)
    assert Decoder(1 << 20, is_server=False).feed(data) == [Message(TEXT, b"x" * size)]


@given(reason=st.text(max_size=200), code=st.integers(1000, 4999))
def test_close_fits_a_control_frame_and_is_valid_text(reason: str, code: int) -> None:
    if any("\ud800" <= character <= "\udfff" for character in reason):
        return
    [message] = Decoder(LIMIT, is_server=False).feed(websocket.encode_close(code, reason))
    assert len(message.payload) <= 125
    message.payload[2:].decode()
    found, text = websocket.close_reason(message.payload)
    assert found == code
    assert reason.startswith(text)


def test_close_without_a_code_is_1005() -> None:
    assert websocket.close_reason(b"") == websocket.close_reason(b"x") == (1005, "")


def test_accept_key_is_that_of_the_standard() -> None:
    accepted: Any = websocket.accept_key(b"dGhlIHNhbXBsZSBub25jZQ==")
    assert accepted == b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
