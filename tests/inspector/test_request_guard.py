"""The server answers the inspector's own page only."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.inspector.support import Page, reach_page

STATE = "api/state"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with reach_page() as served:
        yield served


def test_the_page_and_its_files_are_served(page: Page) -> None:
    for name, kind in (
        ("", "text/html"),
        ("inspector.js", "text/javascript"),
        ("inspector.css", "text/css"),
        ("vendor/dagre.esm.js", "text/javascript"),
    ):
        status, _, headers = page.request("GET", page.path + name)
        assert (status, headers["content-type"].split(";")[0]) == (200, kind), name


def test_every_answer_forbids_other_origins_and_other_sources(page: Page) -> None:
    for path in (page.path, page.path + STATE, "/"):
        _, _, headers = page.request(
            "GET", path, headers={"Origin": f"http://127.0.0.1:{page.inspector.port}"}
        )
        assert not [name for name in headers if name.startswith("access-control")]
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "127.0.0.1:{port}.evil.example"],
)
def test_other_hosts_are_refused(page: Page, host: str) -> None:
    name = host.format(port=page.inspector.port)
    status, text, _ = page.request("GET", page.path + STATE, headers={"Host": name})
    assert (status, text) == (403, "expected this machine as the host\n")


def test_the_names_of_this_machine_are_accepted(page: Page) -> None:
    for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        host = f"{name}:{page.inspector.port}"
        assert page.request("GET", page.path + STATE, headers={"Host": host})[0] == 200


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Origin", "http://evil.example"),
        ("Origin", "null"),
        ("Origin", "https://127.0.0.1:{port}"),
        ("Origin", "http://127.0.0.1:1"),
        ("Origin", "http://localhost:{port}"),  # not the origin of the address that was requested
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ],
)
def test_other_pages_are_refused(page: Page, header: str, value: str) -> None:
    given = {header: value.format(port=page.inspector.port)}
    before = page.get("state")["tick"]
    for method, body in (("GET", None), ("POST", '{"kind": "empty"}')):
        path = page.path + ("api/step" if body else STATE)
        status, text, _ = page.request(method, path, body, given)
        assert (status, text) == (403, "expected a request of the inspector's own page\n")
    assert page.get("state")["tick"] == before


def test_the_own_page_is_accepted(page: Page) -> None:
    own = {"Origin": f"http://127.0.0.1:{page.inspector.port}", "Sec-Fetch-Site": "same-origin"}
    assert page.request("GET", page.path + STATE, headers=own)[0] == 200


def test_a_request_needs_the_token(page: Page) -> None:
    token = page.path.strip("/")
    for path in (
        "/",
        "/api/state",
        f"//{token}/api/state",
        f"/{token[:-1]}/api/state",
        f"/{token}x/api/state",
        f"/{token.swapcase()}/api/state",
        f"/{token}",
        "/%C3%A9/api/state",
        f"/x/../{token}/api/state",
    ):
        status, text, _ = page.request("GET", path)
        assert (status, text) == (403, "expected the address that the inspector printed, with its token\n"), (
            path
        )


def test_files_outside_of_the_page_are_not_served(page: Page) -> None:
    for path in (
        "../inspector.py",
        "%2e%2e/inspector.py",
        "..%2finspector.py",
        "//etc/passwd",
        "vendor/../../inspector.py",
    ):
        assert page.request("GET", page.path + path)[0] == 404, path


def test_each_inspector_has_its_own_token(page: Page) -> None:
    with reach_page() as other:
        assert other.path != page.path
        assert len(other.path) >= 32
        assert other.request("GET", page.path + STATE)[0] == 403


def test_the_server_listens_on_the_loopback_address_only(page: Page) -> None:
    assert page.inspector.url.startswith("http://127.0.0.1:")
    addresses = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in addresses - {"127.0.0.1", "127.0.1.1"}:
        with pytest.raises(OSError):
            socket.create_connection((str(address), page.inspector.port), timeout=5).close()
