"""What cannot be served: for every command its exit code and the one line that explains it; no file is changed."""

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.multicore import PLATFORM
from support.program import Run
from support.sweeps import write_sweep
from support.windows import paper_window

from allocopt.cli.options import check_files_differ
from allocopt.errors import UsageError
from allocopt.problems.instances import read_instances, write_problems

LONG = "x" * 300
PROFILE = {"req_ops": 2e10, "ipc": 1, "req_time": 5, "mem": 1, "mem_vol": 500_000}
TASKS = [{"id": f"job{number}", "subtime": 0, "res": 1, "profile": "p"} for number in (7, 8, 9)]
SOLUTION: dict[str, Any] = {
    "format": "allocopt-solution",
    "version": 1,
    "instance": "tiny-fat-tree-0",
    "strategy": "scas",
    "solver": "dp",
    "status": "OPTIMAL",
    "objective": 15000.0,
    "bound": 15000.0,
    "allocation": {"1": [3, 4, 5, 6], "2": [8, 9, 10, 11]},
}
INSTANCE: dict[str, Any] = {
    "format": "allocopt-instance",
    "version": 1,
    "kind": "topology",
    "name": "w",
    "topology": {"kind": "fat-tree", "pods": 2, "leaves_per_pod": 2, "nodes_per_leaf": 4},
    "idle_nodes": [0, 1, 2, 5, 9],
    "jobs": [{"id": "a", "nodes": 2}, {"id": "b", "nodes": 2}],
}
FILES = {
    "log.swf": "; MaxProcs: 4\n1 0 -1 100 3 -1 -1 3 100 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
    "2 10 -1 50 4 -1 -1 4 60 -1 1 -1 -1 -1 -1 -1 -1 -1\n",
    "halves.swf": "; MaxProcs: 8\n1 0 -1 100 8 -1 -1 8 150 -1 1 -1 -1 5 -1 -1 -1 -1\n",
    "halves.toml": '[[application]]\nexecutable = 5\nname = "half"\nstages = [{share = 1.0, cpu = 0.5}]\n',
    "jobs.csv": "job_id,submit,run,nodes,estimate\n1,0,100,2,100\n2,5,100,3,100\n3,9,100,8,100\n",
    "easy,first.csv": "job_id,submit,run,nodes\n1,0,100,2\n",
    "big.csv": "id,submit,run,nodes\n1,0,5,9\n",
    "nsa.txt": "1 0 10 2\n",
    "queue.json": "a 3\n",
    "powers.csv": "active_cores,power_w\n1,11\n2,17\n4,29\n",
    "topology.conf": "SwitchName=s1 Nodes=n[01-04]\nSwitchName=s2 Nodes=n[05-08]\nSwitchName=top Switches=s[1-2]\n",
    "platform.toml": PLATFORM,
    "workload.json": json.dumps({"jobs": TASKS, "profiles": {"p": PROFILE}}),
    "placed.csv": "job_id,node,start_s\n7,left,0\n8,right,1\n9,right,12\n",
    "solution.json": json.dumps(SOLUTION),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a file of each kind."""
    folder = tmp_path_factory.mktemp("filled")
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    tiny = read_instances([Path("@tiny")])[0]
    write_problems(folder / "tiny.json", [tiny])
    for name in ("now.json", "window.json"):
        text = (folder / "tiny.json").read_text(encoding="utf-8")
        (folder / name).write_text(text.replace(tiny.name, "window"), encoding="utf-8")
    write_problems(folder / "windows.jsonl", [paper_window(0)])
    guests = [problem for problem in read_instances([Path("@coallocations")]) if problem.name == "tiny-two-guests"]
    write_problems(folder / "guests.json", guests)
    write_sweep(folder / "grid.toml", instances=["windows.jsonl"], solvers=["best-fit:free"], seeds=2)
    (folder / "linked.conf").symlink_to("topology.conf")
    (folder / "folder.csv").mkdir()
    return folder


@pytest.fixture
def site(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy of the folder, in which the program runs."""
    shutil.copytree(filled, tmp_path, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def check_refusal(run: Run, site: Path, command: str, code: int) -> str:
    """Return the line that explains an exit code; above it may stand remarks on what was read, or the usage."""
    before = {path: path.read_bytes() if path.is_file() else None for path in site.rglob("*")}
    answer = run(*shlex.split(command))
    assert (answer.code, answer.out) == (code, ""), answer.err
    *above, line = answer.lines_of_error
    usage = bool(above) and above[0].startswith("Usage: allocopt")
    assert usage or all(re.match(r"(allocopt: )?(log|halves|big|queue|topology\.conf): ", one) for one in above), above
    assert {path: path.read_bytes() if path.is_file() else None for path in site.rglob("*")} == before
    return line


TWICE = "is given twice: files that are read and written must differ"
FAT_TREE = "must be three positive numbers such as 10,10,10"
USAGE = {
    "": {
        "simulated": "No such command 'simulated'",
        "simulate": "allocopt: trace: is missing",
        "solve": "allocopt: instances: is missing",
        "solve @nothing": "there are no shipped instances '@nothing'",
        "verify @tiny": "Missing argument 'solution'",
        "schema instances": "'instances' is not one of",
        "generate windows": "Missing option '--out'",
        "bench @knapsacks --solvers lns": "solver 'lns' does not take knapsack; it takes placement, topology problems",
        "calibrate power powers.csv --plot plot.txt": "the name of a plot must end in .svg, .png, .pdf",
        "fetch-trace nothing": "there is no trace 'nothing'; there are CEA-Curie, ",
        "generate windows --out x.json --max-nodes 99999999999999999999": "--max-nodes is 99999999999999999999",
        "generate synthetic --out x.json --idle 9 --jobs 2 --hop-cost 1e13": "--hop-cost is 10000000000000.0, must be",
    },
    "solve @tiny": {
        "--solver dpp": "allocopt: there is no solver 'dpp'; did you mean 'dp'?",
        "--solver ''": "allocopt: there is no solver ''",
        "--strategy sacs": "allocopt: strategy: is 'sacs', must be 'scas', 'dcas' or 'free'",
        "--time-limit 0": "allocopt: the time limit is 0.0 s, must be positive",
        "--time-limit ten": "time_limit: is 'ten'",
        "--iterations 0": "allocopt: iterations: is 0, must be greater than or equal to 1",
        "--option hottest": "allocopt: option 'hottest' must look like NAME=VALUE",
        "--no-such-option": "No such option: --no-such-option",
        "--seed -1": "seed: is -1, must be",
        "--seed 1.5": "seed: is 1.5, must be",
        "--solver scip --strategy scas --warm-start x.mps": "takes one instance, 3 were given",
        "--solver scip --strategy scas --export x.mps": "takes one instance, 3 were given",
    },
    "solve tiny.json --strategy scas": {
        "--solver dp --export x.mps": "has no model to export",
        "--solver dp --cancel": "solver 'dp' has no option 'cancel'",
        "--solver dp --option x": "option 'x' must look like NAME=VALUE",
        "--solver dp --option =1": "option '=1' must look like NAME=VALUE",
        "--nodelist topology.conf": "has another topology than the 8 nodes of",
    },
    "solve windows.jsonl --exclude-nodes": {
        "9-7": "hold '9-7', which must ascend within",
        "1,": "hold '', must be numbers",
        "5000": "exclude_nodes: paper-0: node 5000 is outside 0..999",
        "0-999": "exclude_nodes: paper-0: ask for",
    },
    "solve @knapsacks": {
        "--strategy free": "strategy: tiny-means: a knapsack problem takes none",
        "--exclude-nodes 1": "exclude_nodes: tiny-means: a knapsack problem takes none",
    },
    "solve guests.json --solver": {
        "lns": "'lns' does not take coallocation problems; solvers that do: assignment, auto, cp-sat",
        "assignment": "it allows 2 guests per host",
    },
    "bench @tiny --solvers": {
        "''": "there is no solver ''",
        "dp,pd": "there is no solver 'pd'",
    },
    "bench @tiny --solvers dp:scas": {
        "--seeds ''": "--seeds must be whole numbers",
        "--seeds 1,,2": "--seeds must be whole numbers",
        "--seeds 1.5": "--seeds must be whole numbers",
        "--seeds 0,-1": "--seeds must not be negative",
        "--out rows.txt": "rows.txt must end in .csv or .json",
    },
    "convert": {
        "log.swf out.csv": "the name must end in .swf, .json, .txt",
        "none.swf out.csv": "the name must end in",
        "log.swf out.swf --max-jobs 0": "Invalid value for '--max-jobs'",
        "log.swf out.swf --max-jobs some": "Invalid value for '--max-jobs'",
        "log.swf out.swf --processors-per-node 0": "Invalid value for '--processors-per-node'",
    },
    "generate windows --out out.jsonl --allocator sequential --strategy scas --jobs 100": {
        "--min-jobs 900": "no such window",
        "--hops 2,x,6": "--hops is '2,x,6'",
        "--hops 2,4,4": "topology.hops",
        "--pods 99999999": "topology",
        "--hop-cost -1": "--hop-cost is -1",
        "--prefix ../x": "cannot name instances",
        "--min-nodes 9 --max-nodes 8": "range of nodes is 9..8",
        "--allocator no-such": "no solver 'no-such'",
        "--strategy no-such": "does not take no-such",
        "--min-jobs 3 --max-jobs 2": "below the least",
        **{f"--{one} 0": f"Invalid value for '--{one}'" for one in ("count", "jobs", "pods", "period", "min-jobs")},
    },
    "generate workload": {
        "w.swf --model nsa --processors 39": "--processors is 39, must be at least 40",
        "w.swf --jobs 0": "Invalid value for '--jobs'",
        "w.swf --model none": "Invalid value for '--model'",
    },
    "generate knapsack --out out.json": {
        "--load 1": "the load is 1.0",
        "--nodes 4 --unit 8": "do not fit a machine of 4 nodes",
        "--nodes 4 --slots 3": "2 free nodes cannot be divided into 3 slots",
        "--prefix a/b": "cannot name instances",
    },
    "generate coallocation --out out.json": {
        "--max-slowdown 0.5": "max_slowdown: is 0.5",
        "--prefix a/b": "cannot name instances",
    },
    "generate window --topology topology.conf --out out.json": {
        "--job 1=9": "none of the 1 jobs fits the cluster; jobs left out,",
        "--job 1": "--job 1: is '1', must be the id of a job and its number of nodes",
        "--job 1=2 --job 1=2": "--job 1=2: job '1' is given twice",
        "--job 1=2 --idle ''": "no node is idle",
        "": "no job waits: give jobs with --job ID=NODES, or a file of jobs with --queue",
    },
    "reproduce --out rows.json": {
        "nothing": "there is no reproduction 'nothing'",
        "nsa-table3 --seeds=-1": "--seeds must not be negative",
    },
    "train --out run": {
        "nothing": "there is no training 'nothing'",
        "nsa --option speed=1": "no option 'speed'",
        "nsa --trace jobs.swf": "no option 'trace'",
        "dras-ppo": "give --trace FILE",
        "dras-ppo --trace a.swf --processors many": "processors are 'many'",
        "dras-ppo --trace a.swf --seed 9003": "reserved",
    },
    "what-if --trace jobs.csv --topology topology.conf": {
        "--allocators first,first": "--allocators is 'first,first', must be different names",
        "--allocators nobody": "nobody",
        "--schedulers ''": "--schedulers is '', must be different names",
    },
    "sweep grid.toml": {
        "-o rows.txt": "rows.txt must end in .csv or .jsonl",
        "-o grid.toml": "grid.toml must end in .csv or .jsonl",
        "-o windows.jsonl": f"windows.jsonl {TWICE}",
        "--workers 0": "Invalid value for '--workers'",
    },
    "simulate log.swf": {
        "--policy fcsf": "did you mean 'fcfs'?",
        "--set backfill_order=sjf": "only EASY and first-fit backfilling take a backfill order",
        "--fat-tree 2,2": FAT_TREE,
        f"--fat-tree {'9' * 5000},1,1": FAT_TREE,
        "--fat-tree ²,1,1": FAT_TREE,
        "--fat-tree 1,2,2 --processors 4": "give only one of them",
        "--fat-tree 1,2,2 --set strategy=scas": "strategy: needs an allocator, which is not given",
        "--policy window --fat-tree 1,2,2 --allocator dp": "'window' has its own allocator",
        "--explain 77": "there is no job 77 to explain in log",
        "--set police=sjf": "police: is an unknown field; did you mean 'policy'?",
        "--set policy": "--set 'policy' must look like FIELD=VALUE",
        "--processors many": "processors: is 'many', must be a valid integer",
        "--set dependencies=perhaps": "dependencies: is 'perhaps', must be a valid boolean",
        "--set options.x=1": "policy 'fcfs' has no option",
        "--trim 0.1": "--trim: use --set trim=VALUE, or trim in the file of --spec",
        "--trim=0.1": "--trim: use --set trim=0.1, or trim in the file of --spec",
        "--no-dependencies": "--no-dependencies: use --set dependencies=false, or dependencies in the file of --spec",
        "--exact-estimates": "--exact-estimates: use --set exact_estimates=true",
        "--energy-csv x.csv": "energy_csv: needs platform, which is not given",
    },
    "simulate workload.json --platform platform.toml": {
        **{
            f"--set {field}": f"{field.partition('=')[0]}: cannot be combined with platform"
            for field in ("backfill=easy", "processors=4", "backfill_order=sjf", "exact_estimates=true")
        },
        "--event-order sequential": "event_order: cannot be combined with platform",
        "--set sharing=0": "sharing: is 0.0, must be greater than 0",
        "--set placement=placed.csv --policy shortest-random": "policy: cannot be combined with placement",
    },
    "simulate halves.swf --policy": {
        "sjf --set profiles=t.toml": "profiles: is for policies that let jobs share",
        "asax --option period_s=0": "period_s is 0, must be positive",
        "asax --option loss=money": "must be one of limit, degradation",
        "asax --option idle_weight=-1": "idle_weight is -1, must not be negative",
    },
}
# No command overwrites what it reads, or writes two answers into one file.
OVERWRITING = [
    "convert jobs.csv jobs.csv --max-jobs 1",
    "convert topology.conf topology.conf",
    "convert topology.conf linked.conf",
    "convert linked.conf topology.conf",
    "solve now.json --trajectory now.json",
    "solve now.json --export now.json --strategy scas --solver highs",
    "solve window.json --solution .",
    "bench now.json --solvers greedy --out now.json",
    "bench now.json --solvers greedy --trajectory ./now.json",
    "bench now.json --solvers greedy --out x.csv --trajectory x.csv",
    "bench now.json --solvers greedy --out best_known.json",
    "bench now.json --solvers greedy --best-known queue.json --out queue.json",
    "generate window --topology topology.conf --queue queue.json --out queue.json",
    "generate window --topology topology.conf --queue queue.json --name queue --out .",
    "what-if --trace jobs.csv --topology topology.conf --allocators first --report jobs.csv",
    "what-if --trace easy,first.csv --topology topology.conf --allocators first --jobs-csv .",
    "calibrate locality jobs.csv --out jobs.csv",
    "calibrate power jobs.csv --out jobs.csv",
    "calibrate power jobs.csv --plot jobs.csv",
    "simulate jobs.csv --swf jobs.csv",
    "simulate jobs.csv --jobs-csv a.csv --swf a.csv",
    "simulate jobs.csv --platform now.json --energy-csv missing/../now.json",
    "simulate jobs.csv --platform now.json --set placement=queue.json --jobs-csv queue.json",
    "report jobs.csv -o jobs.csv",
    "report now.json -o now.json",
    "report now.json -o x.html --topology x.html",
]
UNREADABLE = {
    "": {
        "solve none.json": "allocopt: none.json: No such file or directory",
        "solve folder.csv": "allocopt: folder.csv: Is a directory",
        "solve now.json window.json": "window.json: name: 'window' is also the name of an instance in",
        "bench @tiny --solvers dp:scas --best-known no-such-file": "no-such-file: No such file",
        "bench @tiny --solvers dp:scas --json --out folder.csv": "folder.csv",
        "bench @tiny --solvers dp:scas --json --out log.swf/rows.csv": "log.swf/rows.csv",
        "convert none.swf out.swf": "No such file",
        "convert log.swf log.swf/out.swf": "cannot be written",
        "reproduce nsa-table3 --data nowhere --out rows.json": "data_large_1800_40",
        "report none.csv": "allocopt: none.csv: No such file",
        "what-if --trace none.csv --topology topology.conf": "none.csv: No such file",
        "what-if --trace jobs.csv --topology none.conf": "none.conf: No such file",
        "what-if --trace big.csv --topology topology.conf": "allocopt: big: none of the 1 jobs can run on the 8 nodes",
        f"simulate {LONG}": f"allocopt: {LONG}: File name too long",
        f"convert {LONG} out.swf": f"allocopt: {LONG}: File name too long",
        f"solve {LONG}": f"allocopt: {LONG}: File name too long",
        f"sweep {LONG}": f"allocopt: {LONG}: File name too long",
        "simulate nsa.txt": "give processors",
    },
    "simulate log.swf": {
        "--processors 3": "job 2: asks for 4 processors, the machine has 3; skip_oversized = true drops such jobs",
        "--processors 4 --set processors_per_node=3": "job 2: asks for 2 nodes, the machine has 1; skip",
    },
    "simulate halves.swf --policy asax": {
        "--set profiles=none.toml": "none.toml: ",
        "--option experts=none.toml": "none.toml: ",
        "--set profiles=halves.toml --option save_knowledge=halves.swf": "halves.swf",
    },
}
REFUSALS = [
    pytest.param(f"{command} {more}".strip(), code, fault, id=f"{command} {more}".strip()[:90])
    for code, table in ((2, USAGE), (3, UNREADABLE))
    for command, faults in table.items()
    for more, fault in faults.items()
]
REFUSALS += [pytest.param(command, 2, TWICE, id=command) for command in OVERWRITING]


@pytest.mark.parametrize(("command", "code", "fault"), REFUSALS)
def test_what_cannot_be_served_is_explained_in_one_line(
    run: Run, site: Path, command: str, code: int, fault: str
) -> None:
    assert fault in check_refusal(run, site, command, code)


LOCALITY = "workload,policy,gpus,requested_s,service_s"
CONTENTION = "rate_mb_s,others_rate_mb_s,others,factor\n"
SCHEDULE = "job_id,submit,start,end,processors,run,estimate\n"
PLACED = "job_id,node,start_s\n"
CUT = json.dumps(INSTANCE)[:-9]


def solution(**changes: object) -> str:
    """Write the optimum of the first shipped window with some claims changed."""
    return json.dumps({**SOLUTION, **changes})


BAD_FILES: dict[str, list[tuple[str, str]]] = {
    "calibrate locality bad.csv --out table.json": [
        ("workload,policy,gpus,requested_s\n", "line 1: has no column service_s; the columns of jobs are workload"),
        (LOCALITY, "holds no jobs"),
        (f"{LOCALITY}\ncpu,depth-first,1,10,11", "line 2: workload is 'cpu', must be one of compute, network, unknown"),
        (f"{LOCALITY}\ncompute,wide,1,10,11", "line 2: policy is 'wide', must be one of depth-first, breadth-first"),
        (f"{LOCALITY}\ncompute,depth-first,1.5,9,9", "line 2: gpus is '1.5', must be a whole number within 0 .. 2^53"),
        (f"{LOCALITY}\ncompute,depth-first,1e30,9,9", "line 2: gpus is '1e30', must be a whole number within 0"),
        (f"{LOCALITY}\ncompute,depth-first,1,0,11", "line 2: requested_s is '0', must be a number of seconds, more"),
        (f"{LOCALITY},gpus\ncompute,depth-first,1,10,11,2", "line 1: has the column gpus 2 times"),
        (f"{LOCALITY}\ncompute,depth-first,1,10,x", "line 2: service_s is 'x', must be a number"),
        (f"{LOCALITY}\ncompute,depth-first,1,10", "line 2: must have 5 columns, as line 1"),
    ],
    "calibrate power bad.csv": [
        ("active_cores\n1\n", "line 1: has no column power_w; the columns of measurements are active_cores, power_w"),
        ("active_cores,power_w\n1,x\n", "line 2: power_w is 'x', must be a number, not negative"),
        ("active_cores,power_w\n", "holds no measurements"),
        ("active_cores,power_w\n1,5\n1,6\n0,1\n", "power: must be measured with at least two different active_cores"),
        ("active_cores,power_w\n1,9\n2,8\n", "power: the fitted line is -1 W per active core"),
        (
            "active_cores,power_w,stalled_cores\n1,9,1\n2,11,2\n3,13,3\n",
            "stalled_cores: is a linear function of active_cores",
        ),
        ("active_cores,power_w,stalled_cores\n1,5,2\n2,9,0\n", "stalled_cores: is above active_cores in a row"),
        (f"active_cores,power_w\n{'1' * 200_000},5\n", "line 2: is not CSV: field larger than field limit"),
    ],
    "calibrate contention bad.csv": [
        (f"{CONTENTION}1,1,1,0.5\n", "contention: 1 measurements, must be at least 12"),
        (CONTENTION + "1,1,1,0.5\n" * 12, "others: must have at least two different values"),
        (CONTENTION + "1,1,1,1\n1,1,2,1\n" * 6, "factor: is below 0.99 in no row: there is no contention to fit"),
        (CONTENTION + "1,1,1,0\n1,1,2,0\n" * 6, "factor: is not positive in a row"),
    ],
    "solve bad.json": [(CUT, f"line 1, column {CUT.rindex(chr(34)) + 1}: is not JSON: Unterminated string")],
    "solve tiny.json bad.json --solution solutions --json": [(json.dumps({**INSTANCE, "jobs": []}), "jobs: ")],
    "verify tiny.json bad.json": [
        (solution(objective=15000.1), "the stated objective is 15000.1, recomputed it is 15000"),
        (solution(allocation=None), "the solution holds no allocation"),
        (solution(instance="another"), "instance: 'another' is not in"),
    ],
    "solve tiny.json --solver dp --strategy scas --warm-start bad.json": [
        (solution(allocation=None), "allocation: is null"),
        (solution(allocation={"1": [3, 4, 5, 9], "2": [6, 8, 10, 11]}), "scas: job '1' is not contiguous"),
    ],
    "report bad.json": [
        (solution(objective=1.0), "the stated objective is 1.0"),
        (solution(instance="nowhere"), "instance: is 'nowhere', which is in no file in or above this folder"),
    ],
    "report bad.txt": [("hello\n", "is not a known result: expected a solution, rows of solve, bench, ")],
    "report bad.csv": [
        (f"{SCHEDULE}1,5,4,9,1,5,5\n", "line 2: start is '4', before"),
        (f"{SCHEDULE}1,5,6,9,0,5,5\n", "line 2: processors is '0', must"),
        (f"{SCHEDULE}1,5,nan,9,1,5,5\n", "line 2: start is 'nan', must"),
        (f"{PLACED}1,n1,0\n", "line 1: has no column duration_s"),
    ],
    "simulate workload.json --platform platform.toml --set placement=bad.csv": [
        ("job_id,node\n7,left\n", "line 1: has no column start_s; the columns of jobs are job_id, node, start_s"),
        (f"{PLACED}5,left,0\n", "line 2: job_id is '5', the workload has no such job"),
        (f"{PLACED}7,left,0\n7,left,0\n", "line 3: job_id is '7', which is given twice"),
        (f"{PLACED}7,left,x\n", "line 2: start_s is 'x', must be a time in seconds, not negative"),
        (f"{PLACED}7,left,0\n", "job 'job8': has no given start"),
        (f"{PLACED}7,up,0\n8,left,0\n9,left,0\n", "job 'job7': is placed on node 'up', which does not exist"),
        ("job_id,node,start_s,duration_s\n7,left,0,0\n", "line 2: duration_s is '0', must be positive"),
    ],
    "simulate --spec bad.toml": [
        ('trace = "log.swf"\npolice = "sjf"\n', "police: is an unknown key; did you mean 'policy'?"),
        ('trace = "log.swf"\nmax_jobs = 0\n', "max_jobs: is 0, must be greater than or equal to 1"),
        ('trace = "log.swf"\nfat_tree = [2, 2]\n', "fat_tree: is '2,2', must be three positive numbers"),
        ("trace = 3\n", "trace: is 3, must be a valid string"),
    ],
    "generate window --topology topology.conf --out out.json --queue bad.txt": [
        ("1 4-2\n", "line 1: is '1 4-2', must be the id of a job and its number of nodes")
    ],
}


@pytest.mark.parametrize(
    ("command", "text", "fault"),
    [
        pytest.param(command, text, fault, id=f"{command}: {fault}"[:90])
        for command, faults in BAD_FILES.items()
        for text, fault in faults
    ],
)
def test_a_bad_file_is_one_line_that_names_the_place(run: Run, site: Path, command: str, text: str, fault: str) -> None:
    (name,) = (word.split("=")[-1] for word in command.split() if "bad." in word)
    (site / name).write_text(text, encoding="utf-8")
    assert check_refusal(run, site, command, 3).startswith(f"allocopt: {name}: {fault}")


def test_inputs_may_be_named_again_and_outputs_thrown_away(tmp_path: Path) -> None:
    null, read = Path("/dev/null"), tmp_path / "read"
    check_files_differ(null, null, tmp_path / "written", tmp_path, tmp_path, read=[read, read, None])


def test_a_file_of_several_topologies_is_one_file(tmp_path: Path) -> None:
    file = tmp_path / "site.yaml"
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(UsageError, match="is given twice"):
        check_files_differ(file, read=[Path(f"{file}#gpu")])


def test_a_link_to_itself_is_left_to_whoever_opens_it(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    check_files_differ(tmp_path / "loop", tmp_path / "x", tmp_path / ("long" * 100))
