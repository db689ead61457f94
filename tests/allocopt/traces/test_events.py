"""Events of the Slurm simulator: options of sbatch are used, ignored and counted, or leave a job out."""

import shlex
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.request import Request
from allocopt.traces.reading import read_workload
from allocopt.traces.sbatch_options import DEMANDS, FLAGS, HARMLESS, KNOWN, NOT_MODELLED, USED
from allocopt.traces.workload import PRECEDING_LOST, Workload

HEAD = "-dt 5 -e submit_batch_job |"
PLAIN = "-J a -sim-walltime 9 -t 1:00"


def read(folder: Path, *options: str) -> Workload:
    path = folder / "jobs.events"
    path.write_text("\n".join(f"{HEAD} {text} job.sh" for text in options))
    return read_workload(path)


ASKED: dict[str, Request] = {
    "-n 4 --constraint='a|b'": Request(4, constraint="a|b"),
    '-n 4 -C "a&b"': Request(4, constraint="a&b"),
    "-n 4 --constraint a&b": Request(4, constraint="a&b"),
    "-n4 -c2 -N2": Request(4, 2, 2, None, 2.0),
    "-n 4 -N 2-3": Request(4, 2, 3),
    "-N 2 --ntasks-per-node=4": Request(8, 2, 2, 4),
    "-n 1 --gpus-per-node=a100:2": Request(1, gpus_per_node=(("a100", 2.0),)),
    "-n 1 --gres gpu:a100:2": Request(1, gpus_per_node=(("a100", 2.0),)),
    "-n 2 --gpus-per-task=1": Request(2, gpus_per_task=(("", 1.0),)),
    "-n 2 --tres-per-task=gres/gpu:h100:2": Request(2, gpus_per_task=(("h100", 2.0),)),
    "-n 2 -G 4": Request(2, gpus_per_task=(("", 2.0),)),
    "-n 2 -N 2 --gpus=v100:4": Request(2, 2, 2, gpus_per_node=(("v100", 2.0),)),
    "-G 4 --ntasks-per-gpu=2": Request(8, 1, 1, gpus_per_node=(("", 4.0),)),
    "-n 2 --gpus-per-task=2 --cpus-per-gpu=3": Request(2, cores_per_task=6.0, gpus_per_task=(("", 2.0),)),
    "-n 1 --gpus-per-node=2 --mem-per-gpu=10G": Request(1, memory_per_node_mib=20_480, gpus_per_node=(("", 2.0),)),
    "-n 2 --mem-per-cpu=2G": Request(2, memory_per_core_mib=2048),
    "-n 2 --mem=4G -p x,y -x n[1-2] -w n3": Request(
        2, memory_per_node_mib=4096, partition="x,y", excluded="n[1-2]", required="n3"
    ),
    "-n 2 --mem=0": Request(2, memory_per_node_mib=0),
    "-n 1 --exclusive": Request(1, is_exclusive=True),
    "-n 1 --exclusive=user -q high -A me --comment='with - dashes' -o out": Request(1, is_exclusive=True),
}


@pytest.mark.parametrize(("options", "request_"), ASKED.items())
def test_options_become_a_request(tmp_path: Path, options: str, request_: Request) -> None:
    made = read(tmp_path, f"{PLAIN} {options}")
    assert made.requests.tolist() == [request_]
    assert made.remarks() == []


LEFT_OUT = {
    "-L matlab:2": "license/matlab",
    "--gres=gpu:1,shard:3": "gres/shard",
    "--switches=1": "--switches",
    "--reservation x": "--reservation",
    "-a 1-10": "--array",
    "--cpus-per-gpu=4 --gpus-per-node=2": "--cpus-per-gpu",
    "--gpus-per-socket=2": "--gpus-per-socket",
    "--tmp=10G": "--tmp",
    "-N 1,4": "--nodes=1,4",
    "-C a*2": "a constraint that counts nodes",
    "--exclusive=topo": "--exclusive=topo",
    "--tres-per-task=cpu=4,license/x=1": "--tres-per-task=cpu or mem, license/x",
}


