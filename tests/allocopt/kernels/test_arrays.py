"""The order of keys is numpy's stable one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from allocopt.kernels.arrays import stable_order


@given(keys=st.lists(st.integers(-3, 3)) | st.lists(st.floats(allow_nan=False)))
def test_equal_keys_keep_their_order(keys: list[int] | list[float]) -> None:
    array = np.array(keys)
    assert stable_order(array).tolist() == np.argsort(array, kind="stable").tolist()
