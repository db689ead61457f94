"""The environment of co-allocation: Gymnasium's checks, schedulers copied in it, rewards, what is refused."""

from collections.abc import Callable

import numpy as np
import pytest

import allocopt.envs  # noqa: F401 - registers the environments
from allocopt.arrays import Float32Array
from allocopt.envs.coallocation.task import MEANINGS, Capacity, CoallocationEnv, CoallocationOptions, MeanResponse
from allocopt.learned.asax.scheduler import Asax, AsaxScheduler
from allocopt.learned.asax.trees import Experts, State
from allocopt.simulator.quota.execution import QuotaExecution, QuotaSchedule
from allocopt.simulator.quota.scheduler import QuotaScheduler, SpaceSharing, StaticSharing
from allocopt.simulator.simulate import simulate
from allocopt.traces.applications import QueuedJob, asax_queue, queue_workload
from allocopt.traces.job_profile import ProfiledJob, Stage, StageKind

Queue = tuple[QueuedJob, ...]
Agent = Callable[[CoallocationEnv, Float32Array], int]
COLUMN = {name: column for column, name in enumerate(MEANINGS)}


def paper_queue(seed: int) -> Queue:
    return asax_queue(np.random.default_rng(seed), walltime_factor=1.25, between_s=120.0)


def played(env: CoallocationEnv, agent: Agent, jobset: int = 0) -> tuple[QuotaSchedule, float]:
    """Let an agent play an episode; return the schedule and the sum of the rewards."""
    observation, _ = env.reset(seed=0, options={"jobset": jobset})
    over, total = False, 0.0
    while not over:
        observation, reward, over, _, info = env.step(np.int64(agent(env, observation)))
        assert not info["invalid_action"]
        total += reward
    return env.episodes.schedule(), total


def gives_nothing(env: CoallocationEnv, seen: Float32Array) -> int:
    return 0


def gives_half(env: CoallocationEnv, seen: Float32Array) -> int:
    """Copy ``static-50``: half beside the oldest running job that can take the one that waits."""
    question = env.episodes.question()
    assert question is not None
    heeds_memory = env.episodes.options.heeds_memory
    hosts = (one for one in question.view.allocations if one.takes(question.job.job, heeds_memory))
    return 5 if question.is_there or next(hosts) is question.allocation else 0


def sure_experts() -> Experts:
    """Return a single expert that is sure of one quota in every state: no chance, and nothing to learn."""
    whole = [0.0, float("inf")]
    rows = [
        {"cpu": [0.0, 0.5], "happiness": [0.0, 1.07], "p": [0, 1, 0, 0]},
        {"cpu": [0.0, 0.5], "happiness": [1.07, float("inf")], "p": [0, 0, 0, 1]},
        {"cpu": [0.5, 0.9], "happiness": whole, "p": [0, 0, 1, 0]},
        {"cpu": [0.9, 1.0], "happiness": whole, "p": [1, 0, 0, 0]},
    ]
    return Experts.of({"actions": [0, 10, 30, 70], "experts": [{"metric": "cpu", "rows": rows}]}, "table")


def asks_the_expert(env: CoallocationEnv, seen: Float32Array) -> int:
    """Copy ``asax`` under a sure expert by what is observed alone."""
    value = {name: float(seen[column]) for name, column in COLUMN.items()}
    kind = StageKind.SEQUENTIAL if value["host_sequential"] else StageKind.PARALLEL
    happiness = value["host_happiness"] / (1 - value["host_happiness"])
    state = State(value["host_cpu"], value["host_memory"], kind, value["host_interval"], happiness)
    experts = sure_experts()
    action = int(experts.probabilities(state)[0].argmax())
    if value["is_there"]:
        return max(1, action)
    usable = max(experts.actions[action] / 100, 1 - value["host_cpu"])
    return action if value["guest_cpu"] <= usable + 1e-6 else 0


