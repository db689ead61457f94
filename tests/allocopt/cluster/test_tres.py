"""What jobs ask for beside cores, memory and nodes: GPUs by type, and names of what is not modelled."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.tres import Demands, demands_of
from allocopt.traces.csv_columns import Columns
from allocopt.traces.reading import read_workload
from allocopt.traces.workload import Workload

FORMS: dict[str, Demands] = {
    "": Demands(),
    "(null)": Demands(),
    "N/A": Demands(),
    "cpu=8,mem=16G,node=2,billing=8,energy=12,fs/disk=9,vmem=3,pages=2,ic/ofed=1": Demands(),
    "gres/gpu=4": Demands((("", 4.0),)),
    "gres/gpu:a100=4,gres/gpu=4,cpu=8": Demands((("a100", 4.0),)),
    "gres/gpu=5,gres/gpu:a100=3": Demands((("a100", 3.0), ("", 2.0))),
    "gres/gpu:a100=1,gres/gpu:v100=2": Demands((("a100", 1.0), ("v100", 2.0))),
    "gpu": Demands((("", 1.0),)),
    "gpu:2": Demands((("", 2.0),)),
    "gpu:tesla": Demands((("tesla", 1.0),)),
    "gpu:a100:2(S:0,1)": Demands((("a100", 2.0),)),
    "gpu:a100_1g.5gb:3(IDX:0-2)": Demands((("a100_1g.5gb", 3.0),)),
    "gres:gpu:2,gres:nvme:1": Demands((("", 2.0),), ("gres/nvme",)),
    "gres/gpu:h100:8": Demands((("h100", 8.0),)),
    "shard:4": Demands((), ("gres/shard",)),
    "gres/shard=4,gres/mps=0,gres/gpumem=40G,gres/gpuutil=7": Demands((), ("gres/shard",)),
    "license/matlab=2,bb/datawarp=1048576": Demands((), ("bb/datawarp", "license/matlab")),
    "license:matlab:2": Demands((), ("license/matlab",)),
    "craynetwork": Demands((), ("gres/craynetwork",)),
    "1005=3": Demands((), ("TRES/1005",)),
    "gpu:1K": Demands((("", 1024.0),)),
}


@pytest.mark.parametrize(("text", "demands"), FORMS.items())
def test_every_form_of_a_demand_is_understood_or_named(text: str, demands: Demands) -> None:
    assert demands_of(text) == demands


@pytest.mark.parametrize("text", ["gres/gpu=", "gres/gpu=x", "=4", "gres/gpu=-1", ":2", "gpu:=2"])
def test_what_is_no_list_of_demands_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a list such as gres/gpu:a100=2"):
        demands_of(text)


names = st.text("abcdefgh", min_size=1, max_size=6).filter(lambda name: name not in ("fs", "ic", "bb"))


@given(st.lists(st.tuples(names, st.integers(0, 9)), max_size=6), st.integers(0, 5))
def test_other_resources_never_change_the_gpus_and_are_named(others: list[tuple[str, int]], gpus: int) -> None:
    text = ",".join([f"gres/gpu:x={gpus}", "cpu=4", *(f"gres/{name}={amount}" for name, amount in others)])
    found = demands_of(text)
    assert found.gpus == ((("x", float(gpus)),) if gpus else ())
    assert set(found.others) == {f"gres/{name}" for name, amount in others if amount}


def read(folder: Path, text: str, columns: str | None = None) -> Workload:
    path = folder / "jobs.txt"
    path.write_text(text, encoding="utf-8")
    return read_workload(path, None if columns is None else Columns.parse(columns))


HEAD = "JobID|Submit|Start|End|NNodes|NCPUS|ReqTRES|AllocTRES|TresPerNode|Licenses|Constraints\n"
TIMES = "2026-01-01T00:00:00|2026-01-01T00:00:05|2026-01-01T00:01:00"
PLAIN = f"1|{TIMES}|2|8|cpu=8|cpu=8,node=2|||\n"
ASKED: dict[str, str] = {
    f"2|{TIMES}|1|4|gres/shard=2|cpu=4|||\n": "asks for gres/shard, which is not modelled",
    f"2|{TIMES}|1|4|cpu=4|cpu=4,gres/shard=2|||\n": "asks for gres/shard, which is not modelled",
    f"2|{TIMES}|1|4|cpu=4|cpu=4|gres:nvme:1||\n": "asks for gres/nvme, which is not modelled",
    f"2|{TIMES}|1|4|cpu=4|cpu=4||matlab@db:2,ansys|\n": (
        "asks for license/ansys, license/matlab@db, which is not modelled"
    ),
    f"2|{TIMES}|1|4|cpu=4|cpu=4|||[a*2&b*1]\n": "asks for a constraint that counts nodes, which is not modelled",
}


@pytest.mark.parametrize(("row", "reason"), ASKED.items())
def test_a_job_that_asks_for_what_is_not_modelled_is_left_out_and_counted(
    tmp_path: Path, row: str, reason: str
) -> None:
    made = read(tmp_path, HEAD + PLAIN + row)
    assert made.ids.tolist() == [1]
    assert made.dropped == ((reason, 1),)


def test_a_demand_that_is_to_be_ignored_leaves_no_job_out(tmp_path: Path) -> None:
    text = HEAD + PLAIN + f"2|{TIMES}|1|4|gres/shard=2|gres/gpu=1|||\n"
    made = read(tmp_path, text, "ignore=gres/shard")
    assert made.ids.tolist() == [1, 2]
    assert made.requests[1].gpus_per_node == (("", 1.0),)
    (tmp_path / "mapping.toml").write_text('ignore = ["gres/shard"]')
    assert len(read(tmp_path, text, str(tmp_path / "mapping.toml"))) == 2


def test_a_file_of_which_no_job_is_left_says_why(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none of its 1 jobs can be run \(asks for gres/shard, which is not mod"):
        read(tmp_path, HEAD + f"2|{TIMES}|1|4|gres/shard=2|cpu=4|||\n")
