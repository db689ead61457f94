"""The trace that trainings are tried on, and which tests need torch."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from support.workloads import busy_days

from allocopt.traces.text import Swf

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
    path = tmp_path_factory.mktemp("traces") / "small.swf"
    Swf().write(path, busy_days(0, 35 * 24, 35, 32, "small", 0.12))
    return path
