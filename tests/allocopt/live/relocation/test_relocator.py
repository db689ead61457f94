"""Relocations beside a Slurm that is only pretended: who is helped, at which cost, and what is done step by step."""

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.hostlist import expand_hostlist
from allocopt.cluster.named import NamedTree
from allocopt.cluster.topology import Tree
from allocopt.errors import UsageError
from allocopt.live.journal import FORMAT, Journal, Replay, read_journal
from allocopt.live.relocation import requeue
from allocopt.live.relocation.plan import RelocationLimits, RelocationQuestion, work_lost
from allocopt.live.relocation.relocator import Advise, Relocator, first_in_line
from allocopt.live.relocation.requeue import RESERVATION, Requeue
from allocopt.live.slurm import Closure, Look, SlurmError, SlurmRefusedError, slurm_jobs
from allocopt.solving.result import Result

NOW, BY_MS = 1_700_000_000.0, 7
NODES = tuple(f"n{node}" for node in range(8))
RACKS = [{"leaf0": [0, 1, 2, 3], "leaf1": [4, 5, 6, 7]}]
CLUSTER = Cluster(
    tuple(ClusterNode(name) for name in NODES),
    NamedTree(Tree.from_levels(RACKS, [2, 4]), NODES),
    (Partition("main", NODES, is_exclusive=True), Partition("other", NODES, is_exclusive=True)),
)


def a_record(job: int, nodes: int, on: Sequence[str] = (), **values: Any) -> dict[str, Any]:
    """Return what squeue tells of a job that runs on nodes, or waits if there are none."""
    held = [{"nodename": name, "sockets": {"0": {"cores": {"0": "allocated"}}}, "memory_allocated": 0} for name in on]
    return {
        "job_id": job, "job_state": "RUNNING" if on else "PENDING", "state_reason": "None" if on else "Resources",
        "priority": 1000 - job, "partition": "main", "user_name": "ann", "comment": "", "admin_comment": "",
        "time_limit": 60, "submit_time": NOW - 600, "eligible_time": NOW - 600, "start_time": NOW - 300 if on else 0,
        "tres_req_str": f"cpu={nodes},node={nodes}", "tres_alloc_str": f"cpu={nodes},node={nodes}" if on else "",
        "tasks": nodes, "cpus_per_task": 1, "shared": "none", "required_nodes": "", "requeue": True, "batch_flag": True,
        "restart_cnt": 0, "nodes": ",".join(on), "job_resources": {"allocated_nodes": held} if on else None, **values,
    }  # fmt: skip


