"""The MCP server: tools and resources put into the words of the official library.

Its low-level server is used, which hands arguments over as they came: what is refused, and how, is
ours to say. One server serves many connections, of the revisions with sessions and of those
without.
"""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.exceptions import MCPError

from filestore.errors import RejectedError
from srv.errors import KINDS, ZonedError, told
from srv.mcp import resources
from srv.mcp.tools import BY_NAME, TOOLS, Calls, Tool
from srv.mcp.watching import Watch

if TYPE_CHECKING:
    from mcp.server.session import ServerSession

INSTRUCTIONS = (
    "zoned remembers what agents did, durably. Submit what you did with submit_agent_session, with "
    "checkpoints to go on from; find the past with list_sessions, query_agent_history and "
    "query_entity_timeline; read a conversation with read_session; take up a checkpoint with "
    "restore_checkpoint."
)
LISTENERS_MAX = 256
SUBSCRIPTIONS_MAX = 256
"""Of one connection; and of one request to listen."""

STATE = "zoned"
"""Under which a connection keeps what it has subscribed to."""
_THEIRS = ("NOT_FOUND", "TOO_LARGE", "LIMIT_REACHED")
"""Kinds that are the caller's to mend, besides wrong parameters."""

log = logging.getLogger("zoned.mcp")
Context = Any
"""The library's context of a request; its type parameters say nothing here."""


