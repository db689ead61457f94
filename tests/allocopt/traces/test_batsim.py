import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from allocopt.errors import BadFileError
from allocopt.traces.batsim import RUN_USED
from allocopt.traces.reading import read_workload
from allocopt.traces.records import NO_PROCESSORS, NO_RUN_TIME
from allocopt.traces.workload import Workload

PROFILES = {
    "d": {"type": "delay", "delay": 20.5, "np": 4},
    "none": {"type": "delay", "delay": 0},
    "mpi": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
    "bare": {"delay": 3},
    "late": {"type": "delay"},
    "text": {"type": "delay", "delay": "20"},
    "3": 3,
}


def job(number: object = 1, **changes: object) -> dict[str, object]:
    return {"id": number, "subtime": 10, "res": 4, "walltime": 100, "profile": "d", **changes}


def without(key: str) -> dict[str, object]:
    return {name: value for name, value in job().items() if name != key}


def text_of(*jobs: object, **changes: object) -> str:
    return json.dumps({"nb_res": 32, "jobs": jobs, "profiles": PROFILES, **changes})


def read(folder: Path, text: str) -> Workload:
    path = folder / "jobs.json"
    path.write_text(text)
    return read_workload(path)


def test_run_times_are_delays_and_estimates_walltimes(tmp_path: Path) -> None:
    made = read(tmp_path, text_of(job(2, subtime=11.5), job(1), command="x"))
    assert (made.name, made.machine_processors) == ("jobs", 32)
    assert made.ids.tolist() == [1, 2]
    assert made.submit.tolist() == [10.0, 11.5]
    assert made.run.tolist() == [20.5, 20.5]
    assert made.processors.tolist() == [4, 4]
    assert made.estimate.tolist() == [100.0, 100.0]
    assert made.remarks() == []


def test_without_a_walltime_the_run_time_is_the_estimate(tmp_path: Path) -> None:
    made = read(tmp_path, text_of(without("walltime"), job(2, walltime=-1), job(3, walltime=-1.0), job(4)))
    assert made.estimate.tolist() == [20.5, 20.5, 20.5, 100.0]
    assert made.repaired == ((RUN_USED, 3),)


def test_jobs_that_cannot_run_are_dropped_and_counted(tmp_path: Path) -> None:
    made = read(tmp_path, text_of(job(1, profile="none"), job(2, res=0), job(3), job(3, res=-1)))
    assert made.ids.tolist() == [3]
    assert dict(made.dropped) == {NO_RUN_TIME: 1, NO_PROCESSORS: 2}


def test_ids_may_be_strings_with_the_name_of_a_workload(tmp_path: Path) -> None:
    assert read(tmp_path, text_of(job("17"), job("w0!4"), job("a!b!5"), job(6))).ids.tolist() == [4, 5, 6, 17]


BAD: list[tuple[str, str]] = [
    ("", "is empty, must hold JSON"),
    ("[]", "top level: is an empty list, must be a valid dictionary"),
    ("{}", r"nb_res: is missing \(and 2 more\)"),
    (text_of(job())[:-9], "line 1, column .*is not JSON"),
    (text_of(job(), nb_res=0), "nb_res: is 0, must be greater than or equal to 1"),
    (text_of(job(), nb_res="32"), "nb_res: is '32', must be a valid integer"),
    (text_of(job(), nb_res=True), "nb_res: is true, must be a valid integer"),
    (text_of(job(), jobs={}), "jobs: is an empty object, must be a valid list"),
    (text_of(), "jobs: is an empty list, list should have at least 1 item"),
    (text_of(job(), 7), r"jobs\[1\]: is 7, must be a valid dictionary"),
    (text_of(job(), profiles=[]), "profiles: is an empty list, must be a valid dictionary"),
    (text_of(without("subtime")), r"jobs\[0\].subtime: is missing"),
    (text_of(without("profile")), r"jobs\[0\].profile: is missing"),
    (text_of(without("id")), r"jobs\[0\].id: is missing"),
    (
        text_of(job(), job("x2")),
        r"""jobs\[1\].id: is 'x2', must be an integer, alone or as in "17" or "workload!17"$""",
    ),
    (text_of(job("w!")), r"jobs\[0\].id: is 'w!', must be an integer"),
    (text_of(job(1.5)), r"jobs\[0\].id: is 1.5, must be a valid integer"),
    (text_of(job(True)), r"jobs\[0\].id: is true, must be a valid integer"),
    (text_of(job(None)), r"jobs\[0\].id: is null, must be a valid integer"),
    (text_of(job(10**17)), r"jobs\[0\].id: is 1(0+), must be less than or equal to 9007199254740992"),
    (text_of(job(4), job("w!4")), r"jobs\[1\].id: is 4, a job that is given before"),
    (text_of(job(subtime="0")), r"jobs\[0\].subtime: is '0', must be a valid number"),
    (text_of(job(subtime=1e300)), r"jobs\[0\].subtime: is 1e\+300, must be less than or equal to"),
    (text_of(job(3, res=0), job(subtime=-5)), r"jobs\[1\].subtime: is -5, must not be negative"),
    (text_of(job(res=2.0)), r"jobs\[0\].res: is 2.0, must be a valid integer"),
    (text_of(job(res=-(10**18))), r"jobs\[0\].res: is -1(0+), must be greater than or equal to"),
    (text_of(job(walltime=None)), r"jobs\[0\].walltime: is null, must be a valid number"),
    (text_of(job(walltime=0)), r"jobs\[0\].walltime: is 0, must be positive, or -1 for none"),
    (text_of(job(profile=1)), r"jobs\[0\].profile: is 1, must be a valid string"),
    (text_of(job(profile="e")), r"jobs\[0\].profile: is 'e', there is no such profile"),
    (text_of(job(), job(2, profile="mpi")), "profile 'mpi': type: is 'parallel_homogeneous', must be 'delay'"),
    (text_of(job(profile="bare")), "profile 'bare': type: is missing, must be 'delay'"),
    (text_of(job(profile="late")), "profile 'late': delay: is missing"),
    (text_of(job(profile="text")), "profile 'text': delay: is '20', must be a valid number"),
    (text_of(job(profile="3")), "profile '3': top level: is 3, must be a valid dictionary"),
    (text_of(job(res=0)), "none of its 1 jobs has a positive run time and size"),
]


@pytest.mark.parametrize(("text", "fault"), BAD)
def test_a_malformed_file_is_one_line_that_names_the_place(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(BadFileError, match=rf"jobs\.json: {fault}") as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("seed", range(5))
def test_the_workloads_that_ran_on_grid5000_are_read(shared_data: Path, seed: int) -> None:
    path = shared_data / "g5k_oar" / "workloads" / f"g5k_workload_delay_seed{seed}_size32.json.gz"
    raw: Any = json.loads(gzip.decompress(path.read_bytes()))
    made = read_workload(path)
    assert (len(made), made.machine_processors, made.remarks()) == (800, 32, [])
    assert made.submit.min() == 0
    given = {job["id"]: (job["subtime"], raw["profiles"][job["profile"]]["delay"], job["res"]) for job in raw["jobs"]}
    read_again = zip(made.submit.tolist(), made.run.tolist(), made.processors.tolist(), strict=True)
    assert dict(zip(made.ids.tolist(), read_again, strict=True)) == given
    assert (made.estimate >= made.run).all()