@dataclass
class Pretended:
    """A Slurm that does at once what it is told, and starts a pinned job if its nodes are free and not reserved."""

    records: dict[str, dict[str, Any]]
    now_s: float = NOW
    away: dict[str, str] = field(default_factory=dict)
    reserved: dict[str, Closure] = field(default_factory=dict)
    told: list[tuple[str, ...]] = field(default_factory=list)
    silent: int = 0
    """Commands that are not answered."""
    refuses: str = ""
    """Kind of command that is refused."""

    @classmethod
    def of(cls, *records: dict[str, Any]) -> "Pretended":
        return cls({str(one["job_id"]): one for one in records})

    def look(self) -> Look:
        listed = list(self.records.values())
        return Look(self.now_s, CLUSTER, slurm_jobs(listed), self.away, tuple(self.reserved.values()), listed)

    def _hear(self, *words: str) -> None:
        if self.silent:
            self.silent -= 1
            raise SlurmError("does not answer")
        if words[0] == self.refuses:
            raise SlurmRefusedError("no")
        self.told.append(words)

    def update(self, jobs: Sequence[str], **values: str) -> None:
        self._hear("update", *jobs, *values)
        keys = {"ReqNodeList": "required_nodes", "AdminComment": "admin_comment"}
        for job in jobs:
            record = self.records[job]
            record |= {keys[key]: value for key, value in values.items() if key in keys}
            if values.get("StartTime") == "now":
                record |= {"eligible_time": self.now_s, "state_reason": "Resources"}

    def requeue(self, job: str) -> None:
        self._hear("requeue", job)
        record = self.records[job]
        record |= {"job_state": "PENDING", "state_reason": "BeginTime", "eligible_time": self.now_s + 120}
        record |= {"restart_cnt": record["restart_cnt"] + 1, "nodes": "", "job_resources": None, "start_time": 0}

    def reserve(self, name: str, nodes: Sequence[str], until_s: float, *, anew: bool) -> None:
        self._hear("reserve", name)
        self.reserved[name] = Closure(self.now_s, until_s, tuple(nodes), name)

    def end_reservation(self, name: str) -> None:
        self._hear("end_reservation", name)
        del self.reserved[name]

    def start_pinned(self) -> None:
        """Start the jobs that may begin on the nodes that they ask for."""
        closed = {node for one in self.reserved.values() for node in one.nodes}
        for record in self.records.values():
            nodes = expand_hostlist(record["required_nodes"])
            taken = {node for one in self.records.values() if one["job_resources"] for node in one["nodes"].split(",")}
            is_due = record["job_state"] == "PENDING" and record["eligible_time"] <= self.now_s
            if nodes and is_due and taken.isdisjoint(nodes) and closed.isdisjoint(nodes):
                on = a_record(0, len(nodes), nodes)
                record |= {key: on[key] for key in ("job_state", "job_resources", "tres_alloc_str")}
                record |= {"start_time": self.now_s, "nodes": ",".join(nodes)}

    def waits_freely(self) -> bool:
        waiting = [one for one in self.records.values() if one["job_state"] == "PENDING"]
        held = (one["admin_comment"] or one["required_nodes"] or one["eligible_time"] > self.now_s for one in waiting)
        return not any(held) and not self.reserved


class Direct:
    """Solves in this process."""

    def answer(self, question: RelocationQuestion, solver: str, time_limit: float) -> tuple[Result, str]:
        return question.solved("highs", time_limit, 0), ""


