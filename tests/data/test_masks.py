"""All and any elements of masks, as numpy has them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dbsp.data.masks import all_true, any_true


@given(st.lists(st.booleans()) | st.lists(st.just(True)) | st.lists(st.just(False)))
def test_masks_of_all_sizes(chosen: list[bool]) -> None:
    mask = np.array(chosen, np.bool_)
    for one in (mask, mask[::2], np.stack((mask, mask), axis=1)):
        assert all_true(one) is bool(one.all())
        assert any_true(one) is bool(one.any())
