"""The tour "DBSP, seen": a page of the inspector for each lesson."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dbsp.inspector.inspected_run import InspectedRun, LessonPlace
from dbsp.inspector.inspector import HISTORY
from dbsp.inspector.lessons import LESSONS
from dbsp.inspector.page_server import PageServer
from dbsp.inspector.page_thread import PageThread
from dbsp.runtime.run_watching import MAX_ROWS

if TYPE_CHECKING:
    from starlette.applications import Starlette


class Tour:
    """The pages of all lessons, until `close`. Each lesson has a run of its own."""

    def __init__(self, port: int = 0) -> None:
        """Start the server. Raises SetupError without the extra, DbspError if a port is in use."""
        self._pages: list[PageServer] = []
        self._thread = PageThread(self._app, port)
        self.url = self._thread.url
        """The address of the first lesson, with a secret token."""

    def _app(self) -> Starlette:
        from starlette.applications import Starlette
        from starlette.requests import Request
        from starlette.responses import RedirectResponse
        from starlette.routing import Mount, Route

        async def first(request: Request) -> RedirectResponse:
            return RedirectResponse("1/")

        for number, lesson in enumerate(LESSONS, 1):
            circuit = lesson.circuit()
            place = LessonPlace(lesson, number, len(LESSONS))
            inspected = InspectedRun(circuit.start(), circuit, lesson.ticks, HISTORY, MAX_ROWS, place)
            self._pages.append(PageServer(inspected))
        mounts = [Mount(f"/{number}", app=page.app) for number, page in enumerate(self._pages, 1)]
        return Starlette(routes=[Route("/", first), *mounts])

    def close(self) -> None:
        """End the server."""
        for page in self._pages:
            page.end()
        self._thread.end()

    def wait(self) -> None:
        """Wait until the server ends."""
        self._thread.wait()

    def __enter__(self) -> Tour:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
