"""The trace that trainings are tried on, and which tests need torch."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from allocopt.traces.swf import Swf
from allocopt.traces.workload import Workload

TRAINING = (
    *("cush/test_learner.py", "cush/test_training.py", "irmasim/test_training.py"),
    *("nsa/test_networks.py", "nsa/test_training.py"),
    *("dras/test_experience.py", "dras/test_policies.py", "dras/test_paper_network.py", "dras/test_training.py"),
    *("prices/test_bounds.py", "prices/test_network.py", "prices/test_training.py", "test_trainings.py"),
    *("rl/test_learners.py", "rl/test_loop.py", "rl/test_workers.py"),
)
collect_ignore = () if find_spec("torch") else TRAINING


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five weeks of a small machine at a load of about 0.8, most jobs short and some long."""
    rng = np.random.default_rng(0)
    n = 35 * 24
    submit = np.floor(np.sort(rng.uniform(0, 35 * 86_400.0, n)))
    run = np.where(rng.random(n) < 0.8, rng.uniform(600, 7200, n), rng.uniform(20_000, 60_000, n)).round()
    sizes = np.minimum(rng.geometric(0.12, n), 32)
    path = tmp_path_factory.mktemp("traces") / "small.swf"
    Swf().write(
        path, Workload("small", np.arange(1, n + 1), submit, run, sizes, (run * rng.uniform(1, 3, n)).round(), 32)
    )
    return path
