"""The rules of the house: which way imports run, what is loaded when, what is documented, what is shipped."""

import ast
import email
import functools
import importlib
import inspect
import operator
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import networkx as nx
import pytest

from allocopt.envs import TASKS

ROOT = Path(__file__).resolve().parents[1]
LINKED = ("formulations", "heuristics", "learned")
"""Folders of the checkout that are imported as packages of `allocopt`."""
FOLDERS = ("allocopt", *LINKED)
MAY_IMPORT = {
    "allocopt": {"allocopt"},
    "formulations": {"allocopt", "formulations"},
    "heuristics": {"allocopt", "heuristics"},
    "learned": set(FOLDERS),
    "papers": {*FOLDERS, "papers"},
}
"""What each folder may import; `papers` is not shipped."""
LAYERS = (
    ("version", "errors", "interruption", "child_process", "gymnasium_hook", "arrays", "notebook", "plural", "data"),
    ("files", "local_http", "tables"),
    ("values",),
    ("plugins",),
    ("kernels",),
    ("cluster", "gpu_sharing"),
    ("traces",),
    ("problems",),
    ("solving",),
    ("topology", "knapsack", "coallocation", "placement", "relocation", "model"),
    ("simulator",),
    ("envs",),
    ("training", "reproduction"),
    ("report",),
    ("experiments", "live", "plot"),
    ("serve",),
    ("cli",),
    ("__main__",),
)
"""Parts of `allocopt`, each of which imports those of earlier lines alone."""
IN_SDIST = {
    "CHANGELOG.md", "CITATION.cff", "LICENSE", "MANIFEST.in", "PKG-INFO", "README.md", "constraints.txt",
    "pyproject.toml", "setup.cfg", "setup.py",
}  # fmt: skip
"""Files of an sdist beside the packages."""
HEAVY = ("numba", "torch", "ortools", "pyscipopt", "scipy", "pandas", "networkx", "simanneal", "matplotlib")
FILES = sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """Return what all files of the packages say."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def undocumented(module: str, body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    """Public functions, classes and methods that neither have nor inherit a docstring; overloads need none."""
    for node in body:
        if isinstance(node, ast.FunctionDef) and "overload" in map(ast.unparse, node.decorator_list):
            continue
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            name = prefix + node.name
            if ast.get_docstring(node) is None and not (prefix and inspect.getdoc(named(module, name))):
                yield name
            if isinstance(node, ast.ClassDef):
                yield from undocumented(module, node.body, f"{name}.")


def named(module: str, name: str) -> object:
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def loaded_after(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after it ran some code."""
    program = f"import sys\n{code}\nprint('\\n', *{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    return set(done.stdout.splitlines()[-1].split())


def folder_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


def module_of(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    return f"allocopt.{name}" if folder_of(path) in LINKED else name


MODULES = {module_of(path): path for path in FILES}


@functools.cache
def imports() -> dict[str, set[str]]:
    """Return the modules that each module imports, wherever in it, those for type checkers included."""
    found: dict[str, set[str]] = {name: set() for name in MODULES}
    for name, path in MODULES.items():
        for node in ast.walk(trees()[path]):
            if isinstance(node, ast.Import):
                found[name] |= {alias.name for alias in node.names} & MODULES.keys()
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}, line {node.lineno}: imports are absolute"
                inside = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
                found[name] |= inside or ({str(node.module)} & MODULES.keys())
        found[name].discard(name)
    return found


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    return [nodes for nodes in nx.strongly_connected_components(nx.DiGraph(graph)) if len(nodes) > 1]


def test_parts_of_the_package_import_in_the_order_of_the_layers() -> None:
    place = {part: number for number, layer in enumerate(LAYERS) for part in layer}
    part_of = {
        name: name.split(".")[1]
        for name, path in MODULES.items()
        if folder_of(path) == "allocopt" and name != "allocopt"
    }
    assert {part for part in part_of.values() if part not in place} == set()
    upwards = {
        (name, target)
        for name, part in part_of.items()
        for target in imports()[name] & part_of.keys()
        if part != part_of[target] and place[part_of[target]] >= place[part]
    }
    assert upwards == set()


def test_no_files_and_no_parts_import_in_a_circle() -> None:
    assert circles(imports()) == []
    parts: dict[str, set[str]] = {}
    for name, targets in imports().items():
        part = ".".join(name.split(".")[:2])
        others = {".".join(target.split(".")[:2]) for target in targets} - {part}
        parts.setdefault(part, set()).update(others)
    assert circles(parts) == []


def test_imports_run_one_way() -> None:
    in_folder = {name: folder_of(path) for name, path in MODULES.items()}
    taken = {(name, in_folder[target]) for name, targets in imports().items() for target in targets}
    assert {(name, folder) for name, folder in taken if folder not in MAY_IMPORT[in_folder[name]]} == set()


def test_modules_and_all_that_is_public_are_documented() -> None:
    assert [name for name, path in MODULES.items() if not ast.get_docstring(trees()[path])] == []
    without = {name: [*undocumented(name, trees()[path].body)] for name, path in MODULES.items()}
    assert {name: missing for name, missing in without.items() if missing} == {}


def asking(*words: str) -> str:
    """Return code that asks the program for something that needs no work."""
    call = "with contextlib.suppress(SystemExit): runpy.run_module('allocopt', run_name='__main__')"
    return f"import contextlib, runpy\nsys.argv = {['allocopt', *words]}\n{call}"


