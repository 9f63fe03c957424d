"""What a shard can observe about its own process, as the result of a run."""

from __future__ import annotations

import gc
import json
import os
import random
import resource
import signal
import socket
import stat
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from dbsp import Circuit
from dbsp.circuit.graph import Graph
from dbsp.shards.sharded_run import ShardedRun

_LIMITS = 16
"""The number of limits in Linux."""

_OF_PROCESS = ("SigPnd", "SigBlk", "SigIgn", "SigCgt", "Umask", "Uid", "Cpus")
"""Lines of the status that a process inherits or sets. (`SigQ` counts the waiting signals of all
processes of the user: a timer or a child of another one changes it.)"""


def facts() -> dict[str, Any]:
    """Return what a process inherits, and the state that it makes at its start."""
    status = Path("/proc/thread-self/status").read_text().splitlines()
    return {
        "environment": dict(os.environ),
        "folder": os.readlink("/proc/self/cwd"),
        "path": sys.path,
        "streams": [os.readlink(f"/proc/self/fd/{number}") for number in range(3)],
        "input": sys.stdin.read(),
        "line buffering": [sys.stdout.line_buffering, sys.stderr.line_buffering],
        "kinds of descriptors": _descriptors(),
        "inheritable": [number for number in _numbers() if number > 2 and os.get_inheritable(number)],
        "status": [line for line in status if line.startswith(_OF_PROCESS)],
        "handlers": [str(signal.getsignal(signal.SIGCHLD)), signal.set_wakeup_fd(-1)],
        "limits": [resource.getrlimit(number) for number in range(_LIMITS)],
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
        "session": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
        "collects": [gc.isenabled(), gc.get_threshold()],
        "main": sys.modules["__main__"].__dict__.get("__file__"),
    }


def _numbers() -> list[int]:
    found = [int(name) for name in os.listdir("/proc/self/fd")]
    return [number for number in found if os.path.exists(f"/proc/self/fd/{number}")]


def _descriptors() -> dict[str, int]:
    """Return how many sockets and pipes are open; a forked shard has one more, for its end."""
    modes = [os.stat(f"/proc/self/fd/{number}").st_mode for number in _numbers() if number > 2]
    return dict(Counter("socket" if stat.S_ISSOCK(mode) else "other" for mode in modes))


def observe(row: Any) -> tuple[int, str]:
    """Return the observation with the number of the row."""
    match row[0]:
        case 0:
            return 0, json.dumps(facts())
        case 1:
            return 1, json.dumps([random.random(), float(np.random.random())])
        case 2:
            os.write(1, b"to 1,")
            os.write(2, b"to 2,")
            print("printed", end=",", flush=True)
            return 2, ""
        case 3:
            import module_of_a_test  # type: ignore[import-not-found]

            return 3, str(module_of_a_test.VALUE)
        case other:
            return other, socket.gethostname()


def observing() -> Graph:
    """The circuit."""
    circuit = Circuit("observed")
    circuit.output("seen", circuit.input("ask", x=int).map(observe, {"x": int, "seen": str}))
    return circuit.circuit("distributed")


def seen(run: ShardedRun, question: int) -> str:
    """Return what a run of one shard observes."""
    (row,) = run.step({"ask": [(question,)]})["seen"].to_dict()
    return str(row[1])


def parent(process: int) -> int:
    """Return the parent of a process: the template of a shard."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1])
