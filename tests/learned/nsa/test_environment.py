"""The environment kernel against its slow twin, built from the paper's words and the problem's own functions."""

import numpy as np
import pytest

from allocopt.arrays import IntArray
from allocopt.cluster.topology import hop_costs
from allocopt.learned.nsa import learner
from allocopt.learned.nsa.learner import MOVES, REWARD_SCALE, WALK_STEPS, RepairEnvironment, _Repairs
from allocopt.learned.nsa.training import _training_windows
from allocopt.problems.topology import Allocation, TopologyProblem

E, Q = 16, 100


@pytest.fixture(scope="module")
def problems() -> list[TopologyProblem]:
    return list(_training_windows(3, 1))


def held(environment: RepairEnvironment) -> dict[str, np.ndarray]:
    return _Repairs(*environment.snapshot()["repairs"])._asdict()


class Twin:
    """One environment, read from a snapshot and stepped by hand."""

    def __init__(self, problems: list[TopologyProblem], snapshot: dict[str, np.ndarray], e: int) -> None:
        counters = snapshot["counters"][:, e]
        self.problem = problems[counters[learner.WINDOW]]
        m, n_jobs = len(self.problem.idle_nodes), len(self.problem.jobs)
        self.removed = snapshot["jobs"][e, : counters[learner.REMOVED]].tolist()
        self.waiting = self.removed[counters[learner.PLACED] :]
        self.working = snapshot["owners"][0, e, :m].copy()
        self.accepted = snapshot["owners"][1, e, :m].copy()
        self.costs = snapshot["costs"][0, e, :n_jobs].copy()
        self.moves = int(counters[MOVES])
        self.n_idle = int(counters[learner.N_IDLE])

    @property
    def idle(self) -> IntArray:
        return np.flatnonzero(self.working < 0)

    def state(self, n_features: int) -> np.ndarray:
        """Build the state as section V-B1 says."""
        nodes = self.problem.idle_nodes[self.idle[:Q]]
        sizes = self.problem.sizes[self.waiting]
        state = np.zeros((n_features, Q))
        state[0, : len(nodes)] = (nodes // 10 + 1) / 100
        state[1, : len(nodes)] = (nodes // 100 + 1) / 10
        state[2, : len(nodes)] = sizes[0] / 40
        state[3, : len(nodes)] = sizes[1:].mean() / 40 if len(sizes) > 1 else 0
        if n_features == 5:
            state[4, : len(nodes)] = 1
        return state

    def place(self, first: int) -> None:
        job = self.waiting.pop(0)
        self.working[np.roll(self.idle, -first)[: self.problem.sizes[job]]] = job

    def cost(self, owners: IntArray, jobs: list[int]) -> float:
        nodes = Allocation.of_owners(self.problem, owners).nodes
        return float(hop_costs(self.problem.topology, 1.0, [nodes[job] for job in jobs]).sum())


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [4, 5])
def test_states_moves_and_rewards_are_those_of_the_slow_twin(problems: list[TopologyProblem], n_features: int) -> None:
    environment, rng = RepairEnvironment(problems, (n_features, Q), E, 7), np.random.default_rng(1)
    ended = 0
    for _ in range(60):
        twins = [Twin(problems, held(environment), e) for e in range(E)]
        states, legal = environment.observe()
        for e, twin in enumerate(twins):
            assert states[e] == pytest.approx(twin.state(n_features), abs=1e-6)
            assert legal[e].sum() == min(Q, len(twin.idle)) == min(Q, twin.n_idle)
            assert legal[e, : legal[e].sum()].all()
        actions = np.array([rng.integers(row.sum()) for row in legal])
        rewards, done = environment.step(actions)
        after = [Twin(problems, held(environment), e) for e in range(E)]
        for e, twin in enumerate(twins):
            twin.place(int(actions[e]))
            assert done[e] == (not twin.waiting)
            if not done[e]:
                assert rewards[e] == 0
                assert after[e].working.tolist() == twin.working.tolist()
                continue
            ended += 1
            assert rewards[e] == pytest.approx(-REWARD_SCALE * twin.cost(twin.working, twin.removed))
            everyone = list(range(len(twin.problem.jobs)))
            better = twin.cost(twin.working, everyone) <= twin.cost(twin.accepted, everyone)
            if after[e].moves == twin.moves + 1:
                kept = [] if better else [twin.accepted.tolist()]
                assert after[e].accepted.tolist() in [twin.working.tolist(), *kept]
    assert ended > E * 20


def test_moves_remove_one_or_two_jobs_the_largest_first_and_walks_begin_in_sequence_after_their_steps(
    problems: list[TopologyProblem],
) -> None:
    environment, seen, started = RepairEnvironment(problems, (4, Q), E, 4), set(), 0
    for step in range(2 * WALK_STEPS):
        for e in range(E if step < 50 else 0):
            twin = Twin(problems, held(environment), e)
            sizes = twin.problem.sizes[twin.removed].tolist()
            assert sizes == sorted(sizes, reverse=True)
            assert len(set(twin.removed)) == len(twin.removed)
            seen.add(len(sizes))
        before = held(environment)["counters"][MOVES]
        environment.step(np.zeros(E, dtype=np.int64))
        snapshot = held(environment)
        assert snapshot["counters"][MOVES].max() < WALK_STEPS
        for e in np.flatnonzero(snapshot["counters"][MOVES] < before):
            twin = Twin(problems, snapshot, int(e))
            nodes = Allocation.sequential(twin.problem).nodes
            found = Allocation.of_owners(twin.problem, twin.accepted).nodes
            assert [list(job) for job in found] == [list(job) for job in nodes]
            started += 1
    assert seen == {1, 2}
    assert started >= E