class LateDirect(Direct):
    """Has no answer in time, the first time."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, question: RelocationQuestion, solver: str, time_limit: float) -> tuple[Result, str]:
        self.asked += 1
        return super().answer(question, solver, time_limit) if self.asked > 1 else (question.unsolved(1.0, 0), "late")


LIMITS = RelocationLimits(wait=60.0, solve=10.0, within="leaf")


@dataclass
class Beside:
    slurm: Pretended
    relocator: Relocator
    path: Path

    def looks(self, count: int, before: Callable[[], object] = lambda: None) -> None:
        for _ in range(count):
            before()
            look = self.slurm.look()
            try:
                self.relocator.step(look, Direct(), BY_MS)  # type: ignore[arg-type]
            except SlurmError:
                pass
            self.slurm.now_s += 1
            self.slurm.start_pinned()

    def told(self, event: str) -> list[dict[str, Any]]:
        return [one for one in read_journal(self.path) if one["event"] == event]


def beside(path: Path, slurm: Pretended, *, advises: bool = False, limits: RelocationLimits = LIMITS) -> Beside:
    journal = Journal(path / "j.jsonl")
    journal.write("begun", NOW, format=FORMAT)
    carrier = Advise() if advises else Requeue(slurm, journal, limits)  # type: ignore[arg-type]
    relocator = Relocator(journal, lambda job: job.partition == "main", limits, carrier)
    return Beside(slurm, relocator, journal.path)


def fragmented(**values: Any) -> Pretended:
    """Return two racks of four nodes: job 1 on two nodes of the first one, job 2 on one of the second, job 3 waits.

    One move makes room for job 3: that of job 1 costs two nodes, that of job 2 one, to the first rack.
    """
    return Pretended.of(
        a_record(1, 2, ("n0", "n1"), **values), a_record(2, 1, ("n4",), **values), a_record(3, 4)
    )  # fmt: skip


def test_the_cheapest_job_moves_and_the_gang_starts_on_its_rack(tmp_path: Path) -> None:
    one = beside(tmp_path, fragmented())
    one.looks(10)
    (plan,), records = one.told("relocation"), one.slurm.records
    assert [(step["action"], step["job"]) for step in plan["steps"]] == [("move", "2"), ("start", "3")]
    assert plan["cost"] == plan["bound"] == 6.0
    assert records["3"]["nodes"] == "n4,n5,n6,n7"
    assert records["2"]["nodes"] in ("n2", "n3")
    assert records["1"]["restart_cnt"] == 0
    assert one.slurm.waits_freely()
    found = Replay.of(one.path)
    assert (found.wrong, found.relocations_proved, found.relocated, found.requeued) == ([], 1, 1, 1)
    assert (found.pinned, found.as_pinned) == (2, 2)


def test_no_step_is_done_before_the_one_before_is_seen(tmp_path: Path) -> None:
    one = beside(tmp_path, fragmented())
    one.looks(10)
    words = [told[:2] for told in one.slurm.told]
    reserved = f"{RESERVATION}3"
    assert words == [
        ("reserve", reserved), ("update", "2"), ("requeue", "2"), ("update", "2"), ("update", "3"),
        ("end_reservation", reserved),
    ]  # fmt: skip
    assert [one["event"] for one in read_journal(one.path)][1:] == [
        "relocation", "requeued", "pinned", "moved", "pinned", "relocation done",
    ]  # fmt: skip


def test_advice_tells_slurm_nothing_and_is_written_once(tmp_path: Path) -> None:
    one = beside(tmp_path, fragmented(), advises=True)
    one.looks(30, lambda: one.slurm.records["1"].update(start_time=one.slurm.now_s - 1000))
    assert one.slurm.told == []
    assert len(one.told("relocation")) == 1


@pytest.mark.parametrize(
    "values",
    [
        {"requeue": False},
        {"batch_flag": False},
        {"partition": "other"},
        {"restart_cnt": 1},
        {"job_state": "SUSPENDED"},
        {"het_job_id": 1},
    ],
)
def test_jobs_that_may_not_be_queued_again_stay_and_that_nothing_helps_is_proved(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    one = beside(tmp_path, fragmented(**values))
    one.looks(5)
    (plan,) = one.told("relocation")
    assert (plan["steps"], plan["proved"], plan["what"]) == (
        [],
        True,
        "proved: the jobs that may leave cannot make room",
    )
    assert one.slurm.told == []
    assert Replay.of(one.path).wrong == []


def test_a_job_that_was_queued_again_rests_before_it_may_be_once_more(tmp_path: Path) -> None:
    limits = RelocationLimits(wait=60.0, solve=10.0, within="leaf", per_job=5, rest=400.0)
    one = beside(tmp_path, fragmented(restart_cnt=1), limits=limits)
    one.looks(5)
    assert one.slurm.told == []
    one.slurm.now_s += 100
    one.slurm.records["9"] = a_record(9, 1, ("n7",), partition="other")
    del one.relocator._solved_s["3"]
    one.looks(3)
    assert ("requeue", "1") in one.slurm.told


def test_jobs_stop_only_where_that_is_allowed_and_are_free_when_the_gang_runs(tmp_path: Path) -> None:
    records = [a_record(1, 3, ("n0", "n1", "n2")), a_record(2, 2, ("n4", "n5")), a_record(3, 4)]
    one = beside(tmp_path, Pretended.of(*records))
    one.looks(5)
    assert (one.told("relocation")[0]["steps"], one.slurm.told) == ([], [])
    (tmp_path / "2").mkdir()
    limits = RelocationLimits(wait=60.0, solve=10.0, within="leaf", may_stop=True)
    one = beside(tmp_path / "2", Pretended.of(*records), limits=limits)
    one.looks(10)
    assert [(step["action"], step["job"]) for step in one.told("relocation")[0]["steps"]] == [
        ("stop", "2"), ("start", "3"),
    ]  # fmt: skip
    assert one.slurm.records["3"]["nodes"] == "n4,n5,n6,n7"
    assert one.slurm.records["2"]["job_state"] == "PENDING"
    assert one.slurm.waits_freely()
    assert one.told("freed")[0]["job"] == "2"


def test_no_more_jobs_are_queued_again_than_an_hour_allows(tmp_path: Path) -> None:
    limits = RelocationLimits(wait=60.0, solve=10.0, within="leaf", per_hour=1)
    before = a_record(8, 1, ("n1",), admin_comment=f"allocopt priority=1 by=1 requeued={NOW - 1000:.0f}", restart_cnt=1)
    slurm = Pretended.of(a_record(1, 1, ("n0",)), before, a_record(2, 1, ("n4",)), a_record(3, 4))
    one = beside(tmp_path, slurm, limits=limits)
    one.looks(5)
    (dropped,) = one.told("relocation dropped")
    assert dropped["why"] == "1 jobs would have to leave, but only 0 more may be requeued in this hour"
    assert slurm.told == []


def drain(slurm: Pretended) -> None:
    slurm.away = {"n6": "drained"}


def take(slurm: Pretended) -> None:
    slurm.records["9"] = a_record(9, 1, ("n7",), partition="other", start_time=NOW)


def cancel(slurm: Pretended) -> None:
    slurm.records["3"]["job_state"] = "CANCELLED"


def start_elsewhere(slurm: Pretended) -> None:
    two = slurm.records["2"]
    if two["job_state"] == "PENDING":
        two |= {"job_state": "RUNNING", "nodes": "n7", "start_time": slurm.now_s}
        two["job_resources"] = a_record(0, 1, ("n7",))["job_resources"]


def refuse(slurm: Pretended) -> None:
    slurm.refuses = "requeue"


@pytest.mark.parametrize("happens", [drain, take, cancel, start_elsewhere, refuse])
@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_plan_that_does_not_hold_any_more_is_dropped_and_nothing_stays_held(
    tmp_path: Path, happens: Callable[[Pretended], None], after: int
) -> None:
    one = beside(tmp_path, fragmented())
    one.looks(after)
    one.looks(1, lambda: happens(one.slurm))
    one.slurm.refuses = ""
    # The next plan would follow.
    one.relocator.limits = RelocationLimits(wait=1e9)
    one.looks(5)
    ends = [event["event"] for event in read_journal(one.path) if event["event"].startswith("relocation ")]
    assert len(ends) == 1
    assert one.slurm.waits_freely()
    assert {one["job_state"] for one in one.slurm.records.values()} <= {"RUNNING", "PENDING", "CANCELLED"}


def test_a_step_that_is_not_done_in_time_ends_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = beside(tmp_path, fragmented())
    monkeypatch.setattr(one.slurm, "start_pinned", lambda: None)
    one.looks(4)
    assert one.relocator.is_under_way
    later = requeue.time.monotonic() + LIMITS.step + 1
    monkeypatch.setattr(requeue.time, "monotonic", lambda: later)
    one.relocator.limits = RelocationLimits(wait=1e9)
    one.looks(2)
    assert one.told("relocation dropped")[0]["why"] == "move of job 2 took more than 120 s"
    assert one.slurm.waits_freely()


@pytest.mark.parametrize("command", range(6))
def test_a_request_that_is_not_answered_is_repeated(tmp_path: Path, command: int) -> None:
    one = beside(tmp_path, fragmented())

    def fail() -> None:
        if len(one.slurm.told) == command and not failed:
            failed.append(True)
            one.slurm.silent = 1

    failed: list[bool] = []
    while not one.told("relocation done"):
        one.looks(1, fail)
        assert one.slurm.now_s < NOW + 30
    one.looks(1)
    assert failed or command in (1, 2, 5)  # these follow another one within a look
    assert (one.slurm.records["3"]["job_state"], one.slurm.records["2"]["restart_cnt"]) == ("RUNNING", 1)
    assert one.slurm.waits_freely()


@pytest.mark.parametrize("after", range(1, 7))
def test_what_a_killed_service_leaves_is_freed_by_the_next_one(tmp_path: Path, after: int) -> None:
    slurm = fragmented()
    beside(tmp_path, slurm).looks(after)
    slurm.now_s += 2 * LIMITS.step + 1
    (tmp_path / "2").mkdir()
    following = beside(tmp_path / "2", slurm, limits=RelocationLimits(wait=1e9))
    look = slurm.look()
    following.relocator.step(look, Direct(), BY_MS + 1)  # type: ignore[arg-type]
    assert slurm.waits_freely()


def test_only_the_first_job_in_line_is_helped_if_it_has_waited(tmp_path: Path) -> None:
    waiting = [
        a_record(1, 4, priority=0, state_reason="JobHeldUser"), a_record(2, 4, state_reason="Dependency"),
        a_record(3, 4, eligible_time=NOW + 100, state_reason="BeginTime"), a_record(4, 1), a_record(5, 4),
        a_record(6, 2, partition="other"), a_record(7, 2, partition="other", priority=5000),
    ]  # fmt: skip
    assert [job.id for job in first_in_line(Pretended.of(*waiting).look())] == ["7"]
    assert [job.id for job in first_in_line(Pretended.of(*waiting[:6]).look())] == ["4"]
    early = fragmented()
    early.records["3"] |= {"submit_time": NOW - 30, "eligible_time": NOW - 30}
    one = beside(tmp_path, early)
    one.looks(5)
    assert not one.told("relocation")


def test_a_gang_that_finds_room_is_left_to_slurm(tmp_path: Path) -> None:
    one = beside(tmp_path, Pretended.of(a_record(1, 2, ("n0", "n1")), a_record(3, 4)))
    one.looks(5)
    assert [told["why"] for told in one.told("no relocation")] == ["it fits without any job having to leave"]
    assert not one.told("relocation")


def test_a_gang_that_asks_for_one_switch_gets_a_leaf_and_is_left_to_slurm_without_it(tmp_path: Path) -> None:
    slurm = fragmented()
    slurm.records["3"]["required_switches"] = 1
    loose = beside(tmp_path, slurm, advises=True, limits=RelocationLimits(wait=60.0, solve=10.0))
    loose.looks(3)
    (told,) = loose.told("no relocation")
    assert "--switches" in told["why"]
    (tmp_path / "2").mkdir()
    one = beside(tmp_path / "2", slurm)
    one.looks(10)
    assert slurm.records["3"]["nodes"] == "n4,n5,n6,n7"


def test_lost_work_is_time_on_nodes_and_never_so_much_that_solvers_refuse_it() -> None:
    (job,) = Pretended.of(a_record(1, 2, ("n0", "n1"))).look().jobs
    assert work_lost(job, NOW) == 2 * (300 / 60 + 1)
    assert work_lost(job, job.start_s) == 2
    assert work_lost(job, NOW + 1e9) == 500_000


def test_a_problem_without_an_answer_is_asked_again(tmp_path: Path) -> None:
    one, solves = beside(tmp_path, fragmented()), LateDirect()
    for _ in range(2):
        one.relocator.step(one.slurm.look(), solves, BY_MS)  # type: ignore[arg-type]
        one.relocator._solved_s.clear()
    late, found = one.told("relocation")
    assert (late["steps"], late["proved"], late["cut"]) == ([], False, "late")
    assert found["proved"]
    assert Replay.of(one.path).relocations_proved == 1


def test_false_relocations_are_named(tmp_path: Path) -> None:
    one = beside(tmp_path, fragmented())
    one.looks(10)
    (told,) = one.told("relocation")
    del told["event"], told["at"]
    dear = json.loads(json.dumps(told))
    dear["answer"]["objective"] -= 1
    with Journal(tmp_path / "2.jsonl") as journal:
        journal.write("begun", NOW, format=FORMAT)
        journal.write("relocation", NOW, **told)
        journal.write("relocation", NOW, **dear)
        journal.write("relocation", NOW, **{**told, "steps": told["steps"][:1]})
        journal.write("relocation", NOW, **{**told, "cost": told["cost"] + 1})
    found = Replay.of(tmp_path / "2.jsonl")
    assert [one.line for one in found.wrong] == [3, 4, 5]
    assert found.relocations == 4


@pytest.mark.parametrize("values", [{"solve": 0.0}, {"step": -1.0}])
def test_limits_out_of_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="must be above 0"):
        RelocationLimits(**values)  # type: ignore[arg-type]


def end_one(slurm: Pretended, rng: random.Random) -> None:
    running = [one for one in slurm.records.values() if one["job_state"] == "RUNNING"]
    for one in running[:1] if rng.random() < 0.5 else running[-1:]:
        one |= {"job_state": "COMPLETED", "job_resources": None, "nodes": ""}


def submit_one(slurm: Pretended, rng: random.Random) -> None:
    busy = {node for one in slurm.records.values() if one["job_resources"] for node in one["nodes"].split(",")}
    closed = {node for one in slurm.reserved.values() for node in one.nodes}
    free = [node for node in NODES if node not in busy | closed | slurm.away.keys()]
    job = 100 + len(slurm.records)
    if free:
        slurm.records[str(job)] = a_record(job, 1, (rng.choice(free),), start_time=slurm.now_s)


def drain_one(slurm: Pretended, rng: random.Random) -> None:
    slurm.away = {rng.choice(NODES): rng.choice(["drained", "unknown", "completing"])}


def silence(slurm: Pretended, rng: random.Random) -> None:
    slurm.silent = rng.randint(1, 3)


def cancel_one(slurm: Pretended, rng: random.Random) -> None:
    waiting = [one for one in slurm.records.values() if one["job_state"] == "PENDING"]
    if waiting:
        rng.choice(waiting)["job_state"] = "CANCELLED"


def refuse_one(slurm: Pretended, rng: random.Random) -> None:
    slurm.refuses = rng.choice(["", "requeue", "update", "reserve", "end_reservation"])


MISHAPS = (end_one, submit_one, drain_one, silence, cancel_one, refuse_one)


@given(seed=st.integers(0, 2**32))
def test_whatever_happens_nothing_stays_held_and_nobody_is_queued_again_who_must_not(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    rng = random.Random(seed)
    records, nodes, job = [], list(NODES), 1
    while nodes:
        size = rng.randint(1, 2)
        on, nodes = nodes[:size], nodes[size:]
        if rng.random() < 0.6:
            partition = rng.choice(["main", "main", "main", "other"])
            started = NOW - rng.randint(1, 5000)
            values = {"partition": partition, "requeue": rng.random() < 0.9, "start_time": started}
            records.append(a_record(job, len(on), on, **values))
        job += 1
    records += [a_record(50, 4), a_record(51, 3)]
    limits = RelocationLimits(
        wait=0.0, solve=10.0, within="leaf", may_stop=rng.random() < 0.5, per_job=rng.randint(1, 3),
        per_hour=rng.randint(1, 8), rest=rng.choice([0.0, 3600.0]),
    )  # fmt: skip
    slurm = Pretended.of(*records)
    one = beside(tmp_path_factory.mktemp("j"), slurm, limits=limits)
    for _ in range(30):
        one.relocator._solved_s.clear()
        one.looks(1)
        if rng.random() < 0.25:
            rng.choice(MISHAPS)(slurm, rng)
    slurm.away, slurm.silent, slurm.refuses = {}, 0, ""
    one.relocator.limits = RelocationLimits(wait=1e9)
    one.looks(60)
    assert not one.relocator.is_under_way
    assert slurm.waits_freely()
    stays = {str(record["job_id"]) for record in records if record["partition"] == "other" or not record["requeue"]}
    for job, record in slurm.records.items():
        assert record["restart_cnt"] <= (0 if job in stays else limits.per_job)
    assert sum(record["restart_cnt"] for record in slurm.records.values()) <= limits.per_hour
    assert Replay.of(one.path).wrong == []