LIGHT_NAMES = (
    "import allocopt, contextlib\nfor name in ('FatTree', 'Budget', 'Result', 'UsageError'):\n"
    "    with contextlib.suppress(AttributeError): getattr(allocopt, name)"
)
POLICIES = "from allocopt import get_policy, policy_names\nfor name in policy_names(): get_policy(name)"


@pytest.mark.parametrize(
    ("code", "left_out"),
    [
        (LIGHT_NAMES, HEAVY),
        (POLICIES, ["torch"]),
        (asking("--version"), HEAVY),
        (asking("--help"), ["numpy", "pydantic", *HEAVY]),
        (asking("solve", "--help"), HEAVY),
        (asking("report", "--help"), ["vl_convert", "jinja2", "numpy", *HEAVY]),
        ("import allocopt.cli.generate", ["numpy", "pydantic", *HEAVY]),
        ("import allocopt.problems.instances, allocopt.solving.solution_files", HEAVY),
    ],
    ids=["light names", "policies", "version", "help", "help of solve", "help of report", "generate", "files"],
)
def test_importing_the_package_and_asking_for_help_load_nothing_heavy(code: str, left_out: Sequence[str]) -> None:
    loaded = loaded_after(code)
    assert "allocopt" in loaded
    assert not loaded & set(left_out)


def test_every_public_name_is_there() -> None:
    package = importlib.import_module("allocopt")
    assert sorted(package.__all__) == dir(package)
    assert len(package.__all__) <= 30
    assert all(getattr(package, name) is not None for name in package.__all__)
    for part in package._PARTS:
        module = getattr(package, part)
        assert all(getattr(module, name) is not None for name in module.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


def test_the_version_of_the_distribution_is_read_from_the_package() -> None:
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "allocopt.version.__version__"}


SOLVERS = [
    (group.rpartition(".")[2], name, value)
    for group, entries in PROJECT["project"]["entry-points"].items()
    if group.startswith("allocopt.solvers.")
    for name, value in entries.items()
]


@pytest.mark.parametrize(("kind", "name", "value"), SOLVERS)
def test_every_entry_point_is_a_solver_of_that_kind_and_name(kind: str, name: str, value: str) -> None:
    module, _, factory = value.partition(":")
    made = operator.attrgetter(factory)(importlib.import_module(module))()
    assert (made.kind, made.name) == (kind, name)


def test_the_installed_distribution_has_the_entry_points_of_the_project() -> None:
    entries = importlib.import_module("importlib.metadata").distribution("allocopt").entry_points
    installed: dict[str, dict[str, str]] = {}
    for entry in entries:
        installed.setdefault(entry.group, {})[entry.name] = entry.value
    del installed["console_scripts"]
    assert installed == PROJECT["project"]["entry-points"]


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build an sdist and, from it, a wheel; return a copy of the checkout, and the folder of both files."""
    folder = tmp_path_factory.mktemp("distributions")
    checkout, built = folder / "checkout", folder / "dist"
    leave_out = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT, checkout, ignore=leave_out, symlinks=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(checkout)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return checkout, built


@pytest.mark.slow
@pytest.mark.xdist_group("distributions")
def test_sdist_and_wheel_hold_one_package_and_its_data_and_nothing_else(
    distributions: tuple[Path, Path],
) -> None:
    checkout, built = distributions
    (wheel,), (sdist,) = built.glob("allocopt-*.whl"), built.glob("allocopt-*.tar.gz")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    paths = {
        path.relative_to(checkout / folder if folder == "allocopt" else checkout).as_posix()
        for folder in FOLDERS
        for path in (checkout / folder).rglob("*")
        if path.suffix in (".py", ".safetensors", ".toml")
        or path.name == "py.typed"
        or path.parent == checkout / "allocopt" / "data"
    }
    assert held == {f"allocopt/{path}" for path in paths}
    shipped = {"allocopt/py.typed", "allocopt/data/tiny.jsonl", "allocopt/learned/weights/nsa-cnn-3.safetensors"}
    assert shipped <= held
    with tarfile.open(sdist) as archive:
        files = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {name for name in files if not name.startswith("allocopt.egg-info/")} == held | IN_SDIST


@pytest.mark.slow
@pytest.mark.xdist_group("distributions")
def test_the_wheel_names_version_and_licence_and_its_readme_links_no_file_of_a_checkout(
    distributions: tuple[Path, Path],
) -> None:
    (wheel,) = distributions[1].glob("allocopt-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["Version"] == importlib.import_module("allocopt").__version__
    assert metadata["License-Expression"] == PROJECT["project"]["license"]
    links = re.findall(r"\]\(([^)\s]+)", metadata.get_payload())
    assert any(f"/v{metadata['Version']}/docs/" in link for link in links)
    assert [link for link in links if not link.startswith("https://")] == []


def test_every_package_that_is_needed_is_imported() -> None:
    sources = [path.read_text(encoding="utf-8") for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    needed = [re.split(r"[<>=\[]", one)[0] for one in PROJECT["project"]["dependencies"]]
    modules = [name.replace("-", "_") for name in needed]
    imported = re.compile(r"^\s*(?:from|import) (\w+)|import_module\(\"(\w+)", re.MULTILINE)
    found = {name for source in sources for pair in imported.findall(source) for name in pair}
    assert [name for name in modules if name not in found] == []


@pytest.mark.parametrize("imports", ["import allocopt, gymnasium", "import gymnasium, allocopt"])
def test_the_environments_are_there_once_both_packages_are_imported(imports: str) -> None:
    code = f"{imports}\nprint(sorted(name for name in gymnasium.registry if name.startswith('allocopt/')))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == sorted(TASKS)
    assert done.stderr == ""
