"""Trainings end with the same weights whether they were cut off or not, and refuse seeds and options out of range."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.windows import paper_window
from support.workloads import busy_days

from allocopt.errors import BadFileError, UsageError
from allocopt.gpu_sharing.placing import place_pods, pod_policy
from allocopt.gpu_sharing.pods import read_gpu_nodes, read_pods
from allocopt.learned.dras.jobsets import EVALUATION_SEEDS
from allocopt.learned.irmasim import training as irmasim
from allocopt.learned.nsa.solver import Nsa
from allocopt.learned.prices.solver import LnsPrices
from allocopt.learned.prices.training import EVALUATION_SEEDS as UNSEEN_WINDOWS
from allocopt.learned.rl.training import LARGEST_SEED, RESERVED
from allocopt.learned.weights import FOLDER, Card, read_weights, write_weights
from allocopt.simulator.locality import Policy
from allocopt.simulator.multicore.state import Execution, ExecutionKind
from allocopt.simulator.scheduler import get_policy
from allocopt.simulator.simulate import simulate
from allocopt.solving.protocol import get_solver
from allocopt.solving.solve import solve
from allocopt.training import TrainingRequest, get_training

ROOT = Path(__file__).resolve().parents[2]

DRAS = {"updates": 2, "environments": 4, "validation": 2, "every": 1, "window": 16}
CUSH = {"nodes": 4, "epochs": 4, "jobsets": 2, "simulations": 4, "pool": 10, "validation": 4}
EVERY_TWO = {**CUSH, "average_every": 2, "every": 2}
IRMASIM = {"jobs": 20, "episodes": 12, "environments": 4, "objective": "makespan"}
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, DRAS) for name in ("dras-ppo", "dras-a2c", "dras-pg", "dras-dql", "decima-pg")),
    *((name, {**DRAS, "network": "paper"}) for name in ("dras-ppo", "dras-a2c", "dras-pg", "dras-dql")),
    *(("cush", {**EVERY_TWO, **options}) for options in ({}, {"settings": "published"}, {"policies": "breadth-first"})),
    ("cush", {**EVERY_TWO, "network": "published", "settings": "published"}),
    ("cush", {**EVERY_TWO, "settings": "stable", "mask": "horizon"}),
    *(
        ("irmasim", {**IRMASIM, "agent": agent, "level": level})
        for agent, level in (("pg", "normal"), ("pg", "minimal"), ("a2c", "small"))
    ),
    ("nsa", {"network": "cnn-1", "updates": 3, "environments": 8, "window_epochs": 1}),
    *(
        ("evolved-priority", {"generations": 3, "population": 4, "blocks": 2, "block_jobs": 200, **options})
        for options in ({}, {"hidden": 0, "held_out": 0.0, "goal": "fair"})
    ),
    ("multifactor", {"generations": 3, "population": 4, "blocks": 2, "block_jobs": 200}),
    ("lns-prices", {"updates": 6, "windows": 4, "large_windows": 1, "label_steps": 50}),
    ("rlscheduler", {"epochs": 3, "trajectories": 3}),
    ("evolved-score", {"generations": 3, "population": 4, "cases": 2, "case_nodes": 2}),
]
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,16000,65536,2,T4\nb,16000,65536,2,\nc,16000,65536,4,\n"
PODS = "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n2000,1,1,700,\n2000,1,1,300,T4\n1000,1,2,1000,\n"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{name}-{number}" for number, (name, _) in enumerate(CASES)])
def test_a_training_that_is_cut_off_ends_with_the_same_weights_and_these_act(
    name: str, options: dict[str, Any], trace: Path, tmp_path: Path
) -> None:
    if name == "evolved-score":
        (tmp_path / "nodes.csv").write_text(NODES)
        (tmp_path / "pods.csv").write_text(PODS)
        options = {**options, "nodes": str(tmp_path / "nodes.csv"), "pods": str(tmp_path / "pods.csv")}
    training = of_a_trace(name, options, trace)
    *_, last = training.train(TrainingRequest(tmp_path / "whole", 3, None, False, "test"))
    resumes = False
    while not (tmp_path / "cut" / "weights.safetensors").exists():
        list(training.train(TrainingRequest(tmp_path / "cut", 3, 0.0, resumes, "test")))
        resumes = True
    files = [tmp_path / folder / "weights.safetensors" for folder in ("whole", "cut")]
    (whole, card), (cut, _) = map(read_weights, files)
    assert all(np.array_equal(whole[part], cut[part]) for part in whole)
    assert (card.training, card.seed, card.command) == (name, 3, "test")
    assert np.isfinite(last.measures.get("score", 0.0))
    assert set(options) - {"updates"} <= card.settings.keys()
    act(name, str(files[0]), options)
    if "trace" in card.settings:
        assert card.settings["trace"] == ("small.swf" if name != "irmasim" else "")


def act(name: str, path: str, options: dict[str, Any]) -> None:
    """Let weights act where they are used."""
    if name in ("nsa", "lns-prices"):
        solver = get_solver(name, {"network" if name == "nsa" else "weights": path})
        assert solve(paper_window(0), strategy="free", solver=solver, time_limit=None, iterations=5).objective > 0
    elif name == "irmasim":
        agent, jobs = irmasim.Agent.load(path), irmasim.IrmasimTraining(jobs=20, batch=7).jobsets()[0]
        assert (agent.options.level, agent.options.reward) == (options["level"], "makespan")
        played = agent.play(irmasim.PAPERS["heterogeneous"], jobs, Execution(ExecutionKind.BASELINE))
        assert np.isfinite(played.schedule.end).all()
        assert sum(played.shares.values()) == pytest.approx(1.0)
    elif name == "multifactor":
        _, card = read_weights(Path(path))
        assert "PriorityType=priority/multifactor" in card.settings["slurm_conf"]
    elif name == "evolved-score":
        nodes, pods = read_gpu_nodes(options["nodes"]), read_pods(options["pods"])
        assert place_pods(nodes, pods, pods, pod_policy(name, {"weights": path})).placed.all()
    elif options.get("network") == "published":
        with pytest.raises(BadFileError, match="only compact selectors act without torch"):
            get_policy(name, {"weights": path})
    else:
        policy = get_policy(name, {"weights": path})
        assert np.isfinite(simulate(busy_days(1, 60, 2, 32), 32, policy).end).all()
        if "policies" in options:
            assert set(policy.policies.values()) == {Policy.BREADTH_FIRST}


FILES: dict[str, Callable[[str], object]] = {
    "dras-ppo": lambda path: get_policy("dras-ppo", {"weights": path}),
    "cush": lambda path: get_policy("cush", {"weights": path}),
    "evolved-priority": lambda path: get_policy("evolved-priority", {"weights": path}),
    "evolved-score": lambda path: pod_policy("evolved-score", {"weights": path}),
    "irmasim": irmasim.Agent.load,
    "nsa": lambda path: Nsa(path).loaded(),
    "lns-prices": lambda path: LnsPrices(weights=path).loaded(),
}
SHIPPED = {
    "dras-ppo": "dras-ppo-theta",
    "cush": "cush-sierra",
    "evolved-priority": "evolved-priority-balanced",
    "evolved-score": "evolved-score-openb",
    "nsa": "nsa-fcn-1",
    "lns-prices": "lns-prices",
}
ACTOR = {"0.weight": (32, 51), "0.bias": (32,), "2.weight": (6, 32), "2.bias": (6,)}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_training_or_shape_is_refused(name: str, tmp_path: Path) -> None:
    path, load = tmp_path / "w.safetensors", FILES[name]
    with pytest.raises((BadFileError, UsageError), match=r"w\.safetensors"):
        load(str(path))
    weights: dict[str, Any] = {part: np.zeros(shape, dtype=np.float32) for part, shape in ACTOR.items()}
    settings = {"level": "small", "objective": "energy", "actions": list(irmasim.SUBSET)}
    card = Card(name, "dense", 0, 1, "0", "none", "test", settings)
    if name in SHIPPED:
        weights, card = read_weights(FOLDER / f"{SHIPPED[name]}.safetensors")
    write_weights(path, weights, card)
    load(str(path))
    other = {field: getattr(card, field) for field in Card.__slots__} | {"training": "other"}
    write_weights(path, weights, Card(**other))
    with pytest.raises(BadFileError, match=rf"w\.safetensors: holds weights of 'other', not of '{name}'"):
        load(str(path))
    first = next(part for part in weights if part.endswith(("2.weight", "leaf_in", "network", "weights")))
    for changed in ({first: weights[first][(slice(1),) * weights[first].ndim]}, {}):
        write_weights(path, {part: array for part, array in weights.items() if part != first} | changed, card)
        with pytest.raises(BadFileError, match=r"w\.safetensors: .*(missing|has (shape|no|1 outputs))"):
            load(str(path))


def of_a_trace(name: str, options: dict[str, Any], trace: Path | str) -> Any:
    return get_training(
        name, {"trace": str(trace), **options} if name.startswith(("d", "evolved-p", "multi", "rl")) else options
    )


WINDOWS = "reserved for evaluation, as it draws the windows of instances"
REFUSED_SEEDS = [
    *(("dras-ppo", seed, "reserved") for seed in (8000, EVALUATION_SEEDS[0], EVALUATION_SEEDS[-1])),
    *((name, seed, WINDOWS) for name in ("nsa", "lns-prices") for seed in RESERVED),
    *(("lns-prices", seed, "reserved for evaluation") for seed in (UNSEEN_WINDOWS[0], UNSEEN_WINDOWS[-1])),
    *(("nsa", seed, f"the seed is {seed}, must be within 0") for seed in (-1, 2**63, 10**30)),
    ("decima-pg", -1, "must not be negative"),
]


@pytest.mark.parametrize(("name", "seed", "fault"), REFUSED_SEEDS)
def test_seeds_of_evaluations_and_those_out_of_range_are_refused(
    name: str, seed: int, fault: str, trace: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=fault):
        list(of_a_trace(name, {}, trace).train(TrainingRequest(tmp_path, seed, None, False, "test")))
    assert list(tmp_path.iterdir()) == []


def test_the_reserved_seeds_are_those_of_the_shipped_windows_and_others_are_taken() -> None:
    for seed in (0, LARGEST_SEED):
        get_training("nsa", {}).check_seed(seed)  # type: ignore[attr-defined]
    script = (ROOT / "instances" / "generate.sh").read_text()
    for seed, name in RESERVED.items():
        line = next(line for line in script.splitlines() if f"--seed {seed} " in line)
        assert f"--prefix {Path(name).stem} " in line


REFUSED_OPTIONS: dict[str, list[tuple[dict[str, Any], str]]] = {
    "dras-ppo": [
        ({"trace": ""}, "needs a trace"),
        ({"phases": "real,real"}, "must be one or more of sampled, real, synthetic, each once"),
        ({"phases": "dreamt"}, "must be one or more of sampled, real, synthetic, each once"),
        ({"updates": -1}, "must not be negative"),
        ({"window": 0}, "at least 1"),
        ({"goal": "fame"}, "capability, capacity"),
        ({"start": "fcfs"}, "wfp3"),
    ],
    "cush": [
        ({"machine": "fugaku"}, "must be one of sierra, summit"),
        ({"network": "large"}, "must be one of compact, published"),
        ({"policies": "none"}, "must be one of learned, depth-first, breadth-first, oracle"),
        ({"simulations": 0}, "simulations is 0"),
        ({"epochs": -1}, "epochs is -1, must not be negative"),
        ({"table": "a.json", "measured": "b.json"}, "give only one of them"),
        ({"network": "published", "horizon": 1}, "the horizon is 1, must be at least 2"),
    ],
    "irmasim": [
        ({"agent": "ppo"}, "pg, a2c"),
        ({"model": "exact"}, "contention"),
        ({"level": "large"}, "normal, small, minimal"),
        ({"objective": "money"}, "makespan"),
        ({"policies": "first-lowpower"}, "did you mean"),
        ({"episodes": 3, "environments": 4}, "at least as many"),
        ({"environments": 1}, "at least 2"),
        ({"jobs": 0}, "jobs is 0, must be at least 1"),
    ],
    "nsa": [
        ({"network": "cnn-9"}, "network is 'cnn-9'"),
        ({"updates": -1}, "updates is .*, must be within"),
        ({"environments": 0}, "environments is .*, must be within"),
        ({"environments": 10**8}, "environments is .*, must be within"),
        ({"window_epochs": 0}, "window_epochs is .*, must be within"),
        ({"window_epochs": 10**11}, "window_epochs is .*, must be within"),
        ({"ent_coef": -1.0}, "ent_coef is .*, must be within"),
        ({"ent_coef": 1e300}, "ent_coef is .*, must be within"),
        ({"entropies": 0.5}, "no option 'entropies'; it has: network, updates, environments"),
    ],
    "evolved-priority": [
        ({"trace": ""}, "needs a trace"),
        ({"goal": "fame"}, "must be one of balanced, slowdown, fair"),
        ({"processors": "32,64"}, "must be one number, or one for each of 1 traces"),
        ({"processors": 32, "cluster": "slurm.conf"}, "do not give processors"),
        ({"population": 3}, "population is 3, must be at least 4"),
        ({"held_out": 1.0}, "held_out is 1.0, must be within 0.0 .. 0.9"),
        ({"hidden": -1}, "hidden is -1, must not be negative"),
        ({"features": "wait,size"}, "must be two or more of limit, share, predicted"),
        ({"features": "wait,wait"}, "must be two or more of"),
        ({"features": "wait"}, "at least two"),
    ],
    "evolved-score": [
        ({}, "needs nodes and pods"),
        ({"nodes": "n.csv", "pods": "p.csv", "population": 3}, "population is 3, must be at least 4"),
        ({"nodes": "n.csv", "pods": "p.csv", "asked": 0.0}, "asked is 0.0, must be at least 0.1"),
    ],
    "rlscheduler": [
        ({"trace": ""}, "needs a trace"),
        ({"backfill": "some"}, "must be one of none, easy"),
        ({"trajectories": 1}, "trajectories is 1, must be at least 2"),
    ],
    "multifactor": [({"trace": ""}, "needs a trace"), ({"max_age_days": 0.5}, "must be at least 1")],
    "lns-prices": [({option: 0}, "at least 1") for option in ("updates", "windows", "label_steps")],
}


@pytest.mark.parametrize(
    ("name", "options", "fault"), [(name, *each) for name, found in REFUSED_OPTIONS.items() for each in found]
)
def test_options_that_make_no_sense_are_refused(name: str, options: dict[str, Any], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        of_a_trace(name, options, "some.swf")


def test_an_option_may_be_given_by_its_old_name() -> None:
    assert get_training("nsa", {"entropy": 0.5}).ent_coef == 0.5  # type: ignore[attr-defined]


def test_a_platform_that_is_not_there_is_named() -> None:
    training = get_training("irmasim", {"platform": "moon", "agent": "a2c"})
    assert training.label == "irmasim-a2c-energy-contention"
    with pytest.raises(UsageError, match="heterogeneous, homogeneous, or a file"):
        training.learner(0)  # type: ignore[attr-defined]
