"""Solvers by name, the package's own and those of other packages."""

import importlib.metadata
from pathlib import Path

import pytest
from support.sweeps import plug_in
from support.windows import window

from allocopt.cluster.topology import FatTree
from allocopt.errors import UsageError
from allocopt.problems.kind import kind_names
from allocopt.solving import protocol
from allocopt.solving.protocol import get_solver, solver_names
from allocopt.solving.solve import solve

PLUGIN = """
import numpy as np
from allocopt.topology import Allocation, OneShot, Strategy


class LastNodes(OneShot):
    name = "last-nodes"
    strategies = frozenset({Strategy.SCAS, Strategy.DCAS, Strategy.FREE})

    def allocate(self, problem, rng):
        ends = len(problem.idle_nodes) - np.cumsum(problem.sizes) + problem.sizes
        return Allocation(tuple(problem.idle_nodes[end - n : end] for end, n in zip(ends, problem.sizes)))
"""


def test_names_are_sorted_and_hold_the_packages_own() -> None:
    names = solver_names()
    assert names == sorted(set(names))
    assert {"sequential", "best-fit", "greedy", "annealing", "dp", "auto", "simanneal"} <= set(names)


@pytest.mark.parametrize(
    ("wrong", "answer"),
    [
        ("greedi", r"; did you mean 'greedy'\? Installed: .*sequential"),
        ("qqq", r"\. Installed: annealing, "),
    ],
)
def test_an_unknown_name_is_answered_by_the_nearest_and_by_all(wrong: str, answer: str) -> None:
    with pytest.raises(UsageError, match=rf"no solver '{wrong}'{answer}"):
        get_solver(wrong)


def test_options_reach_the_solver() -> None:
    solver = get_solver("annealing", {"steps": 17, "most_removed": 2})
    assert (solver.steps, solver.most_removed, solver.hottest) == (17, 2, 5.0)  # type: ignore[attr-defined]


def test_an_unknown_option_is_answered_by_those_there_are() -> None:
    with pytest.raises(
        UsageError, match="'annealing' has no option 'setps'; it has: hottest, coldest, steps, most_rem"
    ):
        get_solver("annealing", {"setps": 1})
    with pytest.raises(UsageError, match="'greedy' has no option 'x'; it has: none"):
        get_solver("greedy", {"x": 1})


def test_a_solver_of_another_package_is_found_and_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "last_nodes_plugin.py").write_text(PLUGIN, encoding="utf-8")
    plug_in(tmp_path, package="last-nodes", **{"last-nodes": "last_nodes_plugin:LastNodes"})
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "last-nodes" in solver_names()
    problem = window(FatTree(2, 2, 2), range(8), [2, 3])
    result = solve(problem, strategy="scas", solver="last-nodes")
    assert [nodes.tolist() for nodes in result.solution.nodes] == [[6, 7], [3, 4, 5]]
    assert result.solver == "last-nodes"


def test_the_distribution_lists_what_the_registry_lists() -> None:
    entries = importlib.metadata.distribution("allocopt").entry_points
    for kind in kind_names():
        own = {entry.name for entry in entries.select(group=f"{protocol.GROUP}.{kind}")}
        assert own
        assert own <= set(solver_names(kind))


@pytest.mark.parametrize(
    ("solver", "options", "kind"),
    [
        ("annealing", {"steps": 1.5}, "int"),
        ("annealing", {"hottest": "abc"}, "float"),
        ("scip-paper", {"cancel": 5}, "bool"),
        ("nsa", {"network": 5}, "str"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(solver: str, options: dict[str, object], kind: str) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=rf"option '{name}' of solver '{solver}' is .*must be of type {kind}"):
        get_solver(solver, options)


def test_a_whole_number_may_stand_for_a_float() -> None:
    assert type(get_solver("annealing", {"hottest": 3}).hottest) is float  # type: ignore[attr-defined]
