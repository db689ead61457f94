"""Guests in the simulator: whose units they use, whose they get, and models whose speeds change by themselves."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pytest

from allocopt.cluster.platform import Platform
from allocopt.simulator.execution import Change
from allocopt.simulator.metrics import measure
from allocopt.simulator.placement import Guest
from allocopt.simulator.rules import Rules
from allocopt.simulator.scheduler import Decision, PlaceGuest, SchedulerError, SetQuota, Start
from allocopt.simulator.simulate import simulate
from allocopt.simulator.view import View
from allocopt.traces.workload import Workload

UNLIMITED = Rules(kill_at_limit=False)


class Halves:
    """Everybody has exactly the share of its units that its quota says."""

    def speeds(self, change: Change) -> Iterator[tuple[int, float]]:
        shares = dict.fromkeys(change.running.tolist(), 1.0)
        for host, guest in change.guests.items():
            shares[host], shares[guest.job] = 1 - guest.percent / 100, guest.percent / 100
        return iter(shares.items())


@dataclass
class Script:
    """Decides what is written down for a time, and notes what it sees."""

    lines: dict[float, list[Decision]]
    seen: list[tuple[float, int, dict[int, Guest]]] = field(default_factory=list)

    name = "script"

    def schedule(self, view: View) -> Iterator[Decision]:
        yield from self.lines.get(view.now, [])
        self.seen.append((view.now, view.free_processors, dict(view.guests)))


def jobs_of(*jobs: tuple[int, float]) -> Workload:
    """Return jobs of so many processors and seconds, all submitted at once."""
    processors, run = zip(*jobs, strict=True)
    times = np.array(run)
    return Workload("jobs", np.arange(1, len(jobs) + 1), np.zeros(len(jobs)), times, np.array(processors), times)


def test_a_guest_uses_its_hosts_units_and_then_holds_its_own() -> None:
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 50)], 20.0: [Start(2)]})
    done = simulate(jobs_of((8, 10.0), (4, 30.0), (4, 5.0)), 8, script, UNLIMITED, execution=Halves())
    # Half a second of work per second for 20 s, then the guest's other 20 s alone on the four that it asked for.
    assert done.end.tolist() == [20.0, 40.0, 25.0]
    assert script.seen == [(0.0, 0, {0: Guest(1, 50)}), (20.0, 0, {}), (25.0, 4, {}), (40.0, 8, {})]


def test_a_host_whose_guest_ends_has_all_its_units_again() -> None:
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 20), SetQuota(0, 50)], 20.0: [PlaceGuest(2, 0, 75)]})
    done = simulate(jobs_of((8, 40.0), (8, 10.0), (1, 15.0)), 8, script, UNLIMITED, execution=Halves())
    assert done.end.tolist() == [20.0 + 20.0 + 25.0, 20.0, 40.0]
    assert script.seen[-1] == (65.0, 8, {})


def test_host_and_guest_that_end_together_give_back_all_units_once() -> None:
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 50)], 20.0: [Start(2)]})
    done = simulate(jobs_of((8, 10.0), (8, 10.0), (8, 1.0)), 8, script, UNLIMITED, execution=Halves())
    assert done.end.tolist() == [20.0, 20.0, 21.0]
    assert script.seen[-1] == (21.0, 8, {})


class Weather:
    """All jobs stand still every other ten seconds."""

    def __init__(self) -> None:
        self.now = 0.0

    def speeds(self, change: Change) -> Iterator[tuple[int, float]]:
        self.now = change.now
        return ((job, float(change.now % 20 < 10)) for job in change.running.tolist())

    def next_change(self) -> float:
        return 10 * (self.now // 10 + 1)


def test_speeds_of_a_staged_model_change_between_events() -> None:
    weather = Weather()
    script = Script({0.0: [Start(0)], 10.0: [Start(1)]})
    done = simulate(jobs_of((1, 25.0), (1, 5.0)), 2, script, UNLIMITED, execution=weather)
    assert done.end.tolist() == [45.0, 25.0]
    assert [now for now, _, _ in script.seen] == [0.0, 10.0, 20.0, 25.0, 30.0, 40.0, 45.0]


@dataclass
class Stuck:
    """Says that speeds change at a time, which may have passed."""

    at: float
    name = "stuck"

    def speeds(self, change: Change) -> Iterator[tuple[int, float]]:
        return iter(())

    def next_change(self) -> float:
        return self.at


@pytest.mark.parametrize("at", [-1.0, 0.0, float("nan")])
def test_a_model_that_goes_back_in_time_is_named(at: float) -> None:
    with pytest.raises(SchedulerError, match=f"stuck changes speeds at {at:g} s, which is not after 0 s"):
        simulate(jobs_of((1, 25.0)), 2, "fcfs", UNLIMITED, execution=Stuck(at))


@pytest.mark.parametrize("platform", [Platform.whole_nodes(8), Platform.pool(8)], ids=["nodes", "pool"])
def test_guests_need_a_pool_and_a_model_for_them(platform: Platform) -> None:
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 50)]})
    execution = Halves() if platform.has_nodes else None
    with pytest.raises(SchedulerError, match="script shares units: that needs a pool, and an execution model for it"):
        simulate(jobs_of((8, 10.0), (4, 30.0)), platform, script, UNLIMITED, execution=execution)


def test_the_machine_is_used_by_who_holds_it_not_by_guests() -> None:
    script = Script({0.0: [Start(0), PlaceGuest(1, 0, 50)]})
    done = simulate(jobs_of((8, 10.0), (4, 30.0)), 8, script, UNLIMITED, execution=Halves())
    assert done.held_from is not None
    assert done.held_from.tolist() == [0.0, 20.0]
    assert measure(done).machine.utilization == (8 * 20 + 4 * 20) / (8 * 40)
