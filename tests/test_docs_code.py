"""What pages show runs: their Python, from the first block of a page to its last, and their commands.

Python prints what a comment behind a call of ``print`` says, commands what the block behind them shows. Blocks of the
language ``console`` need a network, a cluster or hours, and are not run; those of guide and README are listed here.
"""

import contextlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from support.notebooks import settled
from support.pages import Step, fits, in_tables, steps_of

from allocopt.cli.main import program
from allocopt.traces.generators import lublin_workload
from allocopt.traces.text import Swf

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# The blocks of the gallery depend on one another; `test_gallery.py` runs them.
METHODS = [page for page in sorted(DOCS.glob("*.md")) if page.name != "gallery.md"]
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("guide/*.md")), *METHODS, *sorted(DOCS.glob("api/*.md"))]
TRACES = {"trace.swf.gz": 256, "jobs.swf": 128}
"""Traces of which pages speak, and the processors of their machines; small ones are drawn in their places."""

NOT_RUN = {
    "python -m venv", "pip install", "docker build", "allocopt fetch-trace", "allocopt train", "allocopt reproduce"
}  # fmt: skip
"""How the blocks of README and guide begin that are not run."""

SAID = re.compile(r"^print\(.*\) +# (\S.*)$", re.MULTILINE)

SACCT = """\
JobIDRaw|Submit|ElapsedRaw|TimelimitRaw|AllocNodes|State
1|2026-01-01T00:00:00|3600|120|8|COMPLETED
2|2026-01-01T00:10:00|7200|180|30|COMPLETED
3|2026-01-01T00:20:00|600|30|4|COMPLETED
4|2026-01-01T00:30:00|900|30|20|COMPLETED
"""
CLUSTER = {"sacct": SACCT, "squeue": "11 4\n12 8\n13 3\n", "sinfo": "n[3-14,20-27]\n"}
"""What the commands of a cluster print."""

NODE = """\
NodeName=n{number} Arch=x86_64 CoresPerSocket=8
   CPUAlloc={cores} CPUTot=8 ActiveFeatures=(null) Gres=(null)
   RealMemory=32000 AllocMem={memory} Sockets=1 Boards=1
   State=IDLE ThreadsPerCore=1 Weight=1

"""
JOB = """\
JobId={number} JobName=job
   JobState=PENDING Reason=Resources Dependency=(null)
   Partition=main AllocNode:Sid=login:1
   NumNodes=2-2 NumCPUs=16 NumTasks=16 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   MinCPUsNode=1 MinMemoryNode=1G OverSubscribe=OK

"""
RUNNING = """\
JobId={number} JobName=job
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 BatchFlag=1
   Partition=main AllocNode:Sid=login:1
   NodeList=n{node}
   NumNodes=1 NumCPUs=4 NumTasks=4 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   TRES=cpu=4,mem=1G,node=1
   MinCPUsNode=1 MinMemoryNode=1G OverSubscribe=OK

"""
IN_USE = (1, 2)
"""Numbers of the nodes on which a job runs."""
SHOWN = {
    "node": "".join(
        NODE.format(number=number, cores=4 * (number in IN_USE), memory=1024 * (number in IN_USE))
        for number in range(1, 33)
    ),
    "job": "".join(
        [
            *(JOB.format(number=number) for number in range(1, 4)),
            *(RUNNING.format(number=10 + node, node=node) for node in IN_USE),
        ]
    ),
    "reservation": "No reservations in the system\n",
}
"""What `scontrol show` prints."""

FILES = {
    "topology.conf": (
        "SwitchName=leaf1 Nodes=n[1-16]\nSwitchName=leaf2 Nodes=n[17-32]\nSwitchName=top Switches=leaf[1-2]\n"
    ),
    "window.json": (
        '{"format": "allocopt-instance", "version": 1, "kind": "topology", "name": "window",'
        ' "topology": {"kind": "fat-tree", "pods": 1, "leaves_per_pod": 2, "nodes_per_leaf": 2},'
        ' "idle_nodes": [0, 1, 2, 3], "jobs": [{"id": "a", "nodes": 2}]}'
    ),
    "slurm.conf": "NodeName=n[1-32] CPUs=8 RealMemory=32000 Gres=gpu:2\nPartitionName=main Nodes=n[1-32]\n",
    "gres.conf": "NodeName=n[1-32] Name=gpu Type=a100 Count=2\n",
    "jobs.csv": "JobIDRaw,Submit,Elapsed,TimelimitRaw,NNodes,NTasks,ReqMem,State\n1,0,600,20,1,4,1G,COMPLETED\n",
    "nodes.csv": "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,4,T4\nb,64000,262144,4,\n",
    "pods.csv": "cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n4000,1,1,700,\n4000,1,1,300,T4\n4000,1,2,1000,\n",
    "power.csv": "active_cores,power_w\n0,20\n1,26\n2,32\n4,44\n8,68\n",
    "grid.toml": 'time_limit = 1.0\n[[instances]]\nfiles = ["@tiny"]\n[[solvers]]\nname = "greedy"\n',
}


