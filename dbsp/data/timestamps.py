"""Timestamps of columns: naive datetimes in whole microseconds, in the years 1 to 9999."""

from __future__ import annotations

import datetime as dt

import numpy as np

from dbsp.errors import ValueOutOfRangeError


def naive_utc(value: dt.datetime) -> dt.datetime:
    """Return the naive datetime to store: in UTC for an aware value, else unchanged."""
    if value.tzinfo is None:
        return value
    try:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueOutOfRangeError(
            f"expected a timestamp in the years 1 to 9999 of UTC, got {value!r}"
        ) from None


def whole_microseconds(value: np.datetime64) -> dt.datetime | None:
    """Return a numpy time as a datetime, None for NaT.

    Raises ValueOutOfRangeError for nanoseconds.
    """
    rounded = value.astype("datetime64[us]")
    if rounded != value and not np.isnat(value):
        raise nanoseconds_refused(value)
    found: dt.datetime | None = rounded.item()
    return found


def nanoseconds_refused(value: object) -> ValueOutOfRangeError:
    """Return the error for a timestamp that is not a whole number of microseconds."""
    return ValueOutOfRangeError(
        f"expected a timestamp in whole microseconds, got {value}; round it to microseconds"
    )
