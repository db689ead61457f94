"""Files of other schedulers and tools: refused in one line that says what they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from allocopt.cluster.queue_files import read_queue
from allocopt.cluster.reading import read_cluster
from allocopt.errors import BadFileError

TEXTS = {
    "`pbsnodes`": "vn07\n     Mom = vn07.site\n     ntype = PBS\n     state = free\n",
    "`pbsnodes` of PBS or Torque": "w3\n     state = free\n     np = 24\n     ntype = cluster\n",
    "`pbsnodes -S`": "vnode           state           OS       hardware host\n",
    "`qstat` of PBS": "Job id            Name             User              Time Use S Queue\n",
    "`qstat` of Grid": "job-ID  prior   name       user         state submit/start at\n",
    "`qhost`": "HOSTNAME                ARCH         NCPU  LOAD  MEMTOT\n",
    "`bhosts`": "HOST_NAME          STATUS       JL/U    MAX  NJOBS\nlx1 ok - 8 0\n",
    "`lshosts`": "HOST_NAME      type    model  cpuf ncpus maxmem\nlx1 X86_64 Intel 60.0 8 31G\n",
    "`bjobs`": "JOBID   USER    STAT  QUEUE      FROM_HOST\n81 ann PEND night lx1\n",
    "`condor_status`": "Name           OpSys      Arch   State     Activity\n\nslot1@e LINUX X86_64 Owner Idle\n",
    "`condor_q`": "\n-- Schedd: sub.site : <10.0.0.1:9618?... @ 05/02/25 10:00:00\n",
    "`flux jobs`": "       JOBID USER     NAME       ST NTASKS NNODES     TIME INFO\n   fA1 ann  a  S  4  2  -  \n",
    "`kubectl get nodes`": "NAME   STATUS   ROLES    AGE   VERSION\nkn1   Ready    <none>   10d   v1.33.0\n",
    "`scontrol show config`": "Configuration data as of 2025-05-02T10:00:00\nAccountingStorageBackupHost = (null)\n",
    "`sinfo -s`": "PARTITION AVAIL  TIMELIMIT  NODES(A/I/O/T) NODELIST\nday*  up  infinite  1/3/0/4 z[1-4]\n",
    "`sacct`": "JobID|JobName|Partition|AllocCPUS|State|ExitCode\n5|a|day|4|PENDING|0:0\n",
}
OBJECTS: dict[str, Any] = {
    "`pbsnodes -F json`": {"timestamp": 1, "pbs_version": "23.06", "pbs_server": "s", "nodes": {"v": {"ntype": "PBS"}}},
    "`qstat -F json`": {"timestamp": 1, "pbs_version": "23.06", "Jobs": {"1.s": {"job_state": "Q"}}},
    "`bhosts -json`": {"COMMAND": "bhosts", "HOSTS": 1, "RECORDS": [{"HOST_NAME": "lx1"}]},
    "`condor_status -json`": [{"Machine": "e1", "SlotType": "Partitionable", "Cpus": 8}],
    "`condor_q -json`": [{"ClusterId": 5, "ProcId": 0, "RequestCpus": 4}],
    "`oarnodes -J`": {"1": {"network_address": "o1", "state": "Alive"}},
}


def refusals(path: Path) -> list[str]:
    found = []
    for read in (lambda one: read_cluster([one]), read_queue):
        with pytest.raises(BadFileError) as raised:
            read(path)
        found.append(str(raised.value))
    return found


@pytest.mark.parametrize("what", TEXTS)
def test_a_text_of_another_program_is_refused_by_its_name(tmp_path: Path, what: str) -> None:
    path = tmp_path / "told.txt"
    path.write_text(TEXTS[what], encoding="utf-8")
    for message in refusals(path):
        assert f"told.txt: is what {what}" in message
        assert "\n" not in message


@pytest.mark.parametrize("what", OBJECTS)
def test_json_of_another_program_is_refused_by_its_name(tmp_path: Path, what: str) -> None:
    path = tmp_path / "told.json"
    path.write_text(json.dumps(OBJECTS[what]), encoding="utf-8")
    for message in refusals(path):
        assert f"told.json: is what {what}" in message


@pytest.mark.parametrize(
    "answer",
    [
        {"nodes": [{"name": "z1", "state": ["IDLE"], "cpus": 8, "real_memory": 900}]},
        {"sinfo": [{"nodes": {"nodes": ["z1"]}, "node": {"state": ["IDLE"]}, "cpus": {"minimum": 8}, "memory": {}}]},
    ],
)
def test_an_answer_of_slurm_is_known_without_what_stands_around_its_list(
    tmp_path: Path, answer: dict[str, Any]
) -> None:
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps(answer), encoding="utf-8")
    (node,) = read_cluster([path]).nodes
    assert (node.name, node.cores) == ("z1", 8)


def test_a_list_of_reservations_is_known_without_what_stands_around_it(tmp_path: Path) -> None:
    conf, booked = tmp_path / "slurm.conf", tmp_path / "r.json"
    conf.write_text("NodeName=z[1-3] CPUs=8\n", encoding="utf-8")
    booked.write_text(json.dumps({"reservations": [{"name": "r", "node_list": "z[1-2]"}]}), encoding="utf-8")
    (one,) = read_cluster([conf, booked]).reservations
    assert one.nodes == ("z1", "z2")
