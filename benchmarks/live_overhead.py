"""Seconds of a period of ``allocopt live`` on 10,000 nodes with 1,000 waiting jobs; programs imitate Slurm's answers.

With ``--slurm`` it also counts the requests per period to a real slurmctld, by its sdiag.
"""

import json
import os
import random
import re
import stat
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from allocopt.cluster.hostlist import fold_hostlist
from allocopt.live.plan import make_plans_ready, plan
from allocopt.live.slurm import Slurm
from benchmarks.virtual_slurm import VirtualSlurm, open_folder, running, tree_files

NODES, WAITING, RUNNING, PERIODS = 10_000, 1_000, 1_000, 7
LEAF, LEAVES_PER_POD, CORES = 32, 16, 8
SIZES = (1, 1, 2, 4, 8, 16, 20, 64, 256)
PERIOD_S, WATCHED_S = 2, 60
_COUNTED = re.compile(r"^\s*(\w+)\s*\(\s*\d+\)\s*count:(\d+)", re.MULTILINE)


def told(number: int, size: int, nodes: Sequence[str] = ()) -> dict[str, object]:
    """Return a job of whole nodes in the format of ``squeue --json`` of 22.05; without nodes it waits."""
    now = int(time.time())
    cores = {"0": {"cores": dict.fromkeys(map(str, range(CORES)), "allocated")}}
    held = [{"nodename": name, "sockets": cores} for name in nodes]
    state = {"job_state": "RUNNING", "job_resources": {"allocated_nodes": held}, "start_time": now - 600}
    waits = {"job_state": "PENDING", "admin_comment": f"allocopt priority={10**9 - number}", "eligible_time": now + 20}
    limit = 60 + number % 600
    return {
        "job_id": number, "priority": 10**9 - number, "partition": "main", "user_name": f"user{number % 40}",
        "name": f"job{number}", "time_limit": limit, "submit_time": now - 900, "end_time": now + 60 * limit,
        "tasks": CORES * size, "tres_req_str": f"cpu={CORES * size},node={size}", "max_nodes": size,
        "cpus_per_task": 1, "shared": "none", **(state if nodes else waits),
    }  # fmt: skip


def answering(folder: Path) -> Slurm:
    """Write programs that answer like a large Slurm, and return a `Slurm` that uses them."""
    rng = random.Random(0)
    names = [f"n{number:05}" for number in range(NODES)]
    at, jobs = 0, []
    for number in range(1, RUNNING + 1):
        size = rng.choice(SIZES[:-2])
        jobs.append(told(number, size, names[at : at + size]))
        at += size
    jobs += [told(RUNNING + number, rng.choice(SIZES)) for number in range(1, WAITING + 1)]
    leaves = [names[at : at + LEAF] for at in range(0, NODES, LEAF)]
    pods = [range(at, min(at + LEAVES_PER_POD, len(leaves))) for at in range(0, len(leaves), LEAVES_PER_POD)]
    switches = [f"SwitchName=leaf{number} Nodes={fold_hostlist(leaf)}" for number, leaf in enumerate(leaves)]
    switches += [f"SwitchName=pod{number} Switches=leaf[{pod[0]}-{pod[-1]}]" for number, pod in enumerate(pods)]
    node = "NodeName={} CPUTot=8 RealMemory=64000 CoresPerSocket=8 Sockets=1 ThreadsPerCore=1 State=IDLE"
    texts = {
        "squeue": json.dumps({"jobs": jobs}),
        "sinfo": f"idle|{fold_hostlist(names)}",
        "reservation": "No reservations in the system",
        "config": "SelectType=select/cons_tres\nSelectTypeParameters=CR_CORE\nTopologyPlugin=topology/tree",
        "node": "\n".join(map(node.format, names)),
        "partition": f"PartitionName=main Default=YES Nodes={fold_hostlist(names)} OverSubscribe=EXCLUSIVE",
        "topology": "\n".join((*switches, f"SwitchName=top Switches=pod[0-{len(pods) - 1}]")),
    }
    for name, text in texts.items():
        (folder / name).with_suffix(".text").write_text(text + "\n")
    for name in ("squeue", "sinfo", "scontrol"):
        program = folder / name
        last = '$(for word; do last=$word; done; echo "$last")' if name == "scontrol" else name
        program.write_text(f'#!/bin/sh\nexec cat "{folder}/{last}.text"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return Slurm({**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})


def time_periods() -> None:
    """Print the seconds of a look, a plan and a solve."""
    make_plans_ready("auto")
    with open_folder() as folder:
        slurm = answering(folder)
        began = time.perf_counter()
        slurm.cluster()
        print(f"cluster, once: {time.perf_counter() - began:.2f} s")
        rows = []
        for _ in range(PERIODS):
            times = [time.perf_counter()]
            look = slurm.look()
            times.append(time.perf_counter())
            found = plan(look, lambda job: True)
            times.append(time.perf_counter())
            assert found.window is not None, "there is room"
            found.window.solved("auto", 0.2, 0)
            times.append(time.perf_counter())
            rows.append(np.diff(times))
    print(f"{len(found.order)} jobs wait on {NODES} nodes, {len(found.starting)} can start; medians of {PERIODS}:")
    print("look {:.3f} s, plan {:.3f} s, solve {:.3f} s".format(*np.median(rows, axis=0)))


def count_requests(port: int, jobs: int) -> None:
    """Print the requests per period to a real slurmctld with waiting jobs, without and with a service."""
    with open_folder() as folder, running(folder, tree_files(folder, 16, port)) as cluster:
        for number in range(jobs + 1):
            cluster.said("sbatch", "-N", "1" if number else "16", "-t", "60", "-o", "/dev/null", "--wrap", "sleep 900")
        for mode in ("", "--observe", "--advise", "--pin"):
            service = None
            if mode:
                options = ("--journal", f"{folder}/{mode}.jsonl", "--period", str(PERIOD_S), "--partition", "main")
                command = [sys.executable, "-m", "allocopt", "live", "slurm", mode, *options]
                service = subprocess.Popen(command, env=cluster.env)
                # Do not count the start of the service.
                time.sleep(20)
            _requests(cluster)
            time.sleep(WATCHED_S)
            per_period = {name: count * PERIOD_S / WATCHED_S for name, count in _requests(cluster).items()}
            listed = ", ".join(f"{name} {count:.1f}" for name, count in sorted(per_period.items()) if count)
            print(f"{mode or 'without'}: {sum(per_period.values()):.1f} requests a period: {listed}", flush=True)
            if service is not None:
                service.terminate()
                service.wait()


def _requests(cluster: VirtualSlurm) -> dict[str, int]:
    """Return the number of requests of each type since the last call."""
    by_type = cluster.said("sdiag").partition("by message type")[2].partition("by user")[0]
    cluster.said("sdiag", "--reset")
    return {name: int(count) for name, count in _COUNTED.findall(by_type) if name != "REQUEST_STATS_INFO"}


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--slurm", action="store_true", help="also count the requests to a real slurmctld")
    parser.add_argument("--port", type=int, default=17000, help="port of its slurmctld; those of its nodes follow")
    parser.add_argument("--jobs", type=int, default=50, help="number of waiting jobs there")
    given = parser.parse_args()
    time_periods()
    if given.slurm:
        count_requests(given.port, given.jobs)


if __name__ == "__main__":
    main()
