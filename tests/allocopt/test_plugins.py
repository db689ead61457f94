"""Plug-ins that are broken, print, exit or take our names are named in one line and hurt nobody else."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.sweeps import plug_in
from support.windows import window

from allocopt.cli import doctor, solvers
from allocopt.cli.main import main
from allocopt.cluster.topology import FatTree
from allocopt.errors import PluginError, PluginWarning, UsageError, WrongAnswerError
from allocopt.problems.kind import working_kinds
from allocopt.simulator.scheduler import get_policy
from allocopt.solving.protocol import get_solver
from allocopt.solving.solve import solve

PROBLEM = window(FatTree(2, 2, 2), range(8), [2, 3])
SOLVER = """
import numpy as np
from allocopt.topology import Allocation, OneShot, TopologySolver


class Part(OneShot):
    name = "{name}"

    def allocate(self, problem, rng):
        {body}
"""
ALLOCATES = "return Allocation(tuple(np.split(problem.idle_nodes[:5], [2])))"
BROKEN = {
    "syntax": ("class", "SyntaxError: invalid syntax"),
    "raises": ("raise ValueError('at\\nimport')", r"ValueError: at\nimport"),
    "exits": ("import sys\nsys.exit(0)", "SystemExit: 0"),
    "abstract": ("from allocopt.topology import TopologySolver as Part", "TypeError: Can't instantiate abstract class"),
    "misspelled": ("", "AttributeError: module 'plug_misspelled' has no attribute 'Part'"),
    "nothing": ("class Part: pass", "it has no name"),
    "number": ("Part = 3", "must be a class"),
    "unnamed": ("raise ModuleNotFoundError('who knows')", "ModuleNotFoundError: who knows"),
}

Plug = Callable[..., None]


@pytest.fixture
def plug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plug:
    """Install a distribution with one solver."""

    def install(name: str, text: str, package: str = "") -> None:
        module = f"plug_{package or name}".replace("-", "_")
        site = tmp_path / module
        plug_in(site, package=module, **{name: f"{module}:Part"})
        (site / f"{module}.py").write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return install


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_solver_is_named_in_one_line_and_hides_no_other(
    plug: Plug, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, fault = BROKEN[name]
    plug(name, text)
    with pytest.raises(PluginError, match=f"solver '{name}'") as caught:
        get_solver(name)
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match=r"solvers that do: .*scip-paper"):
        solve(PROBLEM, strategy="scas", solver="greedy")
    monkeypatch.setattr("allocopt.solving.protocol.solver_names", lambda: [name, "sequential"])
    solvers.command(as_json=True)
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["available"] for row in rows] == [False, True]
    assert rows[0]["largest"] == f"broken: {caught.value}"
    with pytest.raises(Exception, match="1"):
        doctor.command(as_json=True)
    checks = json.loads(capsys.readouterr().out)["solvers"]
    assert checks[name] == f"fails: {caught.value}"
    assert checks["sequential"].startswith("works")


@pytest.mark.parametrize(
    ("body", "kind", "fault"),
    [
        ("raise KeyError('node')", PluginError, "solver 'mine' raised KeyError: 'node'"),
        ("raise SystemExit(0)", PluginError, "solver 'mine' raised SystemExit: 0"),
        ("return Allocation((np.array([0, 99]), np.array([1, 2, 3])))", WrongAnswerError, "solver 'mine' .*node 99"),
        ("return Allocation((np.array([-7, 0]), np.array([1, 2, 3])))", WrongAnswerError, "solver 'mine' .*-7"),
        ("return None", PluginError, "solver 'mine' raised AttributeError"),
    ],
)
def test_what_goes_wrong_in_a_solve_is_the_solvers_fault(
    plug: Plug, body: str, kind: type[Exception], fault: str
) -> None:
    plug("mine", SOLVER.format(name="mine", body=body))
    with pytest.raises(kind, match=fault) as caught:
        solve(PROBLEM, solver="mine")
    assert caught.value.exit_code == 1  # type: ignore[attr-defined]


def test_an_error_of_the_callers_callback_is_the_callers() -> None:
    def stop(incumbent: object) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        solve(PROBLEM, solver="best-fit", on_incumbent=stop)


def test_what_a_plug_in_prints_when_it_is_loaded_goes_to_standard_error(
    plug: Plug, capsys: pytest.CaptureFixture[str]
) -> None:
    plug("prints", "print('hello')\n" + SOLVER.format(name="prints", body=ALLOCATES))
    assert solve(PROBLEM, solver="prints").objective is not None
    assert capsys.readouterr() == ("", "hello\n")


def test_a_plug_in_does_not_take_our_names_and_two_of_one_name_are_refused(plug: Plug) -> None:
    plug("lns", SOLVER.format(name="lns", body=ALLOCATES))
    with pytest.warns(PluginWarning, match="solver 'lns' is that of allocopt; the one of plug_lns is ignored"):
        solver = get_solver("lns")
    assert type(solver).__module__ == "allocopt.heuristics.topology.lns.solver"
    for package in ("first", "second"):
        plug("mine", SOLVER.format(name="mine", body=ALLOCATES), package)
    with pytest.raises(PluginError, match="plug_first and plug_second both have a solver 'mine'"):
        get_solver("mine")


@pytest.mark.parametrize(
    ("policy", "option", "value"),
    [("window", "solver", 1), ("window", "iterations", 10**20), ("optimization", "weights", [1, [2], 3])],
)
def test_an_option_of_a_policy_is_checked_by_its_declared_type(policy: str, option: str, value: object) -> None:
    with pytest.raises(UsageError, match=rf"option '{option}' of policy '{policy}' is .*, must be of type "):
        get_policy(policy, {option: value})


def test_a_broken_kind_is_named_in_one_line_and_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plug_in(tmp_path, "allocopt.kinds", package="brokenkind", broken="broken_kind_module:Kind")
    (tmp_path / "broken_kind_module.py").write_text("raise ValueError('at import')", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.warns(PluginWarning, match=r"'broken', .* raised ValueError: at import; it is left out"):
        kinds = working_kinds()
    assert [kind.name for kind in kinds] == ["coallocation", "knapsack", "placement", "relocation", "topology"]
    for words in (["solve", "@tiny", "--solver", "greedy"], ["schema", "instance"], ["generate", "--help"]):
        monkeypatch.setattr(sys, "argv", ["allocopt", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
