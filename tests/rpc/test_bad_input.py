"""Frames and messages that are odd in more than one step; the catalogue of single inputs is
tests/input/catalogue.py."""

import contextlib
import json
import struct

import msgpack

from tests.support.daemon import CLOSE, PING, PONG, TEXT, Client, Daemon, frame

INFO = b'{"jsonrpc":"2.0","id":1,"method":"srv:health"}'


def test_messagepack_of_what_json_has_not_is_refused_by_name(daemon: Daemon) -> None:
    """A time is of a type that nothing takes, and a name must be text."""
    with daemon.client(is_binary=True) as client:
        time = msgpack.Timestamp(1, 1)
        for params in ({"definition_id": time}, {b"definition_id": "a"}, {"definition_id": b"a"}):
            client.send(Client.request("agent:session:read", 1, params))
            assert client.receive()["error"]["data"]["kind"] == "INVALID_PARAMS"
        for value in (time, {b"a": 1}, Client.request("srv:info", time, {})):
            client.send(value)
            assert client.receive()["error"]["data"]["kind"] == "INVALID_REQUEST"
        assert client.is_alive()


# -- frames


def test_endless_fragments_are_closed_at_the_limit(daemon: Daemon, pane: Client) -> None:
    with daemon.client(is_unix=True) as client:
        client.sock.sendall(frame(TEXT, b"[", is_final=False))
        part = frame(0, b"x" * (8 << 20), is_final=False)
        with contextlib.suppress(OSError):
            for _ in range(9):
                client.sock.sendall(part)
        assert client.closed().code == 1009
    with daemon.client() as client:
        with contextlib.suppress(OSError):
            client.sock.sendall(
                frame(TEXT, b"", is_final=False) + frame(0, b"", is_final=False) * 66_000
            )
        assert client.closed().code == 1009
    assert pane.is_alive()


def test_message_in_fragments_with_pings_between_is_read(pane: Client) -> None:
    parts = [INFO[index : index + 5] for index in range(0, len(INFO), 5)]
    pane.send_frame(TEXT, parts[0], is_final=False)
    for part in parts[1:-1]:
        pane.send_frame(PING, b"p" + part)
        assert pane.receive_frame() == (PONG, b"p" + part)
        pane.send_frame(0, part, is_final=False)
    pane.send_frame(0, parts[-1])
    assert pane.receive()["result"] == {"ok": True}


def test_close_is_answered_with_close(daemon: Daemon) -> None:
    for payload in (b"", struct.pack("!H", 1000), struct.pack("!H", 4999) + b"\xff", b"x"):
        with daemon.client() as client:
            client.send_frame(CLOSE, payload)
            assert client.closed().code == 1000


def test_pong_and_empty_frames_are_no_harm(pane: Client) -> None:
    pane.send_frame(PONG, b"unasked")
    pane.send_frame(PING, b"")
    assert pane.receive_frame() == (PONG, b"")
    assert pane.is_alive()


def test_message_byte_by_byte_is_read(pane: Client) -> None:
    for each in frame(TEXT, INFO):
        pane.sock.sendall(bytes([each]))
    assert pane.receive()["result"] == {"ok": True}


def test_every_error_text_is_one_line(pane: Client) -> None:
    for method in ("a\nb", "\x1b[31m", "\u2028"):
        pane.send({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"\n": 1}})
        message = pane.receive()["error"]["message"]
        assert message.isprintable(), json.dumps(message)
