"""Workers agree on what they tell each other, and a dead one ends the training of the others with a message."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from allocopt.learned.rl.workers import ALONE
from allocopt.learned.weights import read_weights

TRAIN = (
    "from pathlib import Path; import sys\n"
    "from allocopt.training import TrainingRequest\n"
    "from allocopt.learned.cush.training import CushTraining\n"
    "training = CushTraining(nodes=4, epochs=6, jobsets=2, simulations=4, pool=10, validation=5, average_every=2,"
    " every=2)\n"
    "minutes = 0.0 if sys.argv[2] == 'begun' else None\n"
    "request = TrainingRequest(Path(sys.argv[1]), 3, minutes, sys.argv[2] == 'resumed', 'test')\n"
    "print(len(list(training.train(request))))\n"
)
TALK = (
    "import numpy as np, torch\n"
    "from allocopt.learned.rl.workers import Workers\n"
    "with Workers.joined() as workers:\n"
    "    module = torch.nn.BatchNorm1d(1)\n"
    "    module.running_mean.fill_(float(workers.rank))\n"
    "    workers.average(module)\n"
    "    own = np.array([1.0 + workers.rank])\n"
    "    print(workers.count, workers.total(own)[0], workers.largest(own)[0], module.running_mean.item(),"
    " [part['rank'] for part in workers.gathered({'rank': workers.rank})])\n"
)
DIE = (
    "import os, numpy as np\n"
    "from allocopt.learned.rl.workers import Workers\n"
    "with Workers.joined() as workers:\n"
    "    workers.total(np.zeros(1))\n"
    "    if workers.rank:\n"
    "        os._exit(3)\n"
    "    workers.total(np.zeros(1))\n"
)
STOP = (
    "import os, signal, numpy as np\n"
    "from allocopt.learned.rl.workers import Workers\n"
    "with Workers.joined() as workers:\n"
    # Else one may stop while the other one still joins it.
    "    workers.total(np.zeros(1))\n"
    "    os.kill(os.getpid(), signal.SIGTERM)\n"
)


FORK = """
import json, os, signal, sys, traceback
import allocopt.learned.cush.learner, allocopt.learned.cush.policies, allocopt.learned.cush.training
import allocopt.learned.rl.workers, torch._dynamo
for line in sys.stdin:
    folder, shared, code, arguments = json.loads(line)
    children = []
    for rank in range(int(shared["WORLD_SIZE"])):
        child = os.fork()
        if child == 0:
            signal.alarm(600)
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(f"{folder}/{rank}.{name}", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), number)
            os.environ.update(shared, RANK=str(rank), LOCAL_RANK=str(rank))
            sys.argv = ["-c", *arguments]
            try:
                exec(code, {"__name__": "__main__"})
            except BaseException:
                traceback.print_exc()
                status = 1
            else:
                status = 0
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        children.append(child)
    print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children), flush=True)
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Launcher:
    """A process that has imported what the programs of workers need, and forks them: imports take seconds."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def started(self, code: str, *arguments: str, count: int = 2) -> list[subprocess.CompletedProcess[str]]:
        """Run a program in several workers, as torchrun would, and wait for all of them."""
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count)}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(self._folder), shared, code, arguments]) + "\n")
        self._process.stdin.flush()
        codes = [int(code) for code in self._process.stdout.readline().split()]
        assert len(codes) == count
        texts = [[(self._folder / f"{rank}.{name}").read_text() for name in ("out", "err")] for rank in range(count)]
        return [subprocess.CompletedProcess([], code, *text) for code, text in zip(codes, texts, strict=True)]

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    with closing(Launcher(tmp_path_factory.mktemp("workers"))) as one:
        yield one


def test_one_alone_tells_itself_what_it_has() -> None:
    assert ALONE.is_leader
    assert ALONE.total(np.array([2.0])).tolist() == ALONE.largest(np.array([2.0])).tolist() == [2.0]
    assert ALONE.any_of(True, False) == (True, False)
    assert ALONE.gathered({"a": 1}) == [{"a": 1}]


@pytest.mark.slow
def test_workers_hear_sums_maxima_means_and_everything(launcher: Launcher) -> None:
    assert [one.stdout.strip() for one in launcher.started(TALK)] == ["2 3.0 2.0 0.5 [0, 1]"] * 2


@pytest.mark.slow
def test_a_dead_worker_and_one_that_is_told_to_stop_are_told_to_the_user(launcher: Launcher) -> None:
    first, second = launcher.started(DIE)
    assert (first.returncode, second.returncode) == (1, 3)
    assert "another worker has died" in first.stderr
    assert "--resume continues from its last checkpoint" in first.stderr
    for one in launcher.started(STOP):
        assert one.returncode == 1
        assert "stopped by a signal, probably because another one has died; --resume continues" in one.stderr


@pytest.mark.slow
def test_two_workers_that_were_cut_off_end_with_the_same_weights(launcher: Launcher, tmp_path: Path) -> None:
    for folder, how in (("whole", "whole"), ("cut", "begun"), ("cut", "resumed")):
        one, other = launcher.started(TRAIN, str(tmp_path / folder), how)
        assert (one.returncode, other.returncode) == (0, 0), one.stderr
        assert other.stdout.strip() == "0"
    whole, cut = (read_weights(tmp_path / name / "weights.safetensors") for name in ("whole", "cut"))
    assert whole[1].settings["workers"] == 2
    assert all(np.array_equal(values, cut[0][name]) for name, values in whole[0].items())


@pytest.mark.slow
def test_a_training_of_one_worker_does_not_go_on_with_two(launcher: Launcher, tmp_path: Path) -> None:
    folder = str(tmp_path / "one")
    (one,) = launcher.started(TRAIN, folder, "begun", count=1)
    assert one.returncode == 0
    failed = launcher.started(TRAIN, folder, "resumed")
    assert all(two.returncode == 1 and "to a training with workers 1, must be 2" in two.stderr for two in failed)
