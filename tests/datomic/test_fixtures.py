"""Every case of the fixtures, one-shot: rows that are written down, the evaluator's, and errors.

`test_live_fixtures` and `test_past_fixtures` answer the cases in other ways.
"""

from __future__ import annotations

import pytest

from dbsp.datomic import q
from dbsp.errors import DbspError

from .fixture_files import Case
from .live_cases import CASES, engine_inputs, finished, one_shot_problem, shaped
from .oracle.answer import parse


@pytest.mark.parametrize("case", [case for case in CASES if case.error is None], ids=str)
def test_one_shot(case: Case) -> None:
    twin = finished(case.database)
    assert one_shot_problem(case, twin, twin.model.t) is None
    result = q(case.query, *engine_inputs(case))
    if case.expected is not None:
        single = parse(case.query).kind in ("tuple", "scalar")
        written = (case.expected or [None])[0] if single else case.expected
        assert shaped(case, result) == shaped(case, written)


@pytest.mark.parametrize("case", [case for case in CASES if case.error is not None], ids=str)
def test_refused(case: Case) -> None:
    with pytest.raises(DbspError) as caught:
        q(case.query, *engine_inputs(case))
    for part in [f"[{case.error}]", *case.parts]:
        assert part in str(caught.value)
