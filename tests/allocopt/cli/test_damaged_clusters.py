"""Good files of the newer formats, each damaged 20 times by seed: read, or refused in one line that names the file."""

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.program import Run

from allocopt.cluster.queue_files import read_queue
from allocopt.cluster.reading import read_cluster
from allocopt.cluster.slurm_jobs import startable
from allocopt.errors import BadFileError, UsageError
from allocopt.problems.placement.generate import snapshot

NODE = {
    "name": "a",
    "cpus": 8,
    "real_memory": 100,
    "state": ["MIXED"],
    "alloc_cpus": 2,
    "alloc_memory": 10,
    "gres": "gpu:t4:2",
    "gres_used": "gpu:t4:1(IDX:0)",
    "active_features": ["ib"],
    "weight": {"set": True, "number": 1},
}
ROW = {
    "nodes": {"nodes": ["a"]},
    "node": {"state": ["IDLE"]},
    "cpus": {"minimum": 8, "allocated": 0},
    "memory": {"minimum": 100, "allocated": 0},
    "gres": {"total": "gpu:2", "used": ""},
    "features": {"active": "ib"},
}
KUBE = {
    "kind": "Node",
    "metadata": {"name": "w1", "labels": {"x.com/rack": "r"}},
    "spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "64", "nvidia.com/gpu": "8", "memory": "2Gi"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
POD = {
    "kind": "Pod",
    "metadata": {"name": "p", "ownerReferences": [{"kind": "DaemonSet"}]},
    "spec": {
        "nodeName": "w1",
        "containers": [{"resources": {"requests": {"cpu": "1"}}}],
        "resources": {"requests": {"cpu": "2"}},
    },
    "status": {"phase": "Running"},
}
LEVELS = {"kind": "Topology", "metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "x.com/rack"}]}}
FLAVOR = {
    "kind": "ResourceFlavor",
    "metadata": {"name": "f"},
    "spec": {
        "nodeLabels": {"x.com/rack": "r"},
        "topologyName": "t",
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    },
}
R = {
    "version": 1,
    "execution": {
        "R_lite": [{"rank": "0-1", "children": {"core": "0-7", "gpu": "0"}}],
        "nodelist": ["t[0-1]"],
        "properties": {"big": "1"},
    },
}
DOWN = {"version": 1, "execution": {"R_lite": [{"rank": "1"}], "nodelist": ["t1"]}}
JOB = {
    "job_id": 1,
    "job_state": ["PENDING"],
    "state_reason": "Priority",
    "node_count": {"set": True, "number": 1},
    "tasks": 4,
    "array_job_id": 7,
    "array_task_string": "1-3%2",
    "partition": "main,other",
    "tres_per_node": "gres/gpu:t4:1",
    "memory_per_node": {"set": True, "infinite": False, "number": 10},
    "required_nodes": "",
    "dependency": "",
}
PARTITION = {"name": "p", "nodes": {"configured": "a"}, "flags": []}
OBJECTS: dict[str, Any] = {
    "nodes.json": {"meta": {}, "nodes": [NODE], "partitions": [PARTITION]},
    "sinfo.json": {"meta": {}, "sinfo": [ROW]},
    "reservations.json": {
        "meta": {},
        "nodes": [NODE],
        "reservations": [{"name": "r", "node_list": "a", "flags": []}],
    },
    "kueue.json": {"kind": "List", "items": [KUBE, POD, LEVELS, FLAVOR]},
    "status.json": {"R": R, "offline": "1", "exclude": "", "drain": {"1": {"reason": "x"}}},
    "down.json": {"all": R, "down": DOWN, "allocated": R},
    "queue.json": {"jobs": [JOB], "meta": {}},
}
TEXTS = {
    "states.txt": "NODELIST NODES PARTITION STATE CPUS S:C:T MEMORY AVAIL_FE REASON\n"
    "a 1 main* idle 8 1:8:1 100 ib none\n",
    "bars.txt": "NODELIST|STATE|CPUS(A/I/O/T)|GRES|WEIGHT\na|mix|2/6/0/8|gpu:t4:2|1\n",
    "slurm.conf": "NodeName=DEFAULT CPUs=8 ThreadsPerCore=2\nNodeName=a,b Gres=lustre:no_consume:4G,gpu:2\n"
    "PartitionName=p Nodes=a,b AllowGroups=x\n",
    "nodes.txt": "NodeName=a CPUAlloc=2 CPUTot=8\n   RealMemory=100 AllocMem=10 Gres=gpu:t4:2(S:0)\n"
    "   State=MIXED+PLANNED\n",
    "kueue.yaml": "---\n".join(f"{json.dumps(one)}\n" for one in (KUBE, POD, LEVELS, FLAVOR)),
    "queue.txt": "JobId=1 ArrayJobId=7 ArrayTaskId=1-3%2 JobName=a b\n"
    "   JobState=PENDING Reason=Priority Dependency=(null)\n"
    "   Partition=main NumNodes=1-2 NumTasks=2 CPUs/Task=1\n"
    "   MinMemoryNode=1G Features=a&b TresPerNode=gres/gpu:t4:1\n",
    "table_queue.txt": "JOBID PARTITION NAME ST TIME NODES NODELIST(REASON)\n7_[1-3%2] main a b PD 0:00 1 (Priority)\n",
    "list_queue.txt": "7_[1-3%2] 1\n8 2-4\n9+0 1\n",
}
ODD = (
    None,
    True,
    -1,
    0.5,
    10**30,
    "",
    "x",
    "\0",
    "é\n",
    "9" * 400,
    [],
    {},
    [[]],
    [None],
    {"a": {"a": {}}},
    "a[1-",
    "1-",
    ":",
    "=",
)
JUNK = (
    "\0",
    "\x1b[0m",
    "é",
    "[",
    "]",
    "{",
    "}",
    '"',
    ",",
    "=",
    ":",
    "|",
    "-",
    "\n",
    " " * 50,
    "9" * 30,
    "a" * 300,
    "[" * 3000,
)


def test_the_files_are_good(tmp_path: Path) -> None:
    for name, text in WHOLE.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert count(tmp_path / name) > 0


WHOLE = {name: json.dumps(obj) for name, obj in OBJECTS.items()} | TEXTS


def count(path: Path) -> int:
    """Read a file as the program does, and return how many nodes or jobs it holds."""
    if "queue" in path.name:
        jobs, _ = startable(read_queue(path).jobs)
        return len(jobs) + 1
    cluster = read_cluster([path], include_unavailable=["all"])
    assert (cluster.free <= cluster.capacity).all()
    assert (cluster.free >= 0).all()
    return cluster.size


def places(obj: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values in an object."""
    below = obj.items() if isinstance(obj, dict) else enumerate(obj) if isinstance(obj, list) else ()
    return [above, *(place for key, value in below for place in places(value, (*above, key)))]


def with_another_value(rng: random.Random, text: str) -> str:
    """Replace a value, or leave it out."""
    obj = json.loads(text)
    *above, last = rng.choice(places(obj)[1:])
    held = obj
    for key in above:
        held = held[key]
    if rng.random() < 0.3:
        del held[last]
    else:
        held[last] = rng.choice(ODD)
    return json.dumps(obj)


def with_junk(rng: random.Random, text: str) -> str:
    """Put junk somewhere, cut the text off, or leave a piece out or in twice."""
    at, length = rng.randrange(len(text)), rng.randrange(1, 20)
    return rng.choice(
        [
            text[:at],
            text[:at] + text[at + length :],
            text[:at] + text[at : at + length] + text[at:],
            text[:at] + rng.choice(JUNK) + text[at:],
            text[:at] + rng.choice(JUNK) + text[at + length :],
        ]
    )


def cases() -> list[tuple[str, Callable[[random.Random, str], str], int]]:
    """Return the name of a file, how it is damaged, and a seed, 440 times."""
    found = [(name, with_another_value, seed) for name in OBJECTS for seed in range(20)]
    return found + [(name, with_junk, seed) for name in WHOLE for seed in range(20)]


@pytest.mark.parametrize(("name", "damage", "seed"), cases())
def test_a_damaged_file_is_read_or_refused_in_one_line_that_names_it(
    tmp_path: Path, name: str, damage: Callable[[random.Random, str], str], seed: int
) -> None:
    path = tmp_path / name
    path.write_text(damage(random.Random(seed), WHOLE[name]), encoding="utf-8")
    try:
        assert count(path) > 0
    except BadFileError as error:
        message = str(error)
        assert message.startswith(f"{path}")
        assert message.isprintable()


@pytest.mark.parametrize("name", [name for name in WHOLE if "queue" in name])
def test_jobs_of_a_damaged_queue_make_a_window_or_are_counted(tmp_path: Path, name: str) -> None:
    (tmp_path / "nodes.txt").write_text(TEXTS["nodes.txt"], encoding="utf-8")
    cluster = read_cluster([tmp_path / "nodes.txt"])
    for seed in range(50):
        path = tmp_path / name
        path.write_text(with_junk(random.Random(seed), WHOLE[name]), encoding="utf-8")
        with contextlib.suppress(BadFileError, UsageError):
            jobs, _ = startable(read_queue(path).jobs)
            problem, _ = snapshot(cluster, jobs, cluster.free, 1000.0, "w")
            assert {job.id for job in problem.jobs} <= {job.id for job in jobs}


@pytest.mark.parametrize("name", ["states.txt", "kueue.json", "status.json", "table_queue.txt", "queue.json"])
def test_a_refused_file_leaves_nothing_behind(run: Run, tmp_path: Path, name: str) -> None:
    for seed, text in enumerate((WHOLE[name][:40], "\0" * 50, WHOLE[name].replace("1", "[", 3))):
        path, out = tmp_path / f"{seed}{name}", tmp_path / "made.json"
        path.write_text(text, encoding="utf-8")
        (tmp_path / "whole.txt").write_text(TEXTS["nodes.txt"], encoding="utf-8")
        is_queue = "queue" in name
        cluster = ("--cluster", tmp_path / "whole.txt" if is_queue else path)
        asked = ("--queue", path) if is_queue else ("--job", "a=1")
        answer = run("generate", "window", *cluster, *asked, "--out", out)
        if name == "table_queue.txt" and seed == 0:
            # A title without rows is a queue in which no job waits.
            assert answer.refusal(2).startswith("no job waits")
        else:
            assert answer.refusal(3).startswith(f"{path}")
        assert not out.exists()
