"""The forward pass: that of torch, and the same however leaves, pods and jobs are numbered."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.windows import paper_window, windows

from allocopt.arrays import Encoding
from allocopt.learned.prices.learner import _PriceNetwork
from allocopt.learned.prices.network import Features, features_of, predict
from allocopt.problems.topology import TopologyProblem
from allocopt.problems.topology.tables import encode, group_tree

seeds = st.integers(0, 2**16)
PAPER = [paper_window(seed) for seed in range(10)]


def seen(encoding: Encoding) -> Features:
    return features_of(group_tree(encoding), encoding.sizes)


@given(problem=windows(), seed=seeds)
def test_features_are_shares_and_ratios(problem: TopologyProblem, seed: int) -> None:
    features = seen(encode(problem))
    for part in (features.leaves, features.jobs, features.leaf_share, features.pod_share, features.job_share):
        assert (part >= 0.0).all()
        assert (part <= 1.0).all()
    assert features.leaf_share.sum() == pytest.approx(1.0, abs=1e-5)
    assert features.job_share.sum() == pytest.approx(1.0, abs=1e-5)


@given(problems=st.lists(windows(), min_size=1, max_size=4) | st.just(PAPER), seed=seeds)
def test_the_kernel_says_what_torch_says(problems: list[TopologyProblem], seed: int) -> None:
    network = _PriceNetwork(seed)
    batch = [seen(encode(problem)) for problem in problems]
    own = [predict(network.weights(), features) for features in batch]
    with torch.no_grad():
        prices, worths, scores = network(batch)
    unit = np.repeat([features.unit for features in batch], [len(features.leaves) for features in batch])
    expected = (unit * prices.numpy(), unit * worths.numpy(), *scores.numpy().T)
    for found, right in zip(zip(*own, strict=True), expected, strict=True):
        assert np.concatenate(found) == pytest.approx(right, rel=1e-5, abs=1e-5)


@given(problem=windows(most_idle=12), seed=seeds, data=st.data())
def test_renumbering_leaves_and_pods_renumbers_the_prices(
    problem: TopologyProblem, seed: int, data: st.DataObject
) -> None:
    encoding = encode(problem)
    new = [np.array(data.draw(st.permutations(range(n)))) for n in encoding.n_groups.tolist()]
    groups = np.array([numbers[row] for numbers, row in zip(new, encoding.groups, strict=True)], dtype=np.int64)
    renumbered = encoding._replace(groups=np.ascontiguousarray(groups.reshape(encoding.groups.shape)))
    weights = _PriceNetwork(seed).weights()
    before, after = (predict(weights, seen(each)) for each in (encoding, renumbered))
    leaves = new[0] if new else np.array([0])
    assert after.prices[leaves] == pytest.approx(before.prices, rel=1e-4, abs=1e-5)
    assert after.worth[leaves] == pytest.approx(before.worth, rel=1e-4, abs=1e-5)
    assert after.order == pytest.approx(before.order, rel=1e-4, abs=1e-5)


@given(problem=windows(most_idle=12, most_jobs=5), seed=seeds, data=st.data())
def test_renumbering_jobs_renumbers_their_scores_alone(
    problem: TopologyProblem, seed: int, data: st.DataObject
) -> None:
    encoding = encode(problem)
    order = np.array(data.draw(st.permutations(range(len(encoding.sizes)))))
    weights = _PriceNetwork(seed).weights()
    before, after = (
        predict(weights, seen(each)) for each in (encoding, encoding._replace(sizes=encoding.sizes[order]))
    )
    assert after.prices == pytest.approx(before.prices, rel=1e-4, abs=1e-5)
    assert after.order == pytest.approx(before.order[order], rel=1e-4, abs=1e-5)
    assert after.destruction == pytest.approx(before.destruction[order], rel=1e-4, abs=1e-5)
