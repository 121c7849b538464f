"""`zoned mcp`: sessions for an agent, over stdin and stdout.

Goes by the running daemon, or by the data folder itself, and by whichever of the two is there later
on. stdout carries the protocol; whatever else is said goes to stderr.
"""

import asyncio
import os
import signal

from srv.cli import folder
from srv.cli.backend import load_config
from srv.cli.options import Invocation
from srv.cli.screen import say


def mcp(call: Invocation) -> int:
    """Serve until the input ends, or SIGINT or SIGTERM."""
    config = load_config(call)
    folder.prepare(config.data_dir, call.screen)
    if os.isatty(0):
        say("this speaks MCP with a program; Ctrl-C to end it")
    # Taken away from whatever prints: its words would be read as messages.
    stdin, stdout = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    asyncio.run(_serve(call, stdin, stdout))
    return 0


async def _serve(call: Invocation, stdin: int, stdout: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    # The library takes most of a second, so nothing else is imported before.
    from srv.mcp.server import Served
    from srv.mcp.stdio import wire
    from srv.mcp.worker import Outside

    config = load_config(call)
    calls = Outside(config, call.screen)
    served = Served(calls)
    server = served.server
    try:
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(served.run())
            async with wire(stdin, stdout, config.message_bytes_max, stop) as (read, write):
                await server.run(read, write, server.create_initialization_options())
            watching.cancel()
    finally:
        await calls.close()
