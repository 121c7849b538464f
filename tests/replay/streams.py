"""A stream of Claude Code in the making: turns of a user, a tool and an answer."""

import json


def turn(number: int) -> list[bytes]:
    """Four lines: what the user said, a call, its result, the answer."""
    at = f"2026-11-18T09:{number // 60:02}:{number % 60:02}"
    frames: list[dict[str, object]] = [
        {
            "type": "user",
            "uuid": f"u{number}",
            "timestamp": f"{at}.000Z",
            "message": {"role": "user", "content": f"Question {number}"},
        },
        {
            "type": "assistant",
            "timestamp": f"{at}.100Z",
            "message": {
                "id": f"m{number}",
                "content": [
                    {
                        "type": "tool_use",
                        "id": f"t{number}",
                        "name": "Bash",
                        "input": {"command": f"ls {number}"},
                    }
                ],
            },
        },
        {
            "type": "user",
            "timestamp": f"{at}.350Z",
            "message": {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": f"t{number}", "content": "a.py"}
                ],
            },
        },
        {
            "type": "assistant",
            "timestamp": f"{at}.900Z",
            "message": {
                "id": f"n{number}",
                "content": [{"type": "text", "text": f"Answer {number}"}],
            },
        },
    ]
    return [json.dumps(frame).encode() for frame in frames]


def turns(count: int) -> list[bytes]:
    """The lines of so many turns."""
    return [line for number in range(count) for line in turn(number)]


NODES_PER_TURN = 3
