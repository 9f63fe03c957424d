"""The simplex method for small covering programs, in exact arithmetic.

    minimise   costs . weights      where each row of sets has  sum of weights >= 1,  weights >= 0

The dual program starts from a feasible solution, 0: maximise the sum of y >= 0, where the y of the
rows in each set sum up to its cost at most. Bland's rule chooses the pivots, so it terminates. The
bounds of queries have a handful of rows and sets; for large programs this is slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def least_cover(members: Sequence[Sequence[bool]], costs: Sequence[float]) -> list[Fraction]:
    """Return the weights of the sets; members[s][r] is whether set s has row r.

    Every row must be in a set, and costs must be finite and not negative.

    >>> least_cover([[True, True, False], [False, True, True], [True, False, True]], [1, 1, 1])
    [Fraction(1, 2), Fraction(1, 2), Fraction(1, 2)]
    """
    sets, rows = len(members), len(members[0])
    # One line per set: the y of the rows, the slack of the sets, the cost.
    lines = [
        [
            *(Fraction(member) for member in members[s]),
            *(Fraction(s == other) for other in range(sets)),
            Fraction(costs[s]),
        ]
        for s in range(sets)
    ]
    gain = [Fraction(1)] * rows + [Fraction(0)] * (sets + 1)
    basis = list(range(rows, rows + sets))
    while (entering := next((v for v in range(rows + sets) if gain[v] > 0), None)) is not None:
        _, _, at = min(
            (line[-1] / line[entering], basis[s], s) for s, line in enumerate(lines) if line[entering] > 0
        )
        pivot = lines[at][entering]
        lines[at] = [number / pivot for number in lines[at]]
        for line in [*lines[:at], *lines[at + 1 :], gain]:
            factor = line[entering]
            if factor:
                line[:] = [a - factor * b for a, b in zip(line, lines[at], strict=True)]
        basis[at] = entering
    return [-gain[rows + s] for s in range(sets)]