def blocks_of(page: Path, language: str) -> list[Step]:
    return [step for step in steps_of(page) if step.language == language]


def said(block: str) -> list[str]:
    """Beginnings of what the comments behind calls of `print` say: numbers and words, until dots."""
    return [comment.split("...")[0].strip() for comment in SAID.findall(block) if re.match(r"[A-Z\d\[]", comment)]


def prepare(folder: Path) -> None:
    """Write the files of which pages speak into a folder."""
    for name, processors in TRACES.items():
        Swf().write(folder / name, lublin_workload(300, processors, np.random.default_rng(0)))
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")


def pages_with(language: str) -> list[object]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in PAGES if blocks_of(page, language)]


@pytest.mark.parametrize("page", pages_with("python"))
def test_the_python_of_a_page_runs_and_prints_what_it_says(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for step in blocks_of(page, "python"):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(step.body, str(page), "exec"), names)
        assert [comment for comment in said(step.body) if comment not in printed.getvalue()] == []


def shell(folder: Path, fetched: Path | None = None) -> Callable[[str], str]:
    """Return a function that runs commands beside the files of which pages speak, and returns what they print.

    ``fetched`` is a trace that KTH-SP2 names.
    """
    work, programs, cache = (folder / name for name in ("work", "bin", "cache"))
    for path in (work, programs, cache / "allocopt" / "traces"):
        path.mkdir(parents=True)
    prepare(work)
    scripts = {name: f"cat <<'END'\n{text}END\n" for name, text in CLUSTER.items()}
    scripts["scontrol"] = "".join(f"[ $2 = {what} ] && cat <<'END'\n{text}END\n" for what, text in SHOWN.items())
    scripts["scontrol"] += "exit 0\n"
    for name, body in {**scripts, "allocopt": f'exec "{sys.executable}" -P -m allocopt "$@"\n'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}")
        (programs / name).chmod(0o755)
    if fetched is not None:
        shutil.copy(fetched, cache / "allocopt" / "traces" / "KTH-SP2.swf.gz")
    variables = {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(cache),
        "COLUMNS": "160",
    }

    def run(body: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", body]
        done = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, f"{body}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with("sh"))
def test_the_commands_of_a_page_run_and_print_what_it_shows(
    page: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    fetched = None
    if "KTH-SP2" in "".join(step.body for step in blocks_of(page, "sh")):
        (fetched,) = request.getfixturevalue("shared_data").glob("traces/KTH-SP2-*.swf.gz")
    run = shell(tmp_path, fetched)
    printed = ""
    for step in steps_of(page):
        if step.language == "sh":
            printed = run(step.body)
        elif step.language == "text":
            assert fits(settled(step.body), settled(printed)), f"the page shows\n{step.body}\nprinted is\n{printed}"


@pytest.mark.slow
def test_every_command_of_the_table_of_questions_runs(tmp_path: Path) -> None:
    questions = (DOCS / "which_command.md").read_text(encoding="utf-8")
    runs, live = questions.split("## Beside a running cluster")
    run = shell(tmp_path)
    for command in [*(step.body for step in blocks_of(DOCS / "which_command.md", "sh")), *in_tables(runs)]:
        run(command)
    named = {command.split()[1] for command in in_tables(runs + live)}
    commands: Any = typer.main.get_command(program())
    assert sorted(set(commands.commands) - named) == []


def test_blocks_of_readme_and_guide_that_are_not_run_are_few() -> None:
    pages = [page for page in PAGES if page.parent != DOCS]
    first_words = {" ".join(step.body.split()[:3]) for page in pages for step in blocks_of(page, "console")}
    assert [words for words in first_words if not words.startswith(tuple(NOT_RUN))] == []


def test_what_the_readme_says_is_printed_is_looked_for() -> None:
    first = blocks_of(ROOT / "README.md", "python")[0].body
    assert said(first) == ["OPTIMAL 137000.0 0.0", "[160, 161,"]


@pytest.mark.parametrize("name", ["environments", "policies", "slurm_parameters"])
def test_a_page_is_what_its_script_writes(name: str) -> None:
    spec = importlib.util.spec_from_file_location(f"{name}_page", DOCS / f"{name}_page.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    written = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert written == script.page(), f"run python docs/{name}_page.py"
