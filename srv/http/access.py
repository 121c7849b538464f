"""Who may connect: the checks of token, Host and Origin. Pure.

A page in a browser can reach any port of this machine, so being local proves nothing. A request
over TCP must name us as its Host (else a name that was re-bound to our address would do), must come
from our own pages if it comes from a page at all (Origin), and must carry the token. The unix
socket is guarded by its file's mode and by the peer's user id instead.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import NamedTuple

from srv.config import Config

SUBPROTOCOL = "zoned"
TOKEN_SUBPROTOCOL = "zoned.token."
LOGIN_TARGET = "/?token="
"""By this, once, a browser gets its cookie."""
PUBLIC_TARGETS = frozenset(["/health"])
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Refusal(NamedTuple):
    """An HTTP status and the few words that go with it: never why."""

    status: int
    text: str


class Access:
    """Decides about requests that came over TCP."""

    def __init__(self, config: Config, token: str, port: int) -> None:
        self._token = _digest(token)
        self._hosts = {f"{name}:{port}" for name in (*LOOPBACK_NAMES, _bracketed(config.host))}
        self._origins = {f"http://{host}" for host in self._hosts} | set(config.allowed_origins)
        self._names = frozenset(config.allowed_hosts)
        self.cookie = f"zoned-{port}"

    def change_token(self, token: str) -> None:
        """Take only this token from now on."""
        self._token = _digest(token)

    def refusal(self, target: str, headers: Mapping[str, str]) -> Refusal | None:
        """Why a request is refused, or None. `headers` by name in lower case, each once."""
        host = headers.get("host", "").lower()
        if host not in self._hosts and _without_port(host) not in self._names:
            return Refusal(403, "this host is not served")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in self._origins:
            return Refusal(403, "this origin is not served")
        offered = _offered(target, headers, self.cookie)
        if target not in PUBLIC_TARGETS and not any(map(self._is_token, offered)):
            return Refusal(401, "unauthorized")
        return None

    def _is_token(self, text: str) -> bool:
        """True for the right token; takes as long for any other."""
        return hmac.compare_digest(_digest(text), self._token)


def _offered(target: str, headers: Mapping[str, str], cookie: str) -> list[str]:
    """Every token that a request brings."""
    found = []
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found.append(rest.strip(" \t"))
    found += (
        name.removeprefix(TOKEN_SUBPROTOCOL)
        for name in subprotocols(headers)
        if name.startswith(TOKEN_SUBPROTOCOL)
    )
    for pair in headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == cookie:
            found.append(value)
    if target.startswith(LOGIN_TARGET):
        found.append(target.removeprefix(LOGIN_TARGET))
    return found


def subprotocols(headers: Mapping[str, str]) -> list[str]:
    """The subprotocols that a WebSocket client offers."""
    offered = headers.get("sec-websocket-protocol", "").split(",")
    return [name.strip() for name in offered if name.strip()]


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _without_port(host: str) -> str:
    return re.sub(r":[0-9]+$", "", host)