COPIES: dict[str, tuple[Agent, Callable[[], QuotaScheduler], CoallocationOptions]] = {
    "space-sharing": (gives_nothing, SpaceSharing, CoallocationOptions()),
    "static-50": (gives_half, StaticSharing, CoallocationOptions(heeds_memory=False)),
    "static-50-memory": (gives_half, lambda: StaticSharing(heeds_memory=True), CoallocationOptions()),
    "asax": (
        asks_the_expert,
        lambda: AsaxScheduler(Asax.untrained(sure_experts())),
        CoallocationOptions((0, 10, 30, 70), period_s=60.0),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COPIES)
def test_an_agent_that_copies_a_scheduler_gets_its_schedule_job_by_job(name: str) -> None:
    agent, make, options = COPIES[name]
    queue = paper_queue(3)[:24]
    found, _ = played(CoallocationEnv(128, queue, options), agent)
    expected = simulate(queue_workload(queue), 128, make(), execution=QuotaExecution(queue))
    assert found.jobs == expected.jobs
    np.testing.assert_array_equal((found.start, found.end), (expected.start, expected.end))
    np.testing.assert_array_equal(found.accounts.host_of, expected.accounts.host_of)
    np.testing.assert_array_equal(found.accounts.busy_core_s, expected.accounts.busy_core_s)
    assert (expected.accounts.host_of >= 0).any() == (name != "space-sharing")


def queued(name: str, cores: int, run: float, *stages: Stage) -> QueuedJob:
    return QueuedJob(name, 0.0, ProfiledJob(name, cores, stages or (Stage(1.0, 1.0),), run, 10 * run))


def test_what_is_asked_and_seen_by_hand() -> None:
    half = Stage(1.0, 0.5, memory=0.3)
    jobs = (queued("a", 8, 100.0, half), queued("b", 4, 100.0, half), queued("a", 8, 50.0, Stage(1.0, 1.0, memory=0.8)))
    env = CoallocationEnv(8, jobs)
    seen, info = env.reset(seed=0)
    # Only the second job has the memory beside the first.
    assert info["action_mask"].all()
    assert dict(zip(MEANINGS, seen.tolist(), strict=False)) == pytest.approx(
        {
            **{"host_cpu": 0.5, "host_memory": 0.3, "host_sequential": 0, "host_interval": 0},
            **{"host_happiness": 10 / 11, "host_io": 0, "host_cores": 1, "is_there": 0, "quota": 0},
            **{"guest_cores": 0.5, "guest_memory": 0.15, "guest_cpu": 0.25, "guest_io": 0},
            **{"guest_limit": 1000 / 4600, "guest_wait": 0, "free_cores": 0, "waiting": 2 / 3},
        },
        abs=1e-6,
    )
    assert seen[len(MEANINGS) :].tolist() == [1, 0, 0, 1]
    env.step(np.int64(3))
    # The first has ended; beside the second one, on cores of its own now, the third has no room until it ends too.
    assert env.episodes.question() is None
    assert env.episodes.schedule().accounts.host_of.tolist() == [-1, 0, -1]


@pytest.mark.slow
def test_rewards_add_up_to_what_they_are_named_for() -> None:
    queue = paper_queue(4)[:24]
    rng = np.random.default_rng(2)

    def gives_any(env: CoallocationEnv, seen: Float32Array) -> int:
        return int(rng.choice(np.flatnonzero(env.action_masks())))

    done, total = played(CoallocationEnv(64, queue, CoallocationOptions(reward=MeanResponse())), gives_any)
    assert total == pytest.approx(-done.response_s.mean() / 3600, abs=1e-9)
    done, total = played(CoallocationEnv(64, queue, CoallocationOptions(reward=Capacity(2.0))), gives_any)
    # Work is conserved: what guests did beside hosts, and what a host missed by them, make up all slowdowns.
    gained, lost = done.accounts.gained_core_s.sum(), done.accounts.lost_core_s.sum()
    assert total == pytest.approx((gained - 2 * lost) / (64 * 3600))
    assert lost > 0
    assert played(CoallocationEnv(64, queue), gives_nothing)[1] == 0.0


def test_gained_and_lost_work_by_hand() -> None:
    jobs = (queued("a", 8, 75.0), queued("b", 4, 90.0))
    env = CoallocationEnv(8, jobs)
    env.reset(seed=0)
    env.step(np.int64(2))
    used = env.episodes.schedule().accounts
    # Contention of two busy jobs is 0.1 times the other's share of the cores; the guest gets 1.6 of its 4 cores.
    host = 1 / 0.8 + 0.1 * 0.5
    end, guest = 75.0 * host, 1 / (0.2 / 0.5) + 0.1
    assert used.lost_core_s.tolist() == pytest.approx([8 * (end - 75.0), 0.0])
    assert used.gained_core_s.tolist() == pytest.approx([0.0, 4 * end / guest])


def test_a_guest_that_is_there_is_not_sent_away() -> None:
    env = CoallocationEnv(64, paper_queue(3), CoallocationOptions(period_s=60.0))
    _, info = env.reset(seed=0)
    env.step(np.int64(5))
    while not (env.episodes.question() is not None and env.episodes.question().is_there):
        env.step(np.int64(5))
    assert env.action_masks().tolist() == [False] + [True] * 9
    allocation = env.episodes.question().allocation
    guest, percent = allocation.guest, allocation.percent
    _, _, _, _, info = env.step(np.int64(0))
    assert info["invalid_action"]
    assert (allocation.guest, allocation.percent) == (guest, percent)


def test_a_window_asks_about_the_first_waiting_jobs_only() -> None:
    env = CoallocationEnv(64, paper_queue(3), CoallocationOptions(window=2))
    env.reset(seed=0)
    over = False
    while not over:
        question = env.episodes.question()
        assert question is not None
        assert question.is_there or question.guest in question.view.queue[:2]
        _, _, over, _, _ = env.step(np.int64(3))
