"""Places of waiting jobs: by scores as the slow twin has them, ours among themselves, and what takes them there."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.slow_scores import UNKNOWN, SlowScores, random_network

from allocopt.cluster.cluster import Cluster, ClusterNode, Partition
from allocopt.cluster.request import Request
from allocopt.errors import UsageError
from allocopt.live.order import LiveOrder, exchanged, network_named, nice_of
from allocopt.live.plan import Queue, queue_of
from allocopt.live.savings import expected_savings
from allocopt.live.slurm import Closure, Look, SlurmJob, slurm_job
from allocopt.simulator.scoring import N_FEATURES

NOW = 2_000_000.0
NODES = tuple(f"n{number}" for number in range(6))
USERS = ("ann", "bob", "eve")


def job_of(number: int, **values: object) -> SlurmJob:
    made = SlurmJob(
        *(str(number), "ann", "main", "", "", "", "PENDING", "None", 1000 - number, 600.0, NOW - 50, NOW - 50),
        *(0.0, np.inf, Request(1)),
    )
    return replace(made, **values)  # type: ignore[arg-type]


def a_cluster() -> Cluster:
    nodes = [ClusterNode(name, 4) for name in NODES]
    return Cluster.of(nodes, None, (Partition("main", NODES), Partition("half", NODES[:3])))


@st.composite
def jobs(draw: st.DrawFn, first: int, state: str) -> list[SlurmJob]:
    found = []
    for number in range(first, first + draw(st.integers(0 if state == "ENDED" else 1, 6))):
        times: dict[str, object] = {}
        submit = NOW - draw(st.integers(300, 9000))
        if state == "ENDED":
            start = submit + draw(st.integers(0, 100))
            end = min(start + draw(st.integers(1, 900)), NOW)
            ending = draw(st.sampled_from(["COMPLETED", "TIMEOUT", "CANCELLED", "NODE_FAIL"]))
            times = {"start_s": start, "end_s": end, "state": ending}
        found.append(
            job_of(
                number,
                user=draw(st.sampled_from(USERS)),
                partition=draw(st.sampled_from(["main", "half"])),
                limit_s=float(draw(st.sampled_from([60, 600, 3600]))),
                submit_s=submit,
                begin_s=submit,
                request=Request(draw(st.integers(1, 8)), partition=None),
                comment=draw(st.sampled_from(["", "ours"])),
                **times,
            )
        )
    return found


@given(jobs(100, "PENDING"), jobs(1, "ENDED"), st.integers(0, 20), st.integers(0, 3))
def test_jobs_stand_by_the_scores_of_the_slow_twin(
    waiting: list[SlurmJob], ended: list[SlurmJob], seed: int, busy: int
) -> None:
    running = job_of(90, state="RUNNING", start_s=NOW - 10, end_s=NOW + 50, submit_s=NOW - 40, begin_s=NOW - 40)
    running = replace(running, allocated={name: (4, 0, 0) for name in NODES[:busy]}, user="eve")
    looks = [
        Look(NOW - 1, a_cluster(), tuple(ended), {}),
        Look(NOW, a_cluster(), (*ended, *([running] if busy else []), *waiting), {}),
    ]
    order = LiveOrder(random_network(seed))
    for look in looks:
        order.learn(look)
    queue = Queue.of(looks[-1])
    places = order.places(looks[-1], queue.jobs, queue.requests)

    # The twin has one list of jobs: those that have ended, the running one, and the waiting ones.
    own = [one for one in ended if one.state != "NODE_FAIL"]
    listed = [*own, running, *queue.jobs]
    asked = [{"cores": one.request.tasks or 1} if one.request else {} for one in listed]
    asked[len(own)] = {"cores": 4 * busy}
    twin = SlowScores(asked, {"cores": 24}, [one.limit_s for one in listed], [USERS.index(one.user) for one in listed])
    assert UNKNOWN not in twin.user
    for at in sorted(range(len(own)), key=lambda at: (own[at].start_s, own[at].number)):
        twin.started(own[at].start_s - own[at].submit_s)
    for at in sorted(range(len(own)), key=lambda at: (own[at].end_s, own[at].number)):
        twin.ended(at, own[at].end_s - own[at].start_s)
    if busy:
        twin.started(30.0)
    first = len(own) + 1
    joined = {first + at: one.submit_s for at, one in enumerate(queue.jobs)}
    scores = twin.scores(order.network, NOW, joined, [len(own)] if busy else [])
    expected = sorted(range(len(queue.jobs)), key=lambda at: (scores[first + at], at))
    found = [scores[first + place] for place in places.tolist()]
    assert found == pytest.approx([scores[first + at] for at in expected])


@pytest.mark.parametrize("is_down", [True, False])
def test_a_job_that_wants_its_nodes_alone_is_scored_while_it_may_have_none(is_down: bool) -> None:
    alone = Request(2, partition="half", is_exclusive=True)
    waiting = (job_of(1, partition="half", request=alone), job_of(2, limit_s=60.0))
    away = dict.fromkeys(NODES[:3], "down") if is_down else {}
    closures = () if is_down else (Closure(NOW - 10, NOW + 9000, NODES[:3]),)
    look, order = Look(NOW, a_cluster(), waiting, away, closures), LiveOrder(random_network(0))
    queue = Queue.of(look)
    assert not queue.requests[0].masks.any()
    assert sorted(order.places(look, queue.jobs, queue.requests).tolist()) == [0, 1]
    ordered = queue.taken([1, 0])
    assert expected_savings(look, queue, ordered, order) is None


@given(jobs(100, "PENDING"), st.randoms())
def test_others_keep_their_places_and_ours_exchange_theirs_within_a_partition(
    waiting: list[SlurmJob], random: np.random.RandomState
) -> None:
    is_ours = [job.comment == "ours" for job in waiting]
    places = list(range(len(waiting)))
    random.shuffle(places)
    found = exchanged(waiting, is_ours, np.array(places))
    assert sorted(found) == list(range(len(waiting)))
    for at, place in enumerate(found):
        assert waiting[place].partition == waiting[at].partition
        assert is_ours[place] == is_ours[at]
        assert is_ours[at] or place == at
    for partition in ("main", "half"):
        ours = [place for place in found if is_ours[place] and waiting[place].partition == partition]
        assert ours == [place for place in places if place in ours]


@given(jobs(100, "PENDING"), st.randoms(), st.lists(st.integers(-3, 3), min_size=6, max_size=6))
def test_jobs_that_get_their_nice_values_stand_in_the_order_asked_for(
    waiting: list[SlurmJob], random: np.random.RandomState, own: list[int]
) -> None:
    waiting = [
        replace(job, nice=nice, priority=job.priority // 3 - nice) for job, nice in zip(waiting, own, strict=False)
    ]
    random.shuffle(waiting)
    placed = []
    for job in waiting:
        nice = dict(nice_of(waiting)).get(job.id, (job, job.nice))[1]
        mark = f"allocopt,by=1,nice={job.nice}"
        placed.append(replace(job, nice=nice, priority=job.priority + job.nice - nice, admin_comment=mark))
    for partition in ("main", "half"):
        wanted = [job.id for job in placed if job.partition == partition]
        by_slurm = sorted(
            (job for job in placed if job.partition == partition), key=lambda job: (-job.priority, job.number)
        )
        assert [job.id for job in by_slurm] == wanted
        # Nobody gets ahead of what the best of them had.
        own_values = [job.own_priority for job in placed if job.partition == partition]
        assert max((job.priority for job in by_slurm), default=0) <= max(own_values, default=0)
    assert nice_of(placed) == {}
    assert [job.own_nice for job in placed] == [job.nice for job in waiting]


def test_a_negative_nice_value_is_read_in_both_ways_of_writing() -> None:
    told = {"job_id": 1, "job_state": "PENDING", "nice": 4_294_967_285}
    assert slurm_job(told).nice == -11
    assert slurm_job(told | {"nice": -11}).nice == -11
    assert slurm_job(told | {"nice": {"set": True, "infinite": False, "number": 5}}).nice == 5


def test_only_jobs_that_opted_in_are_ordered() -> None:
    # By limits the last one would stand first, but the second is not ours.
    limits = {1: 600.0, 2: 300.0, 3: 60.0}
    waiting = [job_of(number, limit_s=limit, comment="" if number == 2 else "ours") for number, limit in limits.items()]
    look = Look(NOW, a_cluster(), tuple(waiting), {})
    queue = queue_of(look, LiveOrder(network_named("evolved-formula")), lambda job: job.comment == "ours")
    assert [job.id for job in queue.jobs] == ["3", "2", "1"]


def test_orders_that_do_not_score_are_refused() -> None:
    assert network_named("evolved-priority", {"weights": "fair"}).shape == (N_FEATURES + 2, 9)
    for name in ("wfp3", "easy", "window"):
        with pytest.raises(UsageError, match="give evolved-priority or evolved-formula"):
            network_named(name)


def test_jobs_without_a_limit_have_scores_too() -> None:
    waiting = [job_of(1, limit_s=np.inf), job_of(2, limit_s=0.0)]
    queue = queue_of(
        Look(NOW, a_cluster(), tuple(waiting), {}), LiveOrder(network_named("evolved-formula")), lambda _: True
    )
    assert [job.id for job in queue.jobs] == ["2", "1"]
