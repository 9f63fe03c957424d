"""The thread that answers requests of a page, on this machine only."""

from __future__ import annotations

import secrets
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from dbsp.errors import DbspError, SetupError

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class PageThread:
    """A server in a thread of its own, from its construction until `end`."""

    def __init__(self, app: Callable[[], ASGIApp], port: int) -> None:
        """Serve an application, which is made once the packages are known to be there.

        Raises SetupError if the packages of the extra are missing, DbspError if the port is in use.
        """
        try:
            import starlette  # noqa: F401  (only a test whether it loads)
            import uvicorn
        except ImportError:
            raise SetupError(
                "the inspector needs the packages starlette and uvicorn, which are not installed: run "
                "'pip install dbsp-circuits[inspect]'"
            ) from None
        from dbsp.inspector.request_guard import RequestGuard

        self._socket = _listening(port)
        try:
            self.port: int = self._socket.getsockname()[1]
            token = secrets.token_urlsafe(24)
            self.url = f"http://127.0.0.1:{self.port}/{token}/"
            config = uvicorn.Config(
                RequestGuard(app(), token, self.port),
                log_level="warning",
                access_log=False,
                log_config=None,
                lifespan="off",
                server_header=False,
            )
            self._server = uvicorn.Server(config)
            self._thread = threading.Thread(target=self._serve, name="dbsp inspector", daemon=True)
            self._thread.start()
        except BaseException:
            self._socket.close()
            raise

    def _serve(self) -> None:
        self._server.run(sockets=[self._socket])

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def end(self) -> None:
        """End the server, after the requests that it answers."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def wait(self) -> None:
        """Wait until the server ends."""
        self._thread.join()


def _listening(port: int) -> socket.socket:
    """Return a socket that listens on this machine only."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()  # before the server runs, so that the address works at once
    except (OSError, OverflowError) as error:
        listening.close()
        raise DbspError(
            f"the inspector cannot listen on port {port}: {error}; choose another port, or 0 for a free one",
            code="port-not-available",
        ) from None
    return listening
