"""Where a figure comes from."""

import platform
import subprocess
from pathlib import Path

import pytest

from allocopt import __version__
from allocopt.report import provenance


def place(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Let the package stand in another folder."""
    monkeypatch.setattr(provenance, "__file__", str(root / "allocopt" / "report" / "provenance.py"))


def git(root: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


def test_all_facts_are_there() -> None:
    facts = provenance.provenance()
    assert (facts["version"], facts["python"]) == (__version__, platform.python_version())
    assert facts["commit"]
    assert facts["machine"].endswith("cores")
    assert list(facts) == ["version", "commit", "python", "machine"]


def test_without_a_checkout_of_its_own_a_commit_or_git_the_commit_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site-packages").mkdir()
    place(monkeypatch, tmp_path / "site-packages")
    assert provenance._commit() == "unknown"
    git(tmp_path, "init")
    assert provenance._commit() == "unknown"
    place(monkeypatch, tmp_path)
    assert provenance._commit() == "unknown"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance._commit() == "unknown"


def test_a_checkout_is_named_by_its_commit_and_marked_where_the_code_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init")
    for name in ("allocopt", "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("1", encoding="utf-8")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    git(tmp_path, "tag", "-a", "v1", "-m", "a tag is not the commit")
    place(monkeypatch, tmp_path)
    clean = provenance._commit()
    assert len(clean) == 12
    assert set(clean) <= set("0123456789abcdef")
    (tmp_path / "docs" / "file").write_text("2", encoding="utf-8")
    assert provenance._commit() == clean
    (tmp_path / "allocopt" / "file").write_text("2", encoding="utf-8")
    assert provenance._commit() == f"{clean}+"


def test_packages_that_are_missing_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "PACKAGES", ("numpy", "a-package-nobody-has"))
    versions = provenance.package_versions()
    assert versions["a-package-nobody-has"] == "not installed"
    assert versions["numpy"][0].isdigit()
