"""Expert trees: every state is in one leaf, and a table that is wrong is refused by name."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.errors import BadFileError
from allocopt.learned.asax.trees import METRICS, Experts, State
from allocopt.traces.job_profile import StageKind

SHIPPED = Experts.read()
INFINITY = float("inf")


def row(metric: str, condition: Any, happiness: Any = (0.0, INFINITY), p: Any = (0.5, 0.5)) -> dict[str, Any]:
    held = condition if isinstance(condition, str) else list(condition)
    return {metric: held, "happiness": list(happiness), "p": list(p)}


def table(metric: str, *rows: dict[str, Any], actions: Any = (0, 50)) -> dict[str, Any]:
    return {"actions": list(actions), "experts": [{"metric": metric, "rows": list(rows)}]}


EVERYWHERE, LOW = row("cpu", (0.0, 1.0)), row("cpu", (0.0, 0.5))
SAD, HAPPY = row("cpu", (0.0, 1.0), (0.0, 1.0)), row("cpu", (0.0, 1.0), (1.1, INFINITY))
EDGES = st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.75, 1.0])


@st.composite
def states(draw: st.DrawFn) -> State:
    number = EDGES | st.floats(0, 1)
    happiness = draw(st.sampled_from([0.0, 1.0, 1.1, INFINITY]) | st.floats(0, 100))
    kind = draw(st.sampled_from(list(StageKind)))
    return State(draw(number), draw(number), kind, draw(number), happiness)


@given(states())
def test_every_state_has_one_leaf_of_each_shipped_expert(state: State) -> None:
    likely = SHIPPED.probabilities(state)
    assert likely.shape == (4, 10)
    assert likely.sum(axis=1) == pytest.approx([1.0] * 4)
    for expert in SHIPPED.experts:
        leaf = expert.leaf(state)
        assert leaf.happiness[0] <= state.happiness
        assert leaf.condition[0] <= state.value(expert.metric) <= leaf.condition[1]


def test_the_shipped_experts_are_those_of_the_paper() -> None:
    assert SHIPPED.metrics == ("cpu", "memory", "stage", "interval")
    assert list(SHIPPED.actions) == list(range(0, 100, 10))


@given(states())
def test_a_happier_job_gives_no_less_in_the_shipped_table(state: State) -> None:
    quotas = [
        SHIPPED.probabilities(State(state.cpu, state.memory, state.stage, state.interval, happiness)) @ SHIPPED.actions
        for happiness in (0.5, 1.05, 2.0)
    ]
    assert (quotas[0] <= quotas[1] + 1e-9).all()
    assert (quotas[1] <= quotas[2] + 1e-9).all()


def test_a_range_holds_its_lower_end_and_the_largest_value() -> None:
    experts = Experts.of(table("cpu", row("cpu", (0.0, 0.5), p=(1, 0)), row("cpu", (0.5, 1.0), p=(0, 1))), "table.toml")
    states = [State(cpu, 0, StageKind.PARALLEL, 0, 1.0) for cpu in (0.0, 0.49, 0.5, 1.0, 1.7)]
    assert [experts.probabilities(state)[0, 1] for state in states] == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("held", "fault"),
    [
        (table("cpu", row("cpu", (0.0, 1.0), p=(0.5, 0.4))), "expert 'cpu', row 1: p sums to 0.9, must sum to 1"),
        (table("cpu", row("cpu", (0.0, 1.0), p=(1.5, -0.5))), "expert 'cpu', row 1: p must hold 2 numbers >= 0"),
        (table("cpu", row("cpu", (0.0, 1.0), p=(1.0,))), "expert 'cpu', row 1: p must hold 2 numbers"),
        (table("cpu", LOW, row("cpu", (0.6, 1.0))), "expert 'cpu': no row covers cpu 0.5 .. 0.6, happiness 0 .. "),
        (table("cpu", LOW), "expert 'cpu': no row covers cpu 0.5 .. 1"),
        (table("cpu", LOW, row("cpu", (0.4, 1.0))), "expert 'cpu': 2 rows cover cpu 0.4 .. 0.5"),
        (table("cpu", SAD, HAPPY), "expert 'cpu': no row covers cpu 0 .. 1, happiness 1 .. 1.1"),
        (
            table("stage", row("stage", "parallel")),
            "expert 'stage': no row covers stage sequential, happiness 0 .. inf",
        ),
        (table("stage", row("stage", "odd")), "expert 'stage', row 1: stage is 'odd'"),
        (table("cpu", row("cpu", (0.5, 0.5))), "expert 'cpu', row 1: cpu must be a range [low, high] within 0 .. 1"),
        (table("cpu", row("cpu", (0.0, 1.0), (2.0, 1.0))), "expert 'cpu', row 1: happiness must be a range"),
        (table("cpu", {"cpu": [0, 1], "p": [1, 0]}), "expert 'cpu', row 1: must have the keys cpu, happiness and p"),
        (table("cpu"), "expert 'cpu': has no rows"),
        (table("speed", EVERYWHERE), "experts[0].metric: is 'speed', must be one of cpu, memory, interval, stage"),
        ({**table("cpu", EVERYWHERE), "actions": [10, 50]}, "actions: are [10, 50], must rise from 0"),
        ({**table("cpu", EVERYWHERE), "actions": [0, 95]}, "actions: are [0, 95], must rise from 0 to at most 90"),
        (
            {**table("cpu", EVERYWHERE), "actions": [0, 0.5]},
            "actions: is a list, must be a list of whole numbers, in percent",
        ),
        ({"actions": [0, 50]}, "experts: is missing or empty"),
        ({"actions": [0, 50], "experts": table("cpu", EVERYWHERE)["experts"] * 2}, "experts: the metric 'cpu' has two"),
    ],
)
def test_a_wrong_table_is_refused_by_name(held: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadFileError) as caught:
        Experts.of(held, "table.toml")
    assert str(caught.value).startswith(f"table.toml: {fault}")


def test_a_site_can_write_its_own_table(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'actions = [0, 30]\n[[experts]]\nmetric = "interval"\n'
        "rows = [{ interval = [0, 1], happiness = [0, inf], p = [0.25, 0.75] }]\n",
        encoding="utf-8",
    )
    experts: Experts = Experts.read(path)
    assert experts.actions == (0, 30)
    assert experts.probabilities(State(0, 0, StageKind.PARALLEL, 0.3, 1.0)).tolist() == [[0.25, 0.75]]
    for text, fault in (("[0", "is not TOML"), ("[" * 3000, "is not TOML"), ("9" * 5000, "is not TOML: .*digits")):
        path.write_text(f"actions = {text}", encoding="utf-8")
        with pytest.raises(BadFileError, match=rf"mine\.toml: .*{fault}"):
            Experts.read(path)


def test_the_metrics_are_those_of_a_state() -> None:
    assert {*METRICS, "happiness"} == set(State.__dataclass_fields__)
