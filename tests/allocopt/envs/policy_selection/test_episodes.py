"""Compiled episodes beside the simulator, stepped one decision at a time, and obvious sums over its schedule."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.multicore import random_jobs, random_machine

from allocopt.arrays import Float32Array
from allocopt.cluster.irmasim import irmasim_testbed
from allocopt.cluster.multicore import Machine
from allocopt.envs.policy_selection.task import (
    GB_IN_MB,
    HOUR_S,
    LEVELS,
    REWARDS,
    TB_IN_MB,
    LevelName,
    PolicySelectionEnv,
    PolicySelectionEpisodes,
    PolicySelectionOptions,
    RewardName,
)
from allocopt.errors import BadFileError
from allocopt.simulator.multicore.policies import ACTION_NAMES, VOID_NAME
from allocopt.simulator.multicore.run import DECISION, OVER
from allocopt.simulator.multicore.simulation import MulticoreSimulation
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.simulate import simulate
from allocopt.simulator.state import QUEUE
from allocopt.traces.tasks import TaskWorkload, npb_batch

SURE = tuple(name for name in ACTION_NAMES if "random" not in name and name != VOID_NAME)


def instance(seed: int, jobs: int = 20) -> tuple[Machine, TaskWorkload]:
    rng = np.random.default_rng(seed)
    machine = random_machine(rng)
    return machine, random_jobs(rng, machine, jobs)


class SlowEyes:
    """What is seen of a simulation, from its arrays, one number after the other."""

    def __init__(self, simulation: MulticoreSimulation) -> None:
        self.of, self.before = simulation, 0

    def queue(self) -> list[float]:
        state, jobs = self.of.state, self.of.jobs
        clock = np.asarray(state.clock)[0]
        tasks = state.lists[QUEUE, clock["first"] : clock["first"] + clock["n_queued"]]
        waiting = np.asarray(self.of.multicore.tasks)["job"][tasks]
        columns = (
            jobs.estimate[waiting] / (jobs.estimate[waiting] + HOUR_S),
            jobs.tasks[waiting] / self.of.machine.cores,
            jobs.memory_mb[waiting] / (jobs.memory_mb[waiting] + GB_IN_MB),
            jobs.volume_mb[waiting] / (jobs.volume_mb[waiting] + TB_IN_MB),
        )
        quantiles = [float(number) for column in columns for number in np.quantile(column, (0, 0.25, 0.5, 0.75, 1))]
        return [*quantiles, len(waiting) / (len(waiting) + self.before)]

    def nodes(self) -> list[float]:
        multicore = self.of.multicore
        free = [
            1.0 if node.memory_mb is None else float(record["free_mb"] / node.memory_mb)
            for node, record in zip(self.of.machine.nodes(), np.asarray(multicore.nodes), strict=True)
        ]
        bandwidth = [
            max(0.0, 1.0 - float(record["demand"]) / processor.bandwidth)
            for processor, record in zip(self.of.machine.processors(), np.asarray(multicore.processors), strict=True)
        ]
        return [*free, *bandwidth]

    def cores(self, shares: bool) -> list[float]:
        multicore, now = self.of.multicore, np.asarray(self.of.state.clock)[0]["now"]
        processors = list(self.of.machine.processors())
        fastest = max(processor.core_speed for processor in processors)
        powers = [processor.power for processor in processors if processor.power is not None]
        most = max(power.core_w + (power.processor_w if shares else 0) for power in powers)
        numbers, core = [], 0
        for processor, power in zip(processors, powers, strict=True):
            tasks = multicore.core_task[core : core + processor.cores]
            for task in tasks.tolist():
                factor, watts, left = 1.0, power.idle_w / processor.cores if shares else 0.0, 0.0
                if task >= 0:
                    factor = float(np.asarray(multicore.tasks)[task]["factor"])
                    stalled = power.stalled if shares else 1.0
                    watts = power.core_w * (stalled + (1 - stalled) * factor)
                    watts += power.processor_w / int((tasks >= 0).sum()) if shares else 0.0
                    record = np.asarray(self.of.state.jobs)[task]
                    left = max(0.0, float((record["start"] + record["estimate"] - now) / record["estimate"]))
                numbers += [factor * processor.core_speed / fastest, watts / most, left]
            core += processor.cores
        return numbers

    def all(self, level: str) -> Float32Array:
        shares = float(np.asarray(self.of.multicore.processors)["processor_w"].sum()) > 0
        cores = self.cores(shares) if level == "normal" else []
        nodes = [] if level == "minimal" else self.nodes()
        return np.array([*nodes, *cores, *self.queue()], dtype=np.float32)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("kind", ExecutionKind)
@pytest.mark.parametrize("seed", range(4))
def test_an_episode_is_the_simulation_and_sees_its_arrays(seed: int, kind: ExecutionKind, level: LevelName) -> None:
    machine, jobs = instance(seed)
    execution = Execution(kind)
    episodes = PolicySelectionEpisodes(
        [jobs], machine, 1, execution, PolicySelectionOptions(level, "energy", (*SURE, VOID_NAME))
    )
    episodes.begin(np.zeros(1, dtype=np.int64))
    simulation = MulticoreSimulation(machine, jobs, execution)
    assert simulation.to_decision() == DECISION
    eyes, rng, over = SlowEyes(simulation), np.random.default_rng(seed), False
    while not over:
        seen, legal = episodes.observe()
        np.testing.assert_allclose(seen[0], np.clip(eyes.all(level), 0, 1), atol=2e-6)
        assert legal[0, -1] or np.asarray(simulation.multicore.tally)["running"][0] == 0, "void waits for a task"
        action = rng.choice(np.flatnonzero(legal[0]))
        over = bool(episodes.step(np.array([action]))[1][0])
        assert not episodes.tally["invalid"][0]
        eyes.before = int(np.asarray(simulation.state.clock)[0]["n_queued"])
        simulation.decide(episodes.options.policies[action])
        assert (simulation.to_decision() == OVER) == over
    made, expected = episodes.schedule(0), simulation.schedule()
    np.testing.assert_array_equal(made.end, expected.end)
    np.testing.assert_array_equal(made.cores, expected.cores)
    np.testing.assert_allclose(made.job_energy_j, expected.job_energy_j)
    tally = episodes.tally[0]
    assert tally["energy_j"] == pytest.approx(expected.energy_j)
    assert tally["makespan_s"] == pytest.approx(expected.makespan_s)
    assert tally["flow_time_s"] == pytest.approx(expected.flow_time_s)
    assert episodes.metrics()["energy_delay_js"][0] == pytest.approx(expected.energy_delay_js)
    assert made.energy_j == pytest.approx(expected.energy_j)
    assert tally["done"] == pytest.approx(1.0)
    assert tally["total_reward"] == pytest.approx(-expected.energy_j)


@pytest.mark.parametrize("reward", REWARDS)
@given(seed=st.integers(0, 1000), policy=st.sampled_from(SURE))
def test_rewards_add_up_to_what_their_name_says(reward: RewardName, seed: int, policy: str) -> None:
    machine, jobs = instance(seed, 12)
    made = simulate(jobs, machine, policy)
    flow = made.end - jobs.submit
    expected = {
        "makespan": made.end.max() - jobs.submit.min(),
        "energy": made.energy_j,
        "energy_delay": made.energy_j * made.makespan_s,
        "flow_time": flow.sum(),
        "energy_flow_time": made.energy_j * flow.sum(),
        "energy_square_flow_time": made.energy_j * np.square(flow).sum(),
    }
    episodes = PolicySelectionEpisodes([jobs], machine, 1, options=PolicySelectionOptions("minimal", reward, (policy,)))
    episodes.begin(np.zeros(1, dtype=np.int64))
    total, over = 0.0, False
    while not over:
        (gained,), (over,) = episodes.step(np.zeros(1, dtype=np.int64))
        total += gained
    assert episodes.tally["total_reward"][0] == pytest.approx(total)
    if reward == "computing":
        assert total == pytest.approx(float(episodes.tally["computing"][0]))
        assert total > 0
    else:
        assert total == pytest.approx(-float(expected[reward]))


def test_computing_counts_the_speeds_right_after_each_action() -> None:
    machine, jobs = irmasim_testbed(), npb_batch(30, np.random.default_rng(1), 0.0)
    episodes = PolicySelectionEpisodes(
        [jobs], machine, 1, Execution(ExecutionKind.BASELINE), PolicySelectionOptions("minimal", "computing")
    )
    episodes.play(lambda seen, legal: np.array([ACTION_NAMES.index("first-high_gflops")]))
    # The first job comes alone where all are submitted at once: a single decision starts all thirty, on the fast cores.
    assert episodes.tally["total_reward"][0] == pytest.approx(30 * 3.4)


def test_observations_have_the_sizes_of_the_paper() -> None:
    machine = irmasim_testbed()
    of_queue = 5 * 4 + 1
    for level, size in zip(LEVELS, (2 * 15 + 3 * 60 + of_queue, 2 * 15 + of_queue, of_queue), strict=True):
        env = PolicySelectionEnv(options=PolicySelectionOptions(level))
        assert (env.observation_space.shape, env.action_space.n) == ((size,), 37)
        assert PolicySelectionEpisodes(
            [npb_batch(3, np.random.default_rng(0))], machine, options=PolicySelectionOptions(level)
        ).shape == (size,)


def test_void_waits_and_stands_for_a_policy_where_nothing_would_ever_happen() -> None:
    jobs = npb_batch(5, np.random.default_rng(0), 10.0)
    episodes = PolicySelectionEpisodes(
        [jobs], irmasim_testbed(), 1, options=PolicySelectionOptions(actions=(VOID_NAME, "first-high_gflops"))
    )
    episodes.begin(np.zeros(1, dtype=np.int64))
    for _ in range(4):
        assert episodes.observe()[1][0].tolist() == [True, True]
        episodes.step(np.zeros(1, dtype=np.int64))
        assert not episodes.tally["invalid"][0]
        assert np.isnan(episodes._batch.jobs["start"][0]).all()
    assert episodes.observe()[1][0].tolist() == [False, True]
    episodes.step(np.zeros(1, dtype=np.int64))
    assert episodes.tally["invalid"][0]
    assert episodes.tally["over"][0]
    assert (episodes.schedule(0).start == jobs.submit.max()).all()


def test_machine_and_jobs_may_be_files(tmp_path: Path) -> None:
    parts = {"processors": {"p": {"cores": 4, "clock_ghz": 3.4}}, "nodes": {"n": {"processors": ["p"]}}}
    clusters = [{"name": "c", "nodes": [{"type": "n", "count": 2}]}]
    platform = {"format": "allocopt-platform", "version": 1, "name": "pair", **parts, "clusters": clusters}
    job = {"subtime": 0.0, "res": 1, "req_ops": 1e10, "ipc": 1.0, "req_time": 5.0, "mem": 0, "mem_vol": 100.0}
    (tmp_path / "platform.json").write_text(json.dumps(platform))
    (tmp_path / "jobs.json").write_text(json.dumps({"jobs": [{"id": str(n), **job} for n in range(10)]}))
    env = PolicySelectionEnv(
        tmp_path / "platform.json", str(tmp_path / "jobs.json"), options=PolicySelectionOptions("normal")
    )
    observation, _ = env.reset(seed=0)
    assert observation.shape == (2 + 2 + 3 * 8 + 21,)
    with pytest.raises(BadFileError, match=r"jobs\.json"):
        PolicySelectionEnv(tmp_path / "jobs.json")
