"""Numbers of rows, amounts of memory and durations as text."""

from __future__ import annotations

from dbsp.errors import counted


def row_count(number: int) -> str:
    """Return a number of rows as text.

    >>> row_count(1), row_count(12345)
    ('1 row', '12,345 rows')
    """
    return "1 row" if number == 1 else f"{number:,} rows"


def memory(size: int) -> str:
    """Return a number of bytes as text.

    >>> memory(640), memory(20_480), memory(5 * 2**30)
    ('640 bytes', '20.0 KB', '5.0 GB')
    """
    if size < 1024:
        return counted(size, "byte")
    amount, unit = size / 1024, "KB"
    for larger in ("MB", "GB", "TB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:,.1f} {unit}"


def duration(seconds: float) -> str:
    """Return a duration as text.

    >>> duration(0.0000436), duration(0.0123), duration(2.5)
    ('44 µs', '12.3 ms', '2.50 s')
    """
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
