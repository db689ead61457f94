"""The tables and figures of the DRAS paper on small traces, and what they are made of."""

import gzip
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.agents import AGENT_NAMES, write_agent
from support.artifacts import ours, rows_of
from support.workloads import busy_days

from allocopt.errors import BadFileError, UsageError
from allocopt.heuristics.scheduling.queue_orders import FirstComeFirstServed
from allocopt.learned.dras.jobsets import EVALUATION_SEEDS
from allocopt.reproduction import ReproductionRequest, get_reproduction
from allocopt.simulator.rules import Backfill
from allocopt.simulator.scheduler import ListScheduler
from allocopt.simulator.simulate import simulate
from allocopt.traces.text import Swf
from allocopt.traces.variants import Interval
from allocopt.traces.workload import Workload
from papers.artifact import Asked, read_curve
from papers.dras import curves, figures
from papers.dras.configuration import (
    AGENTS,
    GENERIC,
    HELD_OUT,
    LEADER,
    PAPER_METHODS,
    RL_SCHEDULERS,
    RULES,
    SDSC_SP2,
    SITES,
    SYNTHETIC,
    THETA,
    Site,
    jobsets_of,
    schedulers,
    weights_of,
)
from papers.dras.figures import TABLE_FOUR, box_of, kiviat_area, normalized, ranks

DAY_S = 86_400.0


