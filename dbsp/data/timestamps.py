"""Times in whole microseconds: timestamps with and without a zone, durations, times of day.

The codes of all of them are numbers of microseconds: since 1970-01-01T00:00 (UTC for timestamps
with a zone), of the duration, since midnight.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo

import numpy as np

from dbsp.errors import InputError, SchemaError, ValueOutOfRangeError
from dbsp.kernels.limits import INT64_MAX

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)
DAY = 86_400_000_000
"""The microseconds of a day."""
MIN_DAY = dt.date.min.toordinal() - EPOCH.toordinal()
MAX_DAY = dt.date.max.toordinal() - EPOCH.toordinal()
MIN_MICROSECOND = MIN_DAY * DAY
MAX_MICROSECOND = (MAX_DAY + 1) * DAY - 1
MIN_INSTANT, MAX_INSTANT = MIN_MICROSECOND + DAY, MAX_MICROSECOND - DAY
"""The range of timestamps with a zone: in it every zone has a datetime of Python."""
MAX_DURATION = INT64_MAX
TIME_RANGES = {
    "date": (MIN_DAY, MAX_DAY),
    "time": (0, DAY - 1),
    "timestamp": (MIN_MICROSECOND, MAX_MICROSECOND),
    "timestamptz": (MIN_INSTANT, MAX_INSTANT),
    "duration": (-MAX_DURATION, MAX_DURATION),
}
"""The smallest and the largest code of each kind of times."""

_DURATION = re.compile(r"([+-]?)P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,6}))?S)?)?")
_OFFSET = re.compile(r"([+-])(\d\d):(\d\d)")


@functools.lru_cache(maxsize=1024)
def zone_of(name: str) -> dt.tzinfo:
    """Return the time zone of a name such as "UTC", "Europe/Rome" or "+02:00"."""
    if name == "UTC":
        return dt.UTC
    if (match := _OFFSET.fullmatch(name)) and int(match[2]) < 24 and int(match[3]) < 60:
        offset = dt.timedelta(hours=int(match[2]), minutes=int(match[3]))
        return dt.timezone(-offset if match[1] == "-" else offset)
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise SchemaError(
            f'unknown time zone {name!r}; write "timestamptz(UTC)", or a zone of the IANA database, '
            'such as "timestamptz(Europe/Rome)"',
            code="invalid-type",
        ) from None


def zone_name(zone: dt.tzinfo | None) -> str:
    """Return the name of a zone of the IANA database; "UTC" for any other zone."""
    name = getattr(zone, "key", None)
    return name if isinstance(name, str) else "UTC"


def naive(value: dt.datetime) -> dt.datetime:
    """Return a datetime without zone. Raises InputError for one with a zone."""
    if value.tzinfo is not None:
        raise InputError(
            f"expected a timestamp without zone, got {value.isoformat()}; declare the column as "
            '"timestamptz", which holds timestamps with a zone, or remove the zone with '
            "value.astimezone(datetime.UTC).replace(tzinfo=None)",
            code="wrong-type",
        )
    return value


def instant(value: dt.datetime) -> int:
    """Return the microseconds of a datetime with a zone. Raises InputError for one without."""
    if value.tzinfo is None or (offset := value.utcoffset()) is None:
        raise InputError(
            f"expected a timestamp with a zone, got {value.isoformat()}; add the zone with "
            'value.replace(tzinfo=datetime.UTC), or declare the column as "timestamp", which holds '
            "timestamps without zone",
            code="wrong-type",
        )
    code = (value.replace(tzinfo=None) - EPOCH - offset) // MICROSECOND
    if not MIN_INSTANT <= code <= MAX_INSTANT:
        raise ValueOutOfRangeError(
            f"expected a timestamp from 0001-01-02 to 9999-12-30 of UTC, got {value.isoformat()}"
        )
    return code


def in_zone(code: int, zone: str) -> dt.datetime:
    """Return the datetime of a timestamp with a zone."""
    value = (EPOCH + dt.timedelta(microseconds=code)).replace(tzinfo=dt.UTC)
    return value if zone == "UTC" else value.astimezone(zone_of(zone))


def duration_code(value: dt.timedelta) -> int:
    """Return the microseconds of a duration."""
    code = value // MICROSECOND
    if not -MAX_DURATION <= code <= MAX_DURATION:
        raise ValueOutOfRangeError(
            f"expected a duration of at most 292,471 years, whose microseconds fit in 64 bits, got {value!r}"
        )
    return code


def duration_text(value: dt.timedelta) -> str:
    """Return a duration in the format of ISO 8601, such as `P1DT2H0.5S` or `-PT3M`."""
    code = value // MICROSECOND
    seconds, fraction = divmod(abs(code), 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    hours, seconds = divmod(seconds, 3600)
    minutes, seconds = divmod(seconds, 60)
    digits = f"{seconds}.{fraction:06}".rstrip("0").rstrip(".") if fraction else str(seconds)
    text = f"{hours}H" * (hours > 0) + f"{minutes}M" * (minutes > 0) + f"{digits}S" * (digits != "0")
    body = f"{days}D" * (days > 0) + f"T{text}" * bool(text)
    return f"{'-' * (code < 0)}P{body or 'T0S'}"


def read_duration(text: str) -> dt.timedelta:
    """Return the duration of a text of ISO 8601 without years and months. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()[1:]):
        raise ValueError("a duration such as P1DT2H3M4.5S")
    sign, *parts, fraction = match.groups()
    days, hours, minutes, seconds = (int(part or 0) if len(part or "") < 20 else 10**19 for part in parts)
    total = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1_000_000
    total += int((fraction or "").ljust(6, "0"))
    if total > MAX_DURATION:
        raise ValueError("a duration of at most 292,471 years")
    return dt.timedelta(microseconds=-total if sign == "-" else total)


def time_code(value: dt.time) -> int:
    """Return the microseconds since midnight."""
    if value.tzinfo is not None:
        raise InputError(
            f"expected a time of day without zone, got {value.isoformat()}; remove the zone with "
            "value.replace(tzinfo=None)",
            code="wrong-type",
        )
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def time_of(code: int) -> dt.time:
    """Return the time of day of a code."""
    seconds, microsecond = divmod(code, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return dt.time(hour, minute, second, microsecond)


def whole_microseconds(value: np.datetime64) -> dt.datetime | None:
    """Return a numpy time as a datetime, None for NaT.

    Raises ValueOutOfRangeError for nanoseconds.
    """
    rounded = value.astype("datetime64[us]")
    if rounded != value and not np.isnat(value):
        raise nanoseconds_refused(value)
    found: dt.datetime | None = rounded.item()
    return found


def has_unit(value: np.timedelta64) -> bool:
    """Return whether a numpy duration has a unit of a fixed length: not months, not years."""
    return np.datetime_data(value.dtype)[0] not in ("Y", "M", "generic")


def whole_duration(value: np.timedelta64) -> dt.timedelta | None:
    """Return a numpy duration as a timedelta, None for NaT.

    Raises ValueOutOfRangeError for nanoseconds.
    """
    if np.isnat(value):
        return None
    rounded = value.astype("timedelta64[us]")
    if rounded != value:
        raise nanoseconds_refused(value, "duration")
    return dt.timedelta(microseconds=int(rounded.astype(np.int64)))


def nanoseconds_refused(value: object, what: str = "timestamp") -> ValueOutOfRangeError:
    """Return the error for a time that is not a whole number of microseconds."""
    return ValueOutOfRangeError(
        f"expected a {what} in whole microseconds, got {value}; round it to microseconds"
    )
