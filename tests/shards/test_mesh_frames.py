"""Frames of exchanges on one socket."""

from __future__ import annotations

import socket

import numpy as np

from dbsp.shards.mesh_frames import FrameReader, FrameWriter, frame_pieces

LARGE = np.ones(3_000_000, np.uint8)


def ends() -> tuple[FrameWriter, FrameReader]:
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(False)
    return FrameWriter(pair[0]), FrameReader(pair[1])


def transfer(writer: FrameWriter, reader: FrameReader, generation: int) -> tuple[bytes, bytes]:
    """The name and the only buffer of the next frame, which arrives part by part."""
    for _ in range(10_000):
        writer.send()
        frame = reader.receive(generation)
        if frame is not None and frame.complete:
            reader.take()
            (buffer,) = frame.buffers()
            return frame.name, bytes(buffer)
    raise AssertionError("the frame does not arrive")


def test_the_rest_of_a_frame_is_sent_and_one_that_is_not_started_is_not() -> None:
    writer, reader = ends()
    writer.put(frame_pieces(1, 0, b"large", [LARGE]))
    assert not writer.send()
    writer.drop_unbegun()
    writer.put(frame_pieces(2, 0, b"never started", [b"first"]))
    assert not writer.send()
    writer.drop_unbegun()
    writer.put(frame_pieces(3, 0, b"last", [b"second"]))
    # The frame of generation 2 was dropped by the writer, that of generation 1 by the reader.
    assert transfer(writer, reader, 2) == (b"last", b"second")
    assert writer.send()


def test_a_frame_that_is_complete_is_not_dropped() -> None:
    writer, reader = ends()
    writer.put(frame_pieces(1, 0, b"first", [b"1"]))
    assert writer.send()
    writer.drop_unbegun()
    writer.put(frame_pieces(1, 1, b"second", [b"2"]))
    assert writer.send()
    assert transfer(writer, reader, 1) == (b"first", b"1")
    assert transfer(writer, reader, 1) == (b"second", b"2")


def test_a_frame_of_which_only_the_head_is_sent_has_a_rest() -> None:
    pair = socket.socketpair()
    for end in pair:
        end.setblocking(False)

    class OnePieceAtATime:
        calls = 0

        def sendmsg(self, pieces: list[memoryview], data: object, flags: int) -> int:
            self.calls += 1
            if self.calls == 2:
                raise BlockingIOError
            return pair[0].send(pieces[0], flags)

    writer, reader = FrameWriter(OnePieceAtATime()), FrameReader(pair[1])  # type: ignore[arg-type]
    writer.put(frame_pieces(1, 0, b"first", [b"1"]))
    assert not writer.send()
    writer.drop_unbegun()
    assert transfer(writer, reader, 1) == (b"first", b"1")


def test_frames_of_earlier_generations_need_no_memory() -> None:
    writer, reader = ends()
    writer.put(frame_pieces(1, 0, b"large", [LARGE]))
    writer.send()
    assert reader.receive(2) is None
    assert reader._frame is not None and reader._frame.memory is None
    writer.put(frame_pieces(2, 0, b"next", [b"2"]))
    assert transfer(writer, reader, 2) == (b"next", b"2")
