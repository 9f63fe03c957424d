"""The routes of the page: its files, and what it asks of the run, as JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbsp.errors import DbspError, InputError
from dbsp.inspector.inspected_run import InspectedRun, described

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from dbsp.runtime.tick_result import TickResult

PAGE = Path(__file__).parent / "page"

MOST_BYTES = 1_000_000
"""The size of a request that the page may send."""

_PULSE = 10.0
"""Seconds after which a stream of events without an event sends a comment, to notice its end."""


class PageServer:
    """The application that answers the page of one run."""

    def __init__(self, inspected: InspectedRun) -> None:
        self.inspected = inspected
        self._ending = False

    def end(self) -> None:
        """End the streams of events, so that the server can end."""
        self._ending = True
        self.inspected.wake()

    @cached_property
    def app(self) -> Starlette:
        """The application, for a guard (see `dbsp.inspector.request_guard`)."""
        from starlette.applications import Starlette
        from starlette.routing import Mount, Route
        from starlette.staticfiles import StaticFiles

        get = {
            "circuit": lambda q: self.inspected.circuit(q.get("stage", "run")),
            "state": lambda q: self.inspected.state(_number(q, "tick")),
            "rows": lambda q: self.inspected.rows(
                q.get("node", ""),
                q.get("what", "delta"),
                _number(q, "tick"),
                _number(q, "iteration"),
                _number(q, "offset") or 0,
                q.get("search", ""),
            ),
            "iterations": lambda q: self.inspected.iterations(q.get("node", ""), _number(q, "tick")),
            "why": lambda q: self.inspected.why(
                q.get("node", ""), q.get("what", "integral"), _number(q, "index") or 0
            ),
        }
        routes = [Route(f"/api/{name}", self._get(answer)) for name, answer in get.items()]
        return Starlette(
            routes=[
                *routes,
                Route("/api/step", self._step, methods=["POST"]),
                Route("/api/events", self._events),
                Mount("/", StaticFiles(directory=PAGE, html=True)),
            ]
        )

    def _get(self, answer: Callable[[Any], dict[str, Any]]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            return await self._answer(lambda: answer(request.query_params))

        return endpoint

    async def _answer(self, work: Callable[[], dict[str, Any]]) -> Response:
        """Do work on the run in another thread; an error becomes an answer in words."""
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse

        try:
            return JSONResponse(await run_in_threadpool(work))
        except DbspError as error:
            # An error of a tick is an answer of the run: a failed request would also be reported on
            # the browser's console.
            return JSONResponse(described(error))

    async def _step(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                break
        return await self._answer(lambda: self._stepped(body))

    def _stepped(self, body: bytes) -> dict[str, Any]:
        inspected = self.inspected
        try:
            sent = json.loads(body) if len(body) <= MOST_BYTES else None
        except (ValueError, RecursionError):
            sent = None
        wanted: dict[str, Any] = sent if isinstance(sent, dict) else {}
        kind = wanted.get("kind")
        steps: dict[str, Callable[[], TickResult]] = {
            "empty": inspected.step,
            "script": inspected.step_script,
            "edits": lambda: inspected.step_edits(wanted.get("edits")),
        }
        if not isinstance(kind, str) or kind not in steps:
            raise InputError(
                f"expected the kind of a tick ({', '.join(steps)}) in at most {MOST_BYTES:,} bytes of JSON",
                code="invalid-change",
            )
        result = steps[kind]()
        return {"tick": result.number, "absent": result.absent, "present": result.present}

    async def _events(self, request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import StreamingResponse

        async def events() -> AsyncIterator[str]:
            version = self.inspected.version
            # A page that lost its connection, or just opened, may have missed changes.
            yield f"data: {version}\n\n"
            while not self._ending:
                new = await run_in_threadpool(self.inspected.wait, version, _PULSE)
                if self._ending:
                    return
                yield f"data: {new}\n\n" if new != version else ": waiting\n\n"
                version = new

        return StreamingResponse(events(), media_type="text/event-stream")


def _number(query: Any, name: str) -> int | None:
    """Return a number of a query, None if it is missing."""
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise InputError(f"{name}: expected a number, got {text[:40]!r}", code="invalid-argument")
    return int(text)