class Served:
    """An MCP server on one way to the store. `server` is what transports run."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._bus = InMemorySubscriptionBus()
        self.watch = Watch(calls, self._tell)
        self._listen = ListenHandler(self._bus, max_subscriptions=LISTENERS_MAX)
        self._subscribers: dict[str, set[_Subscriber]] = {}
        """By session."""
        self._group: asyncio.TaskGroup
        self.server: Server[Any] = Server(
            "zoned",
            version=version("zoned"),
            title="zoned",
            description="What agents did, remembered.",
            instructions=INSTRUCTIONS,
            get_tool_input_schema=_input_schema,
            on_list_tools=_list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=_list_templates,
            on_read_resource=self._read_resource,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=self._listen_to,
        )
        # Its default traces every message with a library for that; nobody collects it here.
        self.server.middleware.clear()

    async def run(self) -> None:
        """Tell of changes, until cancelled. To be run beside the transport."""
        try:
            async with asyncio.TaskGroup() as self._group:
                await self.watch.run()
        finally:
            self._listen.close()

    # -- tools

    async def _call_tool(
        self, _: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        tool = BY_NAME.get(params.name)
        if tool is None:
            known = ", ".join(BY_NAME)
            message = f"there is no tool {ascii(params.name)[:80]}; known are {known}"
            raise MCPError(types.INVALID_PARAMS, message)
        try:
            answer = await tool.run(self._calls, params.arguments or {})
        except Exception as error:  # the rim: whatever it is becomes an answer
            return _refused(_told(error))
        shown = {"result": answer.value} if tool.is_wrapped else answer.value
        return types.CallToolResult(
            content=[types.TextContent(text=answer.text)], structured_content=shown
        )

    # -- resources

    async def _list_resources(
        self, _: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with _as_protocol_errors():
            page, cursor = await resources.page(self._calls, params.cursor if params else None)
        found = [_resource(session) for session in page]
        return types.ListResourcesResult(resources=found, next_cursor=cursor)

    async def _read_resource(
        self, _: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with _as_protocol_errors():
            text = await resources.read(self._calls, params.uri)
        contents = types.TextResourceContents(
            uri=params.uri, mime_type=resources.MIME_TYPE, text=text
        )
        return types.ReadResourceResult(contents=[contents])

    # -- subscriptions: a connection with a session subscribes and is told

    async def _subscribe(
        self, context: Context, params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        subscriber = self._subscriber(context)
        with _as_protocol_errors():
            session_id = resources.session_of(params.uri)
            if session_id in subscriber.sessions:
                return types.EmptyResult()
            if len(subscriber.sessions) >= SUBSCRIPTIONS_MAX:
                raise ZonedError("LIMIT_REACHED", f"you have {SUBSCRIPTIONS_MAX} subscriptions")
            # Before it is watched: two that come at the same time are one.
            subscriber.sessions.add(session_id)
            try:
                await self.watch.add(session_id)
            except BaseException:
                subscriber.sessions.discard(session_id)
                raise
        self._subscribers.setdefault(session_id, set()).add(subscriber)
        return types.EmptyResult()

    async def _unsubscribe(
        self, context: Context, params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        with _as_protocol_errors():
            self._drop(resources.session_of(params.uri), self._subscriber(context))
        return types.EmptyResult()

    def _subscriber(self, context: Context) -> "_Subscriber":
        """What stands for the connection of a request; made when it first asks."""
        # The library gives handlers no other way to what lasts as long as their connection.
        connection = context.session._connection
        found: _Subscriber | None = connection.state.get(STATE)
        if found is None:
            found = connection.state[STATE] = _Subscriber(context.session)
            task = self._group.create_task(found.run())
            connection.exit_stack.callback(self._leave, found, task)
        return found

    def _leave(self, subscriber: "_Subscriber", task: "asyncio.Task[None]") -> None:
        task.cancel()
        for session_id in list(subscriber.sessions):
            self._drop(session_id, subscriber)

    def _drop(self, session_id: str, subscriber: "_Subscriber") -> None:
        of_session = self._subscribers.get(session_id, set())
        if subscriber in of_session:
            of_session.discard(subscriber)
            subscriber.sessions.discard(session_id)
            self.watch.drop(session_id)
            if not of_session:
                del self._subscribers[session_id]

    # -- one without sessions sends a request to listen, whose answer is the stream of changes

    async def _listen_to(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        uris = set(params.notifications.resource_subscriptions or ())
        added = []
        with _as_protocol_errors():
            if len(uris) > SUBSCRIPTIONS_MAX:
                raise ZonedError("LIMIT_REACHED", f"at most {SUBSCRIPTIONS_MAX} are listened to")
            sessions = [resources.session_of(uri) for uri in uris]
            try:
                for session_id in sessions:
                    await self.watch.add(session_id)
                    added.append(session_id)
                return await self._listen(context, params)
            finally:
                for session_id in added:
                    self.watch.drop(session_id)

    async def _tell(self, session_id: str) -> None:
        """A session has changed."""
        uri = resources.uri_of(session_id)
        await self._bus.publish(ResourceUpdated(uri))
        for subscriber in self._subscribers.get(session_id, ()):
            subscriber.changed(uri)


class _Subscriber:
    """A connection that has subscribed. It is told by a task of its own: one that does not read
    holds up nobody else, and misses nothing but how often.
    """

    def __init__(self, session: "ServerSession") -> None:
        self.sessions: set[str] = set()
        self._session = session
        self._changed: dict[str, None] = {}
        self._any = asyncio.Event()

    def changed(self, uri: str) -> None:
        """Tell of it, soon."""
        self._changed[uri] = None
        self._any.set()

    async def run(self) -> None:
        """Tell, until cancelled."""
        while True:
            await self._any.wait()
            self._any.clear()
            told, self._changed = self._changed, {}
            for uri in told:
                params = types.ResourceUpdatedNotificationParams(uri=uri)
                notification = types.ResourceUpdatedNotification(params=params)
                await self._session.send_notification(notification)


# -- what does not depend on the store


async def _list_tools(_: Context, __: object) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[_shown(tool) for tool in TOOLS])


async def _list_templates(_: Context, __: object) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(
        name="session",
        title="A session",
        uri_template=resources.TEMPLATE,
        mime_type=resources.MIME_TYPE,
        description="A session by its id, percent-encoded: in short, snapshot, newest messages.",
    )
    return types.ListResourceTemplatesResult(resource_templates=[template])


def _input_schema(name: str) -> Mapping[str, Any] | None:
    tool = BY_NAME.get(name)
    return None if tool is None else tool.input


def _shown(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=not tool.is_writing,
        destructive_hint=False,
        idempotent_hint=not tool.is_writing,
        open_world_hint=False,
    )
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.about,
        input_schema=tool.input,
        output_schema=tool.output,
        annotations=hints,
    )


def _resource(session: Mapping[str, Any]) -> types.Resource:
    title = session.get("title") or session.get("purpose") or session.get("summary")
    about = f"{session['status']}, {session['phase']}; last active {session['updated_at']}"
    return types.Resource(
        name=session["session_id"],
        title=title,
        uri=resources.uri_of(session["session_id"]),
        mime_type=resources.MIME_TYPE,
        description=about,
    )


# -- errors


def _refused(answer: dict[str, Any]) -> types.CallToolResult:
    text = json.dumps(answer, ensure_ascii=False)
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=answer, is_error=True
    )


def _told(error: Exception) -> dict[str, Any]:
    """An error as a tool answers it."""
    if isinstance(error, RejectedError):
        return {"error": "schema_validation_failed", "details": error.details}
    found = _known(error)
    answer = {"error": found.kind, "message": found.message}
    details = {name: value for name, value in found.data.items() if name != "kind"}
    return answer | ({"details": details} if details else {})


def _known(error: Exception) -> ZonedError:
    found = told(error)
    if found is None:
        number = uuid4().hex[:12]
        log.error("a tool failed by a fault of ours", exc_info=error, extra={"error_id": number})
        found = ZonedError("INTERNAL", "zoned failed", error_id=number)
    return found


@contextmanager
def _as_protocol_errors() -> Iterator[None]:
    """Errors of ours as those of the protocol, which has but two codes for them."""
    try:
        yield
    except MCPError:
        raise
    except Exception as error:  # the rim, as above
        found = _known(error)
        is_theirs = KINDS[found.kind].code == types.INVALID_PARAMS or found.kind in _THEIRS
        code = types.INVALID_PARAMS if is_theirs else types.INTERNAL_ERROR
        raise MCPError(code, str(found), {"kind": found.kind}) from error
