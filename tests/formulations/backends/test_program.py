import numpy as np
import pytest
from scipy.sparse import csc_array

from formulations.backends.protocol import BinaryProgram, NameGrid


def test_names_run_through_the_last_axis_first() -> None:
    assert NameGrid("y", (np.array([2, 5]), np.array([0, 1]))).names() == ["y_2_0", "y_2_1", "y_5_0", "y_5_1"]


def test_a_program_whose_parts_do_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="matrix"):
        BinaryProgram(np.ones(3), csc_array(np.ones((1, 2))), np.zeros(1), np.ones(1), (), ())
    with pytest.raises(ValueError, match="matrix"):
        BinaryProgram(np.ones(2), csc_array(np.ones((1, 2))), np.zeros(1), np.ones(2), (), ())
