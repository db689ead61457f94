"""Rows that say what decides claims that do not come out are those of simulations at these loads and lengths."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.artifacts import ours, rows_of
from support.workloads import busy_days

from allocopt.reproduction import ReproductionRequest, ReproductionRow
from allocopt.traces.text import Swf
from allocopt.traces.weekly_cycle import DAY_S, WEEK_DAYS
from allocopt.traces.workload import Workload
from allocopt.training import Training, get_training
from papers.artifact import Asked
from papers.dras import reasons, rewards
from papers.dras.configuration import THETA, Site
from papers.dras.figures import LARGE_SHARE

WEEK_S = WEEK_DAYS * DAY_S


def month(site: Site) -> Workload:
    """Jobs of four weeks, some of a quarter of the machine and more."""
    jobs = busy_days(3, 500, 28, 100, site.trace_name, 0.12)
    sizes = np.maximum(np.minimum(2 * jobs.processors, 100) * site.processors // 100, 1)
    return replace(jobs, processors=sizes, machine_processors=site.processors)


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Return a quick request for Theta with jobs drawn like those of a small trace."""
    monkeypatch.setattr(reasons, "trace_of", lambda site, asked: month(site))
    return Asked(tmp_path, True, (0,))


def test_spans_have_their_load_and_length_and_are_no_others(asked: Asked) -> None:
    spans = reasons._spans(THETA, asked, 0.85, 2, 3)
    assert len({span.name for span in spans}) == 3
    for span in spans:
        area = float((np.minimum(span.run, span.estimate) * span.processors).sum())
        assert area / (2 * WEEK_S * THETA.processors) == pytest.approx(0.85, abs=0.05)
        assert span.submit.max() < 2 * WEEK_S
    others = {span.name for weeks in reasons.WEEKS for span in reasons._spans(THETA, asked, 0.85, weeks, 2)}
    assert len(others) == 2 * len(reasons.WEEKS)


def test_a_record_of_a_load_has_shares_and_waits(asked: Asked) -> None:
    record = reasons._record(asked, "load 0.85: FCFS/B")
    columns = record["columns"]
    assert 0 <= columns["backfilled, jobs %"] <= 100
    assert columns["ready, core hours %"] + columns["reserved, core hours %"] <= 100.001
    (span,) = reasons._spans(THETA, asked, 0.85, 1, 1)
    assert record["n"] == len(span)
    assert (span.processors >= LARGE_SHARE * THETA.processors).any()
    busier = reasons._record(asked, "load 1.1: FCFS/B")["columns"]
    assert busier["other jobs, max wait h"] >= columns["other jobs, max wait h"]


def test_ratios_are_paired_by_span() -> None:
    def spans(*waits: float) -> dict[str, object]:
        return {"spans": [{"mean wait h": wait, "max wait h": 2 * wait} for wait in waits]}

    records = {"weeks 4: FCFS/B": spans(2.0, 4.0), "weeks 4: Optimization": spans(1.0, 6.0)}
    numbers = [ReproductionRow("x", **number._asdict()) for number in reasons._numbers(records)]
    rows = {(number.row, number.column): number for number in numbers}
    assert ours(rows, "weeks 4: Optimization", "mean wait / FCFS/B") == pytest.approx((0.5 + 1.5) / 2)
    assert ours(rows, "weeks 4: FCFS/B", "max wait / FCFS/B, from") == 1.0
    assert ours(rows, "weeks 4: Optimization", "mean wait h") == 3.5


@pytest.mark.slow
def test_an_agent_is_trained_for_the_reward_of_its_row(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    jobs, seen = month(THETA), []
    (asked.data / "traces").mkdir()
    plain = asked.data / "trace.swf"
    Swf().write(plain, jobs)
    (asked.data / THETA.trace).write_bytes(gzip.compress(plain.read_bytes()))

    def noted(name: str, options: dict[str, object]) -> Training:
        seen.append(options)
        return get_training(name, {**options, "environments": 2, "validation": 1, "every": 1})

    monkeypatch.setattr(rewards, "get_training", noted)
    rows = rows_of("dras-rewards", ReproductionRequest(asked.data, True, (0,)), only="Eq. 1 alone: DRAS-PG")
    assert [(options["paper"], options["mean_wait"]) for options in seen] == [(1.0, 0.0)]
    row = "Eq. 1 alone: DRAS-PG"
    longest = max(ours(rows, row, f"{jobs} jobs, max wait h") for jobs in ("large", "other"))
    assert longest >= ours(rows, row, "mean wait h") >= 0
