"""The streamable HTTP transport of the library over the daemon's own methods."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from srv.http.mcp import BODY_BYTES_MAX
from srv.mcp.inside import Inside
from srv.mcp.server import Served
from srv.rpc.service import Service


@asynccontextmanager
async def streamable(service: Service) -> AsyncIterator[StreamableHTTPSessionManager]:
    """The transport, running. Ends its sessions with it."""
    # It tells of every session that comes and goes, and names it: that is as good as a password.
    logging.getLogger("mcp").setLevel(logging.ERROR)
    served = Served(Inside(service))
    manager = StreamableHTTPSessionManager(
        served.server,
        # One answer a request; changes are told on streams of their own.
        json_response=True,
        max_request_body_size=BODY_BYTES_MAX,
        session_idle_timeout=float(service.config.mcp_idle),
        max_sessions=service.config.mcp_sessions_max,
    )
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(served.run())
        try:
            async with manager.run():
                yield manager
        finally:
            watching.cancel()
