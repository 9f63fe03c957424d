"""The guard of the page: it answers only the browser of this machine that knows the token.

Another web page could make a browser send requests to this machine, by the address itself or by a
name that it points to it. So a request must name this machine as its host, and its page, if it
names one, must be the inspector's. Another user of this machine does not know the token.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

NAMES = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine that a request may use."""

_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; "
     b"connect-src 'self'; worker-src 'self'; img-src 'self' data:; base-uri 'none'; "
     b"form-action 'none'; frame-ancestors 'none'"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)  # fmt: skip


class RequestGuard:
    """An application that refuses requests of other hosts and pages, and those without the token.

    The path of an accepted request is `/TOKEN/...`; the guarded application sees the rest.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"{name}:{port}" for name in NAMES}
        if port == 80:
            self._hosts |= set(NAMES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal = self.refusal(scope)
        if refusal is not None:
            await _answer(send, 403, refusal)
            return
        rest = scope["path"].split("/", 2)[2]

        async def guarded_send(message: object) -> None:
            if isinstance(message, dict) and message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_HEADERS]
            await send(message)  # type: ignore[arg-type]

        inner = {**scope, "path": f"/{rest}", "raw_path": f"/{rest}".encode(), "root_path": ""}
        await self._app(inner, receive, guarded_send)

    def refusal(self, scope: Scope) -> str | None:
        """Return why a request is refused; None if it is accepted."""
        headers: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value.decode("latin-1"))
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return "expected this machine as the host"
        for origin in headers.get(b"origin", []):
            if origin.lower() != f"http://{hosts[0].lower()}":
                return "expected a request of the inspector's own page"
        if any(site not in ("same-origin", "none") for site in headers.get(b"sec-fetch-site", [])):
            return "expected a request of the inspector's own page"
        parts = scope["path"].split("/", 2)
        if len(parts) != 3 or not secrets.compare_digest(parts[1].encode(), self._token.encode()):
            return "expected the address that the inspector printed, with its token"
        return None


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
