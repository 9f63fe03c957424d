"""Columns of values between interners: ids, and the numbers by which they travel.

See `dbsp.shards.value_packets`.
"""

from __future__ import annotations

import numpy as np

from dbsp.kernels.arrays import Codes, Rows
from dbsp.kernels.copies import first_codes
from dbsp.kernels.jit import kernel
from dbsp.kernels.limits import NULL
from dbsp.kernels.marking import place_of

_NIL = -1  # as in `dbsp.data.types`


@kernel
def number_column(
    rows: Rows, column: int, kept: Codes, base: int, shift: int, numbers: Codes, used: int
) -> Codes:
    """Replace the ids in a column by their numbers; return the ids that had none, in order.

    `numbers` has the number of the value at each place, or -1; new values get the numbers from
    `used` on. Negative codes stay. See `dbsp.kernels.marking` for `kept`, `base` and `shift`.
    """
    n, end = rows.shape[0], numbers.shape[0] + shift
    new = np.empty(n, np.int64)
    count = 0
    for row in range(n):
        code = rows[row, column]
        if code >= 0:
            # Most ids are not below the base: a call for each of them would take most of the time.
            place = code - shift if base <= code < end else place_of(code, kept, base, shift, end)
            if place < 0:
                raise OverflowError("value: a row has a code that is not the id of a value")
            if numbers[place] == -1:
                numbers[place] = used + count
                new[count] = code
                count += 1
            rows[row, column] = numbers[place]
    return first_codes(new, count, count)


@kernel
def translate_column(rows: Rows, column: int, table: Codes, used: int) -> int:
    """Replace the numbers below `used` in a column by the codes of a table.

    NULL and NIL stay. Returns 0 if all were replaced; otherwise all are as before, and the result
    is 1 for a code that is not a number, 2 for a number without a code.
    """
    n = rows.shape[0]
    for row in range(n):
        number = rows[row, column]
        if number >= used or (number < _NIL and number != NULL):
            return 1
    for row in range(n):
        number = rows[row, column]
        if number >= 0 and table[number] < 0:
            return 2
    for row in range(n):
        number = rows[row, column]
        if number >= 0:
            rows[row, column] = table[number]
    return 0