def small_trace(site: Site, days: int, seed: int) -> Workload:
    """Jobs of some weeks at a load of about 0.8."""
    jobs = busy_days(seed, 18 * days, days, 100, site.trace_name, 0.12)
    sizes = np.maximum(np.minimum(2 * jobs.processors, 100) * site.processors // 100, 1)
    return replace(jobs, processors=sizes, machine_processors=site.processors)


@pytest.fixture(scope="module")
def request_for(tmp_path_factory: pytest.TempPathFactory) -> ReproductionRequest:
    """Return a quick request with small traces of the machines' names."""
    data = tmp_path_factory.mktemp("data")
    (data / "traces").mkdir()
    for site, days in ((THETA, 28), (SDSC_SP2, 35)):
        plain = data / "trace.swf"
        Swf().write(plain, small_trace(site, days, days))
        (data / site.trace).write_bytes(gzip.compress(plain.read_bytes()))
    return ReproductionRequest(data, True, (0,))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two trainings of DRAS-PPO and one of every other agent for each machine."""
    folder = tmp_path_factory.mktemp("trained")
    for site, agent in itertools.product(SITES.values(), AGENT_NAMES):
        for seed in (0, 1) if agent == "dras-ppo" else (0,):
            trace = Path(site.trace).name
            write_agent(folder / f"{agent}-{site.weights}-seed-{seed}" / "weights.safetensors", agent, trace, seed)
    several = f"lublin_256_est.swf.gz,{Path(SDSC_SP2.trace).name}"
    write_agent(folder / "dras-ppo-generic-seed-0" / "weights.safetensors", "dras-ppo", several)
    return folder


def asked(request: ReproductionRequest, **options: Any) -> Asked:
    return Asked(request.data, request.is_quick, request.seeds, **options)


def test_the_printed_shares_add_up_but_those_of_one_misprint() -> None:
    for method, shares in TABLE_FOUR.items():
        core_hours, jobs = (
            sum(shares[f"{mode.name.lower()}, {what} %"] for mode in figures.MODES) for what in ("core hours", "jobs")
        )
        assert core_hours == pytest.approx(100, abs=0.02)
        assert jobs == pytest.approx(106.84 if method == "DRAS-DQL" else 100, abs=0.02)


def test_metrics_are_scaled_to_one_for_the_best_and_nothing_for_the_worst() -> None:
    names = ("mean wait h", "max wait h", "mean response h", "mean slowdown", "utilization")
    values = {
        "a": dict(zip(names, (1.0, 30.0, 5.0, 2.0, 0.9), strict=True)),
        "b": dict(zip(names, (3.0, 10.0, 5.0, 4.0, 0.8), strict=True)),
        "c": dict(zip(names, (2.0, 25.0, 5.0, 2.5, 0.7), strict=True)),
    }
    scaled = normalized(values)
    assert list(scaled["a"].values()) == [1.0, 0.0, 1.0, 1.0, 1.0]
    assert list(scaled["b"].values()) == pytest.approx([0.0, 1.0, 1.0, 0.0, 0.5])
    assert list(scaled["c"].values()) == pytest.approx([0.5, 0.25, 1.0, 0.75, 0.0])


def test_the_area_of_a_kiviat_graph_is_that_of_its_polygon() -> None:
    axes = np.array([0.3, 1.0, 0.0, 0.7, 0.5])
    angles = 2 * np.pi * np.arange(5) / 5
    x, y = axes * np.cos(angles), axes * np.sin(angles)
    shoelace = abs((x * np.roll(y, -1) - y * np.roll(x, -1)).sum()) / 2
    assert kiviat_area(axes.tolist()) == pytest.approx(shoelace / (5 * np.sin(2 * np.pi / 5) / 2))
    assert kiviat_area([1.0] * 5) == 1.0
    assert ranks({"a": 0.5, "b": 0.9, "c": 0.5}) == {"a": 2, "b": 1, "c": 2}


def test_boxes_are_in_hours_and_may_be_empty() -> None:
    box = box_of(3600.0 * np.array([4.0, 0.0, 1.0, 3.0, 2.0]))
    assert box == {"n": 5, "min": 0.0, "q1": 1.0, "median": 2.0, "q3": 3.0, "max": 4.0, "mean": 2.0}
    assert box_of(np.zeros(0)) == {"n": 0}


@pytest.mark.slow
def test_figure_seven_holds_every_method_against_first_come_first_served(
    request_for: ReproductionRequest, trained: Path
) -> None:
    place = "Theta, held-out"
    rows = rows_of("dras-figure7", request_for, only=place, trained=str(trained))
    assert {row for row, _ in rows} == {f"{place}: {method}" for method in (*PAPER_METHODS, *RULES)}
    jobs = jobsets_of(THETA, HELD_OUT, asked(request_for))[0]
    assert (jobs.submit < 7 * DAY_S).all()
    waited = simulate(jobs, 4_360, ListScheduler(FirstComeFirstServed(), Backfill.EASY)).job_times.wait_s / 3600
    assert ours(rows, f"{place}: FCFS/B", "mean wait h") == pytest.approx(waited.mean())
    assert ours(rows, f"{place}: FCFS/B", "max wait h") == pytest.approx(waited.max())
    ppo = rows[f"{place}: DRAS-PPO", "mean wait / FCFS/B"]
    assert ppo.ours == pytest.approx(ours(rows, f"{place}: DRAS-PPO", "mean wait h") / waited.mean())
    assert ppo.n == 2
    assert ppo.spread is not None
    areas = {method: ours(rows, f"{place}: {method}", "area") for method in PAPER_METHODS}
    first = [method for method in PAPER_METHODS if ours(rows, f"{place}: {method}", "rank") == 1]
    assert first == [max(areas, key=lambda method: areas[method])]
    assert all(0 <= area <= 1 for area in areas.values())
    assert (f"{place}: SJF/B", "area") not in rows
    assert 1 <= ours(rows, f"{place}: SJF/B", "rank, all methods") <= len({*PAPER_METHODS, *RULES})


def test_evaluations_see_the_weeks_that_trainings_refuse(request_for: ReproductionRequest) -> None:
    for site in SITES.values():
        weeks = jobsets_of(site, SYNTHETIC, asked(request_for))
        assert [jobs.name for jobs in weeks] == [f"synthetic-{seed}-0" for seed in EVALUATION_SEEDS[: len(weeks)]]
        for jobs in weeks:
            area = (np.minimum(jobs.run, jobs.estimate) * jobs.processors).sum()
            assert area / (7 * DAY_S * site.processors) == pytest.approx(0.85, abs=0.03)


def test_the_classes_of_figure_eight_have_all_jobs(request_for: ReproductionRequest, trained: Path) -> None:
    rows = rows_of("dras-figure8", request_for, only="held-out", trained=str(trained))
    for method in PAPER_METHODS:
        longest = {row: found for (row, column), found in rows.items() if column == "wait h, max" and method in row}
        total = longest.pop(f"held-out: {method}, all sizes")
        mine = [found for row, found in longest.items() if row.startswith(f"held-out: {method}, ")]
        assert total.ours == max(found.ours or 0.0 for found in mine)
        assert total.n == sum(found.n for found in mine)
        assert total.published == (None if method.startswith("DRAS") or method == "Optimization" else total.published)
    assert rows["held-out: Random, all sizes", "wait h, max"].published == 170 * 24


@pytest.mark.slow
def test_the_modes_of_table_four_and_figure_nine_have_all_jobs(request_for: ReproductionRequest, trained: Path) -> None:
    table = rows_of("dras-table4", request_for, only="held-out", trained=str(trained))
    boxes = rows_of("dras-figure9", request_for, only="held-out", trained=str(trained))
    for method in PAPER_METHODS:
        piece = f"held-out: {method}"
        for column in ("jobs", "core hours", "core hours of large jobs"):
            shares = [ours(table, piece, f"{mode}, {column} %") for mode in ("backfilled", "ready", "reserved")]
            assert sum(shares) == pytest.approx(100)
        assert ours(table, piece, "started after the promised time") == 0
        counts = {row: found.n for (row, _), found in boxes.items() if row.startswith(f"{piece}, ")}
        n = table[piece, "ready, jobs %"].n
        assert sum(counts.values()) == n
        ready = 100 * counts.get(f"{piece}, ready", 0) / n
        assert ours(table, piece, "ready, jobs %") == pytest.approx(ready)
    assert ours(table, "held-out: Decima-PG", "ready, core hours %") == 100
    assert ours(table, "held-out: FCFS/B", "reserved, core hours %") > 0
    assert table["held-out: DRAS-PPO", "reserved, core hours %"].published == 48.03


def test_first_come_first_served_by_modes_is_easy_backfilling(request_for: ReproductionRequest, trained: Path) -> None:
    boxes = rows_of("dras-figure9", request_for, only="held-out: FCFS/B", trained=str(trained))
    total = sum(
        (ours(boxes, row, column)) * found.n for (row, column), found in boxes.items() if column == "wait h, mean"
    )
    jobs = jobsets_of(THETA, HELD_OUT, asked(request_for))[0]
    waited = simulate(jobs, 4_360, ListScheduler(FirstComeFirstServed(), Backfill.EASY)).job_times.wait_s
    assert total * 3600 == pytest.approx(waited.sum())


def test_a_surge_shortens_gaps_and_shifts_what_follows() -> None:
    submit = np.array([0.0, 50.0, 100.0, 140.0, 200.0, 260.0])
    assert figures.compressed(submit, 100.0, 200.0).tolist() == [0.0, 50.0, 100.0, 130.0, 175.0, 235.0]


def test_figure_ten_goes_through_a_surge_and_means_over_seeds(
    request_for: ReproductionRequest, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ("FCFS/B", figures.STATIC)
    monkeypatch.setattr(figures, "SURGE_METHODS", methods)
    rows = rows_of("dras-figure10", replace(request_for, seeds=(0, 1)), trained=str(trained))
    for seed, method in itertools.product((0, 1), methods):
        jobs, limits = figures.surge(asked(request_for), seed)
        in_surge = (jobs.submit >= limits[0]) & (jobs.submit < limits[0] + 0.75 * (limits[1] - limits[0]))
        row = f"seed {seed}: {method}"
        assert rows[f"{row}, surge", "mean wait h"].n == in_surge.sum()
        assert rows[f"{row}, all weeks", "max wait h"].n == len(jobs)
        by_week = [ours(rows, f"{row}, week {week}", "max wait h") for week in range(1, 5)]
        assert max(by_week) == ours(rows, f"{row}, all weeks", "max wait h")
        assert ours(rows, f"{row}, week 3", "load") > ours(rows, f"{row}, week 1", "load")
    each = [ours(rows, f"seed {seed}: FCFS/B, surge", "max wait h") for seed in (0, 1)]
    mean = rows["all seeds: FCFS/B, surge", "max wait h"]
    assert each[0] != each[1]
    assert (mean.ours, mean.spread) == pytest.approx((np.mean(each), np.std(each, ddof=1)))
    static = [ours(rows, f"seed {seed}: {figures.STATIC}, surge", "max wait h") for seed in (0, 1)]
    pair = f"pairs: {figures.STATIC} / FCFS/B, surge"
    ratios = np.array(static) / each
    found = [ours(rows, pair, f"max wait{end}") for end in ("", ", from", ", to")]
    assert found == pytest.approx([*Interval.of(ratios)])
    assert rows[pair, "max wait"].n == 2


@pytest.mark.slow
def test_the_dynamic_agent_learns_in_the_surge(
    request_for: ReproductionRequest, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(figures, "SURGE_METHODS", (figures.GATED, figures.UNGATED))
    rows = rows_of("dras-figure10", request_for, trained=str(trained))
    for method, always in ((figures.GATED, False), (figures.UNGATED, True)):
        trained_times, changed = (ours(rows, f"seed 0: {method}", f"times {what}") for what in ("trained", "changed"))
        assert trained_times >= max(changed, 2)
        assert changed == trained_times or not always


def test_figure_eleven_takes_the_agent_of_several_machines(request_for: ReproductionRequest, trained: Path) -> None:
    rows = rows_of("dras-figure11", request_for, only="SDSC-SP2, held-out", trained=str(trained))
    found = {row: rows[row, "mean wait h"] for row, column in rows if column == "mean wait h"}
    by_method = {row.split(": ")[1]: cell.n for row, cell in found.items()}
    assert {method: by_method.pop(method) for method in RL_SCHEDULERS} == dict.fromkeys(RL_SCHEDULERS, 1)
    assert by_method == {
        "FCFS/B": 1,
        "DRAS-PG": 1,
        "DRAS-PPO, customized": 2,
        "DRAS-PPO, generic": 1,
    }


@pytest.mark.slow
def test_rewards_at_the_end_are_those_of_the_environment(request_for: ReproductionRequest, trained: Path) -> None:
    pytest.importorskip("torch")
    rows = rows_of("dras-figure6-rewards", request_for, trained=str(trained))
    assert {row for row, _ in rows} == {f"at the end: {method}" for method in PAPER_METHODS}
    for row, _ in rows:
        # These trainings say that they were for Eq. 1 alone.
        total = ours(rows, row, "reward by Eq. 1")
        assert ours(rows, row, "reward as trained") == pytest.approx(total)
        assert sum(ours(rows, row, f"of which {term}") for term in curves.TERMS) == pytest.approx(total)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dras-figure5", "dras-figure6"])
def test_learning_curves_have_points_of_every_training(
    name: str, request_for: ReproductionRequest, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(curves, "QUICK_UPDATES", 2)
    monkeypatch.setattr(curves, "trainings", lambda folder, agent, site: [])
    rows = rows_of(name, request_for, only="seed 0", trained=str(trained))
    labels = set(curves.ORDERS) if name == "dras-figure5" else set(AGENTS)
    assert {row.split(": ")[1] for row, _ in rows} == labels
    for row, column in rows:
        if column == "best score":
            assert ours(rows, row, column) <= ours(rows, row, "score at update 2")


def test_curves_of_trainings_in_the_folder_are_read(tmp_path: Path) -> None:
    header = ["update", "samples", *curves.MEASURES]
    lines = [
        [str(value) for value in (update, 10 * update, -update, 0.9, 1.1, 2.0 - update / 10)] for update in (1, 2, 3)
    ]
    (tmp_path / "curve.csv").write_text("\n".join(",".join(line) for line in (header, *lines)) + "\n")
    record = curves.curve_record(read_curve(tmp_path / "curve.csv"))
    rows = {number.column: number.ours for number in curves.curve_numbers("y", record)}
    assert rows["total_reward at update 3"] == -3
    assert (rows["best score"], rows["update of the best score"]) == (pytest.approx(1.7), 3)


def test_trainings_are_found_by_agent_and_trace(trained: Path) -> None:
    weights = weights_of(str(trained), LEADER, THETA)
    assert [Path(path).parent.name for path in weights] == ["dras-ppo-theta-seed-0", "dras-ppo-theta-seed-1"]
    assert [Path(path).parent.name for path in weights_of(str(trained), GENERIC, THETA)] == ["dras-ppo-generic-seed-0"]
    assert len(schedulers(LEADER, SDSC_SP2, Asked(trained, True, (0,), str(trained)))) == 2
    assert len(schedulers("Random", SDSC_SP2, Asked(trained, True, (0, 1, 2)))) == 3


@pytest.mark.parametrize(("options", "error"), [({"trained": "nowhere"}, BadFileError), ({"train": "x"}, UsageError)])
def test_options_that_make_no_sense_are_refused(
    options: dict[str, Any], error: type[Exception], request_for: ReproductionRequest
) -> None:
    with pytest.raises(error):
        get_reproduction("dras-figure7", options).pieces(request_for)


def test_a_trace_that_was_cut_is_named(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    Swf().write(tmp_path / "trace.swf", small_trace(THETA, 6, 1))
    (tmp_path / THETA.trace).write_bytes(gzip.compress((tmp_path / "trace.swf").read_bytes()))
    request = ReproductionRequest(tmp_path, True, (0,))
    with pytest.raises(
        BadFileError, match=r"Theta-2018-01\.swf\.gz: holds 6 days of jobs, must hold at least three weeks"
    ):
        get_reproduction("dras-figure8").measure(request, "held-out: FCFS/B")
