"""Multisets of job sizes in mixed radix."""

import itertools

import numpy as np
import pytest

from formulations.topology.dcas.window import Multisets
from formulations.topology.dynamic_program import number_of_multisets


@pytest.mark.parametrize(("sizes", "counts"), [([3], [1]), ([2, 5], [3, 1]), ([1, 2, 7], [2, 1, 4])])
def test_all_multisets_are_there_once(sizes: list[int], counts: list[int]) -> None:
    multisets = Multisets.of(np.array(sizes), np.array(counts))
    expected = set(itertools.product(*(range(count + 1) for count in counts)))
    assert set(map(tuple, multisets.digits.T.tolist())) == expected
    assert multisets.digits.shape[1] == len(expected)
    assert multisets.digits[:, multisets.full].tolist() == counts
    assert multisets.used.tolist() == (np.array(sizes) @ multisets.digits).tolist()


def test_a_stride_leads_to_the_multiset_with_one_more_job() -> None:
    multisets = Multisets.of(np.array([2, 5, 6]), np.array([3, 1, 2]))
    for r, stride in enumerate(multisets.strides.tolist()):
        for state in range(multisets.full + 1):
            if multisets.digits[r, state] > 0:
                more = multisets.digits[:, state] - multisets.digits[:, state - stride]
                assert more.tolist() == [int(i == r) for i in range(3)]


@pytest.mark.parametrize(("sizes", "number"), [([4], 2), ([4, 4], 3), ([4, 2, 4], 6), ([1, 2, 3, 4], 16)])
def test_the_number_of_multisets_is_that_of_the_enumeration(sizes: list[int], number: int) -> None:
    distinct, counts = np.unique(sizes, return_counts=True)
    assert number_of_multisets(np.array(sizes)) == Multisets.of(distinct, counts).full + 1 == number


def test_the_number_of_multisets_of_a_thousand_jobs_does_not_overflow() -> None:
    assert number_of_multisets(np.arange(1, 1001)) == 2**1000
    assert number_of_multisets(np.repeat(np.arange(1, 501), 2)) == 3**500
