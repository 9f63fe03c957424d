"""A process that writes numbered transactions, and says so after each: it is killed at any time.

python -m tests.datomic.counting_writer FOLDER FIRST DURABILITY
"""

from __future__ import annotations

import itertools
import sys

from dbsp.datomic import connect


def write(folder: str, first: int, durability: str) -> None:
    """Write transactions with the numbers from `first` on, two facts each."""
    connection = connect(folder, open_schema=True, durability=durability)
    for number in itertools.count(first):
        operations = [[":db/add", 1, ":number", number], [":db/add", number + 2, ":text", f"text {number}"]]
        connection.transact(operations)
        print(number, flush=True)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), sys.argv[3])
