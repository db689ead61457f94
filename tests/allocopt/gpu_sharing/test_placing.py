"""Placing pods that share GPUs: policies beside a slow twin, invariants, published results, and the ceiling."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import slow_gpu_sharing as slow

from allocopt.errors import UsageError
from allocopt.gpu_sharing.ceiling import most_allocated
from allocopt.gpu_sharing.placing import PlacedPods, place_pods, pod_policy, pod_policy_names
from allocopt.gpu_sharing.pods import GpuNode, PodList, PodRequest, read_gpu_nodes, read_pods
from allocopt.gpu_sharing.state import TERMS
from allocopt.learned.node_scores.policy import WeightedScore
from benchmarks.gpu_sharing import published

MODELS = ("", "T4", "V100")


@st.composite
def sites(draw: st.DrawFn) -> tuple[list[GpuNode], list[PodRequest]]:
    """Draw a few nodes and pods."""
    nodes = [
        GpuNode(
            f"n{number}",
            1000 * draw(st.integers(0, 16)),
            draw(st.sampled_from([0, 4096, 10**6])),
            draw(st.integers(0, 4)),
            draw(st.sampled_from(MODELS)),
        )
        for number in range(draw(st.integers(1, 6)))
    ]
    kinds = []
    for _ in range(draw(st.integers(1, 6))):
        gpus = draw(st.sampled_from([0, 1, 1, 1, 2, 3]))
        milli = 0 if gpus == 0 else draw(st.sampled_from([100, 250, 460, 500, 1000])) if gpus == 1 else 1000
        models = draw(st.frozensets(st.sampled_from(MODELS[1:]), max_size=2)) if gpus else frozenset()
        kinds.append(PodRequest(500 * draw(st.integers(0, 8)), draw(st.sampled_from([0, 1024])), gpus, milli, models))
    pods = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=40))
    return nodes, pods


def chosen_of(placed: PlacedPods, nodes: list[GpuNode]) -> list[tuple[str, list[int]] | None]:
    names = sorted(node.name for node in nodes)
    return [
        None if node < 0 else (names[node], [gpu for gpu in range(62) if gpus >> gpu & 1])
        for node, gpus in zip(placed.nodes.tolist(), placed.chosen.tolist(), strict=True)
    ]


@given(sites())
def test_policies_place_pods_as_their_rules_say(site: tuple[list[GpuNode], list[PodRequest]]) -> None:
    nodes, pods = site
    if not any(node.gpus for node in nodes):
        return
    listed, shares = PodList.of(pods), slow.typical(pods)
    weights = dict(zip(TERMS, np.random.default_rng(len(pods)).standard_normal(len(TERMS)).tolist(), strict=True))
    for policy, score in (
        (pod_policy("fgd"), slow.fgd(shares)),
        (pod_policy("best-fit"), slow.best_fit),
        (WeightedScore(np.array(list(weights.values()))), slow.weighted(weights, shares)),
    ):
        found = place_pods(nodes, listed, listed, policy)
        assert chosen_of(found, nodes) == slow.placed(nodes, pods, score), policy.name


@pytest.mark.parametrize("name", pod_policy_names())
@given(site=sites())
def test_no_policy_gives_away_more_than_there_is(name: str, site: tuple[list[GpuNode], list[PodRequest]]) -> None:
    nodes, pods = site
    if not any(node.gpus for node in nodes):
        return
    listed = PodList.of(pods)
    found = place_pods(nodes, listed, listed, pod_policy(name))
    free = {node.name: slow.Free.of(node) for node in nodes}
    for pod, place in zip(pods, chosen_of(found, nodes), strict=True):
        if place is None:
            assert not any(True for one in free.values() for _ in one.ways(pod)), "a pod with room was turned away"
            continue
        node, gpus = free[place[0]], place[1]
        assert len(gpus) == pod.gpus
        assert node.takes_model(pod) or not gpus
        node.cpu, node.memory = node.cpu - pod.cpu_milli, node.memory - pod.memory_mib
        for gpu in gpus:
            node.gpus[gpu] -= pod.gpu_milli
        assert min(node.cpu, node.memory, *node.gpus, 0) >= 0
    assert found.share <= most_allocated(nodes, listed) + 1e-9


def test_the_ceiling_counts_cores_and_whole_gpus() -> None:
    nodes = [GpuNode("a", 4000, 0, 2), GpuNode("b", 64_000, 0, 2)]
    # Of 0.6 GPUs only one fits on a GPU; on the small node only cores for one are there.
    pods = PodList.of([PodRequest(4000, 0, 1, 600)] * 10)
    assert most_allocated(nodes, pods) == pytest.approx(3 * 600 / 4000, rel=1e-3)
    assert place_pods(nodes, pods, pods, pod_policy("fgd")).share == pytest.approx(3 * 600 / 4000)


def test_the_ceiling_counts_pods_that_arrive_and_models() -> None:
    nodes = [GpuNode("a", 64_000, 0, 2, "T4"), GpuNode("b", 64_000, 0, 2, "V100")]
    pods = PodList.of([PodRequest(0, 0, 2, 1000, frozenset({"V100"}))] * 3 + [PodRequest(0, 0, 1, 500)])
    assert most_allocated(nodes, pods) == pytest.approx(2500 / 4000, rel=1e-3)


@given(sites(), st.integers(0, 2**32), st.floats(0.1, 3.0))
def test_arrivals_ask_for_no_more_than_was_said(
    site: tuple[list[GpuNode], list[PodRequest]], seed: int, times: float
) -> None:
    pods = PodList.of(site[1])
    total = float(pods.gpu_milli.sum())
    found = pods.arrivals(times * total, np.random.default_rng(seed))
    assert found.gpu_milli.sum() <= times * total + 1e-6
    if times >= 1 and total:
        # All pods are among them, then come more.
        counts = [np.bincount(one.request_of, minlength=len(pods.requests)) for one in (pods, found)]
        assert (counts[0] <= counts[1]).all()
        assert found.gpu_milli.sum() + pods.gpu_milli.max() > times * total


def test_nodes_without_gpus_are_refused() -> None:
    pods = PodList.of([PodRequest(1000, 0)])
    with pytest.raises(UsageError, match="no node has a GPU"):
        place_pods([GpuNode("n", 1000, 0, 0)], pods, pods, pod_policy("fgd"))


@pytest.mark.parametrize(("name", "theirs"), [("fgd", "06-FGD"), ("best-fit", "05-BestFit")])
def test_policies_allocate_as_much_as_was_published(name: str, theirs: str, shared_data: Path) -> None:
    folder = shared_data / "fgd"
    nodes = read_gpu_nodes(folder / "openb_node_list_gpu_node.csv.gz")
    total = 1000 * sum(node.gpus for node in nodes)
    printed = {workload: share for (workload, by), share in published(folder / "allo.csv.gz").items() if by == theirs}
    assert len(printed) == 17
    for workload, expected in printed.items():
        pods = read_pods(folder / f"{workload}.csv.gz")
        found = []
        for seed in range(4):
            arrivals = pods.arrivals(1.3 * total, np.random.default_rng(seed))
            found.append(100 * place_pods(nodes, pods, arrivals, pod_policy(name)).share)
        assert np.mean(found) == pytest.approx(expected, abs=0.6), workload