@pytest.mark.parametrize(("options", "name"), LEFT_OUT.items())
def test_an_option_that_asks_for_what_is_not_modelled_leaves_the_job_out(
    tmp_path: Path, options: str, name: str
) -> None:
    made = read(tmp_path, f"{PLAIN} -n 1", f"{PLAIN} -n 2 {options}")
    assert made.ids.tolist() == [1]
    assert made.dropped == ((f"asks for {name}, which is not modelled", 1),)


def test_a_dependency_on_one_job_is_a_preceding_job_and_others_are_counted(tmp_path: Path) -> None:
    dependencies = ["afterok:1", "--dependency afterany:1", "after:1", "afterok:1:2", "singleton", "afterok:77"]
    lines = [f"{PLAIN} -d {one}" if "--" not in one else f"{PLAIN} {one}" for one in dependencies]
    made = read(tmp_path, f"{PLAIN} -n 1", *lines)
    assert made.preceding.tolist() == [-1, 1, 1, -1, -1, -1, -1]
    assert dict(made.repaired) == {
        "waits for a job that is not in the trace": 1,
        "dependency after not modelled, ignored": 1,
        "dependency afterok of several jobs not modelled, ignored": 1,
        "dependency singleton not modelled, ignored": 1,
    }
    path = tmp_path / "jobs.events"
    assert read_workload(path, dependencies=False).preceding.tolist() == [-1] * 7


def test_a_job_whose_preceding_one_is_left_out_waits_no_more(tmp_path: Path) -> None:
    made = read(tmp_path, f"{PLAIN} -n 1 -L x", f"{PLAIN} -d afterok:1")
    assert made.ids.tolist() == [2]
    assert made.preceding.tolist() == [-1]
    assert dict(made.repaired) in ({PRECEDING_LOST: 1}, {"waits for a job that is not in the trace": 1})


def test_other_events_and_lines_without_jobs_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "jobs.events"
    path.write_text(f"# a comment\n{HEAD} {PLAIN} j\n\n-dt 9 -e cancel_job | -jid 1\n{HEAD} -J 'x -n 1 j\n")
    made = read_workload(path)
    assert dict(made.dropped) == {
        "events cancel_job are not modelled": 1,
        "damaged (line 5: cannot be split into options: No closing quotation)": 1,
    }


unknown = st.text("abcdefghij", min_size=3, max_size=8).filter(
    lambda name: f"zz{name}" not in USED | HARMLESS | DEMANDS
)
values = st.text("abc 12|&=:,", min_size=1, max_size=6).filter(lambda text: text.strip(" -"))


@given(extra=st.lists(st.tuples(unknown, values, st.booleans()), max_size=4), place=st.integers(0, 3))
def test_options_that_are_not_known_change_nothing_and_are_counted_by_name(
    tmp_path_factory: pytest.TempPathFactory, extra: list[tuple[str, str, bool]], place: int
) -> None:
    known = ["-n 4", "-p x", "--gres=gpu:2", "--mem=4G"]
    added = [f"--zz{name}={shlex.quote(value)}" if equals else f"--zz{name}" for name, value, equals in extra]
    folder = tmp_path_factory.mktemp("options")
    plain = read(folder, " ".join([PLAIN, *known]))
    made = read(folder, " ".join([PLAIN, *known[:place], *added, *known[place:]]))
    for column in ("ids", "run", "estimate", "processors", "requests"):
        assert np.array_equal(getattr(made, column), getattr(plain, column))
    names = ", ".join(sorted({f"--zz{name}" for name, _, _ in extra}))
    assert dict(made.repaired) == ({f"options not understood, ignored: {names}": 1} if extra else {})


def test_options_that_are_known_and_not_modelled_are_counted(tmp_path: Path) -> None:
    made = read(tmp_path, f"{PLAIN} -n 1 --begin now+1hour -H --nice=5 -p x")
    assert made.requests[0].partition == "x"
    assert dict(made.repaired) == {"options not modelled, ignored: --begin, --hold, --nice": 1}


def test_every_option_of_sbatch_is_of_one_kind() -> None:
    kinds = [USED, HARMLESS, DEMANDS, NOT_MODELLED]
    assert sum(map(len, kinds)) == len(KNOWN)
    assert KNOWN >= FLAGS
