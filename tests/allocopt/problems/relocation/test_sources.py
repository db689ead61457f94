"""Which reader takes the files of a cluster: what they are decides, not what they are called."""

import json
import zipfile
from pathlib import Path

import pytest
from support.kubernetes import listed, node, pod

from allocopt.errors import UsageError
from allocopt.problems.relocation.aims import Aims
from allocopt.problems.relocation.sources import SOURCES, GivenFiles, snapshot_of

KUBERNETES = listed(node("n0"), pod("a", "n0"))
KAI = json.dumps({"rawObjects": {"nodes": [node("n0")], "pods": [pod("a", "n0")]}})
SLURM = "NodeName=n[0-1] CPUs=4\nPartitionName=main Nodes=ALL\n"
NODES = json.dumps({"nodes": [{"name": "n0", "cpus": 4, "state": ["IDLE"]}], "meta": {}})


@pytest.mark.parametrize(
    ("name", "text", "source"),
    [
        ("x.json", KUBERNETES, "Kubernetes"),
        ("x.json", KAI, "KAI"),
        ("x.conf", SLURM, "Slurm"),
        ("x.json", NODES, "Slurm"),
        ("x.json", '{"graph": {"nodes": []}}', "Slurm"),
        ("x.json", '{"unknown": 1}', "Slurm"),
    ],
)
def test_the_contents_of_a_file_choose_its_reader(tmp_path: Path, name: str, text: str, source: str) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert next(one for one in SOURCES if one.reads(GivenFiles((path,)))).name == source


def test_an_archive_is_known_by_its_beginning_whatever_it_is_called(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.gzip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("snapshot.json", KAI)
    assert next(one for one in SOURCES if one.reads(GivenFiles((path,)))).name == "KAI"


def test_budgets_may_be_given_beside_a_snapshot_of_kai(tmp_path: Path) -> None:
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 0},
    }
    snapshot, budgets = tmp_path / "s.json", tmp_path / "pdb.json"
    snapshot.write_text(KAI, encoding="utf-8")
    budgets.write_text(listed(budget), encoding="utf-8")
    (alone,) = snapshot_of(GivenFiles((snapshot,)), Aims(drained="n0")).problem.running
    (kept,) = snapshot_of(GivenFiles((snapshot, budgets)), Aims(drained="n0")).problem.running
    assert (alone.may_leave, kept.may_leave) == (True, False)


def test_slurm_needs_a_queue(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(SLURM, encoding="utf-8")
    with pytest.raises(UsageError, match="--queue is missing: give what `scontrol show job` prints"):
        snapshot_of(GivenFiles((path,)), Aims(drained="n0"))
