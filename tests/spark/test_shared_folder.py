"""The folder of the driver and the executors on several file systems. Needs no JVM."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path

import pytest

from dbsp import CheckpointError
from dbsp.spark.cluster.shared_file import SharedFile
from dbsp.spark.cluster.shared_folder import SharedFolder
from tests.spark.faulty_files import Faults, FaultyFolder

PLACES = ["path", "uri", "memory"]


@pytest.fixture(params=PLACES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> SharedFolder:
    locations = {
        "path": str(tmp_path / "a b"),
        "uri": (tmp_path / "a b").as_uri(),
        "memory": f"memory://{uuid.uuid4().hex}",
    }
    return SharedFolder(locations[request.param])


def test_files_and_folders(folder: SharedFolder) -> None:
    assert folder.names("") == [] and folder.read("x") is None
    folder.write("one/two/file", b"first")
    folder.write("one/empty", b"")
    assert folder.read("one/two/file") == b"first" and folder.read("one/empty") == b""
    assert folder.names("one") == ["empty", "two"] and folder.names("one/two") == ["file"]
    folder.rename("one/two", "moved")
    assert folder.names("one") == ["empty"] and folder.read("moved/file") == b"first"
    folder.move_file("moved/file", "new/place/file")
    assert folder.read("new/place/file") == b"first" and folder.read("moved/file") is None
    folder.remove("new")
    folder.remove("one/empty")
    folder.remove("never")
    assert folder.names("new") == [] and folder.read("one/empty") is None


def test_a_published_file_is_replaced_and_leaves_no_draft(folder: SharedFolder) -> None:
    for content in (b"first", b"second"):
        folder.publish("it", content)
        assert folder.read("it") == content
    assert folder.names("") == ["it"]


def test_another_process_sees_new_files(folder: SharedFolder) -> None:
    """No listing is kept from before."""
    other: SharedFolder = pickle.loads(pickle.dumps(folder))
    for name in ("a", "b", "c"):
        folder.write(f"parts/{name}", b"")
        assert other.names("parts")[-1] == name


def test_folders_are_sent_and_fetched(folder: SharedFolder, tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "file").write_bytes(b"x" * 100_000)
    (source / "other").write_bytes(b"y")
    folder.send_folder(source, "image")
    found = folder.fetched_folder("image", tmp_path / "copy")
    assert (found / "deep" / "file").read_bytes() == b"x" * 100_000
    assert (found / "other").read_bytes() == b"y"


def test_a_relative_path_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    SharedFolder("state").write("file", b"x")
    assert (tmp_path / "state" / "file").read_bytes() == b"x"


@pytest.mark.parametrize("place", ["path", "memory"])
@pytest.mark.parametrize("after", [False, True])
def test_a_publication_that_fails_leaves_the_old_or_the_new_content(
    place: str, after: bool, tmp_path: Path
) -> None:
    faults = Faults()
    location = str(tmp_path) if place == "path" else f"memory://{uuid.uuid4().hex}"
    folder, seen = FaultyFolder(location, faults), []
    folder.publish("it", b"0")
    for call in range(1, 5):
        before = folder.read("it")
        faults.arm(call, after)
        try:
            folder.publish("it", str(call).encode())
            failed = False
        except CheckpointError as error:
            failed = True
            assert error.code == "checkpoint-write"
            assert f"{location}/it" in str(error) and "readable and writable" in str(error)
        faults.disarm()
        found = folder.read("it")
        assert found in (before, str(call).encode()) if failed else found == str(call).encode()
        seen.append(failed)
    assert seen == [True, True, True, False]


def test_every_failing_call_is_an_error_with_the_file(tmp_path: Path) -> None:
    faults = Faults()
    folder = FaultyFolder(str(tmp_path), faults)
    folder.write("a/b", b"")
    calls = {
        "write": lambda: folder.write("a/b", b"x"),
        "list": lambda: folder.names("a"),
        "read": lambda: folder.read("a/b"),
        "remove": lambda: folder.remove("a/b"),
    }
    for what, call in calls.items():
        faults.arm(1, False)
        with pytest.raises(CheckpointError, match=f"cannot {what} {tmp_path}/a") as error:
            call()
        assert error.value.code == "checkpoint-write"
        faults.disarm()


def test_a_file_system_without_its_package() -> None:
    with pytest.raises(
        CheckpointError, match=r"cannot open nosuch://bucket/state: .*nosuch.*install"
    ) as error:
        SharedFolder("nosuch://bucket/state").read("x")
    assert error.value.code == "unsupported-location"


def test_a_shared_file_is_verified(tmp_path: Path) -> None:
    folder = SharedFolder(str(tmp_path))
    file = SharedFile(folder, "record.json", "dbsp test", "me")
    assert file.read() is None
    file.write({"a": [1]})
    assert file.read() == {"a": [1]}
    content = (tmp_path / "record.json").read_bytes()
    for damaged in (b"", content[:-5], content.replace(b"[1]", b"[2]"), b"[]", b"\xff"):
        (tmp_path / "record.json").write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"record\.json") as error:
            file.read()
        assert error.value.code == "checkpoint-unreadable"
    (tmp_path / "record.json").write_bytes(content)
    with pytest.raises(CheckpointError, match="file of another place"):
        SharedFile(folder, "record.json", "dbsp test", "you").read()
