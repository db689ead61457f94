"""Workers agree on what they tell each other, and a dead one ends the training of the others with a message."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from learned.networks.files import read_weights
from learned.training.workers import Alone, any_of, is_leader

TRAIN = (
    "from pathlib import Path; import sys\n"
    "from allocopt.training import TrainingRequest\n"
    "from learned.cush.training import CushTraining\n"
    "training = CushTraining(nodes=4, epochs=6, jobsets=2, simulations=4, pool=10, validation=5, average_every=2,"
    " every=2)\n"
    "minutes = 0.0 if sys.argv[2] == 'begun' else None\n"
    "request = TrainingRequest(Path(sys.argv[1]), 3, minutes, sys.argv[2] == 'resumed', 'test')\n"
    "print(len(list(training.train(request))))\n"
)
TALK = (
    "import numpy as np, torch\n"
    "from learned.training.distributed import joined_workers\n"
    "with joined_workers() as workers:\n"
    "    module = torch.nn.BatchNorm1d(1)\n"
    "    module.running_mean.fill_(float(workers.rank))\n"
    "    workers.average(module)\n"
    "    own = np.array([1.0 + workers.rank])\n"
    "    print(workers.count, workers.total(own)[0], workers.largest(own)[0], module.running_mean.item(),"
    " [part['rank'] for part in workers.gathered({'rank': workers.rank})])\n"
)
DIE = (
    "import os, numpy as np\n"
    "from learned.training.distributed import joined_workers\n"
    "with joined_workers() as workers:\n"
    "    workers.total(np.zeros(1))\n"
    "    if workers.rank:\n"
    "        os._exit(3)\n"
    "    workers.total(np.zeros(1))\n"
)
STOP = (
    "import os, signal\n"
    "from learned.training.distributed import joined_workers\n"
    "with joined_workers():\n"
    "    os.kill(os.getpid(), signal.SIGTERM)\n"
)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def started(code: str, *arguments: str, count: int = 2) -> list[subprocess.CompletedProcess[str]]:
    """Run a program in several workers, as torchrun would, and wait for all of them."""
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    outputs = [process.communicate(timeout=600) for process in processes]
    return [
        subprocess.CompletedProcess([], process.returncode, *output)
        for process, output in zip(processes, outputs, strict=True)
    ]


def test_one_alone_tells_itself_what_it_has() -> None:
    workers = Alone()
    assert is_leader(workers)
    assert workers.total(np.array([2.0])).tolist() == workers.largest(np.array([2.0])).tolist() == [2.0]
    assert any_of(workers, True, False) == (True, False)
    assert workers.gathered({"a": 1}) == [{"a": 1}]


@pytest.mark.slow
def test_workers_hear_sums_maxima_means_and_everything() -> None:
    told = [one.stdout.strip() for one in started(TALK)]
    assert told == ["2 3.0 2.0 0.5 [0, 1]"] * 2


@pytest.mark.slow
def test_a_dead_worker_is_told_to_the_user() -> None:
    first, second = started(DIE)
    assert second.returncode == 3
    assert first.returncode == 1
    assert "another worker has died" in first.stderr
    assert "--resume goes on from its last checkpoint" in first.stderr


@pytest.mark.slow
def test_a_worker_that_is_told_to_stop_says_so() -> None:
    for one in started(STOP):
        assert one.returncode == 1
        assert "told to stop, as when another one has died; --resume goes on" in one.stderr


@pytest.mark.slow
def test_two_workers_that_were_cut_off_end_with_the_same_weights(tmp_path: Path) -> None:
    for folder, how in (("whole", "whole"), ("cut", "begun"), ("cut", "resumed")):
        one, other = started(TRAIN, str(tmp_path / folder), how)
        assert (one.returncode, other.returncode) == (0, 0), one.stderr
        assert other.stdout.strip() == "0"
    whole, cut = (read_weights(tmp_path / name / "weights.safetensors") for name in ("whole", "cut"))
    assert whole[1].settings["workers"] == 2
    assert all(np.array_equal(values, cut[0][name]) for name, values in whole[0].items())


@pytest.mark.slow
def test_a_training_of_one_worker_does_not_go_on_with_two(tmp_path: Path) -> None:
    folder = str(tmp_path / "one")
    (one,) = started(TRAIN, folder, "begun", count=1)
    assert one.returncode == 0
    failed = started(TRAIN, folder, "resumed")
    assert all(two.returncode == 1 and "of a training with workers 1, not 2" in two.stderr for two in failed)
