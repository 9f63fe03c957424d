"""State of four times the memory limit, in a process that the system refuses more memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import gc
import resource
import sys
from pathlib import Path

import numpy as np

from benchmarks.every_kernel import use_every_kernel
from dbsp import Circuit, MemoryLimitError, col, count

LIMIT = 16 << 20
PIECE, SHOPS = 20_000, 1000
WANTED = 4 * LIMIT


def status(name):
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024


def build():
    circuit = Circuit("sales")
    sales = circuit.input("sale", kind="set", id=int, shop=int, amount=int)
    shops = circuit.input("shop", kind="set", shop=int, city=int)
    joined = sales.join(shops, on="shop")
    circuit.output("by_city", joined.group_by("city").agg(n=count(), total=col("amount").sum()))
    circuit.output("sales", sales)
    return circuit


def piece(number):
    ids = np.arange(number * PIECE, (number + 1) * PIECE)
    ids = ids * 2654435761 % 2**40
    return {"id": ids, "shop": ids % SHOPS, "amount": ids % 97}


def load(run, number):
    rows = piece(number)
    run.step({"sale": rows})
    for name in ("n", "total"):
        weights = rows["amount"] if name == "total" else np.ones(PIECE, np.int64)
        np.add.at(expected[name], rows["shop"] % 10, weights)


expected = {"n": np.zeros(10, np.int64), "total": np.zeros(10, np.int64)}
shops = {"shop": np.arange(SHOPS), "city": np.arange(SHOPS) % 10}
use_every_kernel()  # to load one later needs memory that the system refuses
warm = build().start()
warm.step({"shop": shops, "sale": piece(0)})
for i in range(13):  # one more than the small runs that a trace collects before it merges them
    warm.step({"sale": {(i, 2, 3): 1}})
del warm
gc.collect()

run = build().start(memory_limit=LIMIT if sys.argv[1] == "limited" else None)
run.step({"shop": shops})
base = status("RssAnon")
_, hard = resource.getrlimit(resource.RLIMIT_DATA)
resource.setrlimit(resource.RLIMIT_DATA, (status("VmData") + LIMIT * 6 // 5, hard))
loaded = peak = 0
try:
    while run.state_bytes + run.file_bytes < WANTED:
        load(run, loaded)
        loaded += 1
        peak = max(peak, status("RssAnon") - base)
except MemoryLimitError:
    print("refused after", loaded * PIECE)
    sys.exit()
assert run.state_bytes < LIMIT
for i in range(300):
    row = (2**50 + i, i % SHOPS, 7)
    old = piece(i % loaded)
    gone = tuple(int(old[name][i]) for name in ("id", "shop", "amount"))
    assert not run.step({"sale": {row: 1, gone: -1}}).absent
    for (shop, amount), sign in (((row[1], 7), 1), ((gone[1], gone[2]), -1)):
        expected["n"][shop % 10] += sign
        expected["total"][shop % 10] += sign * amount
    peak = max(peak, status("RssAnon") - base)
found = {row[0]: row[1:] for row in run.view("by_city").rows()}
assert found == {city: (expected["n"][city], expected["total"][city]) for city in range(10)}
assert peak < LIMIT * 6 // 5, peak
print("loaded", loaded * PIECE, "rows; files of", run.file_bytes, "bytes; peak", peak)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of data segments is one of Linux")
@pytest.mark.parametrize("how", ["limited", "free"])
def test_state_of_four_times_the_limit(how: str) -> None:
    done = subprocess.run([sys.executable, "-c", CODE, how], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("loaded" if how == "limited" else "refused after"), done.stdout
