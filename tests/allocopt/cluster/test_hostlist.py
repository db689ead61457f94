"""Hostlists, written out and folded, beside ClusterShell."""

import importlib
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocopt.cluster.hostlist import HostlistError, check_listable, expand_hostlist, fold_hostlist


@pytest.fixture(scope="module")
def node_set() -> Any:
    """Another implementation; skipped where it is absent, but not in continuous integration."""
    try:
        return importlib.import_module("ClusterShell.NodeSet").NodeSet
    except ImportError:
        if os.environ.get("CI") == "true":
            pytest.fail("needs ClusterShell")
        pytest.skip("needs ClusterShell")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[001-003,7],login1", ["n001", "n002", "n003", "n7", "login1"]),
        ("SW[14,58]", ["SW14", "SW58"]),
        ("r[1-2]n[01-02]-ib", ["r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[08-11]", ["n08", "n09", "n10", "n11"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("a, b ,,c,", ["a", "b", "c"]),
        ("", []),
        ("block_5e797fc6-0f46-421a-8724-0e102c0f723c", ["block_5e797fc6-0f46-421a-8724-0e102c0f723c"]),
    ],
)
def test_a_hostlist_stands_for_names(text: str, names: list[str]) -> None:
    assert expand_hostlist(text) == names


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("n[1-3", "'n[1-3' has a bracket that is not closed"),
        ("n1-3]", "'n1-3]' has a bracket that is not opened"),
        ("n[[1]]", "bracket that is not closed"),
        ("n[]", "holds '' in brackets"),
        ("n[1-]", "holds '1-' in brackets"),
        ("n[1-2-3]", "holds '1-2-3' in brackets"),
        ("n[a-c]", "holds 'a-c' in brackets"),
        ("n[3-1]", "has the range 3-1, which descends"),
        ("n[1-99999999]", "brings the number of names above 10000000"),
        ("n[0-9999][0-9999]", "brings the number of names above 10000000"),
        (",".join(["n[0-9999998]"] * 50), "brings the number of names above 10000000"),
        (f"n[{','.join(['0-9999998'] * 50)}]", "brings the number of names above 10000000"),
        ("n" * 256 + "[1-2]", "has more than 255 characters"),
        ("n[1234567890123456789]", "number of more than 18 digits"),
        ("n1 n2", "it contains ' '"),
        ("n1,Nodes=n2", "it contains '='"),
    ],
)
def test_what_is_no_hostlist_is_told(text: str, fault: str) -> None:
    with pytest.raises(HostlistError) as raised:
        expand_hostlist(text)
    assert fault in str(raised.value)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n3", "n1", "n2", "n2"], "n[1-3]"),
        (["n1"], "n1"),
        (["n08", "n09", "n10", "n12"], "n[08-10,12]"),
        (["n8", "n08", "n9"], "n[8-9],n08"),
        (["n1", "n", "m"], "n,n1,m"),
        (["r1n1", "r1n2", "r2n1"], "r1n[1-2],r2n1"),
        (["a-ib", "n1-ib", "n2-ib"], "a-ib,n1-ib,n2-ib"),
        ([], ""),
    ],
)
def test_names_fold_to_the_shortest_form_that_every_slurm_reads(names: list[str], text: str) -> None:
    assert fold_hostlist(names) == text


@given(st.text(min_size=1, max_size=8) | st.text(alphabet='an0-,[]#= \\\n"', min_size=1, max_size=5))
def test_a_name_that_may_stand_in_a_hostlist_comes_back(name: str) -> None:
    try:
        check_listable(name)
    except HostlistError:
        return
    assert expand_hostlist(fold_hostlist([name])) == [name]


prefixes = st.sampled_from(["n", "gpu-", "r1n", "x9y", "a.b-"])
digits = st.one_of(
    st.integers(0, 120).map(str),
    st.integers(0, 120).map(lambda number: str(number).zfill(3)),
    st.integers(0, 12).map(lambda number: str(number).zfill(2)),
)
some_names = st.lists(st.builds(str.__add__, prefixes, st.one_of(digits, st.just(""), st.just("0-ib"))), max_size=40)


@given(some_names)
def test_folding_loses_and_adds_no_name(names: list[str]) -> None:
    folded = expand_hostlist(fold_hostlist(names))
    assert sorted(folded) == sorted(set(names))


@given(st.lists(st.tuples(prefixes, st.integers(0, 300)), min_size=1, max_size=60), st.integers(1, 4))
def test_clustershell_reads_what_is_folded_and_folds_what_is_read(
    node_set: Any, pairs: list[tuple[str, int]], width: int
) -> None:
    names = {f"{prefix}{number:0{width}d}" for prefix, number in pairs}
    assert set(node_set(fold_hostlist(names))) == names
    assert set(expand_hostlist(str(node_set.fromlist(sorted(names))))) == names


@st.composite
def ranges(draw: st.DrawFn) -> str:
    """Draw a bracketed list."""
    width = draw(st.integers(1, 3))
    parts = []
    for low in draw(st.lists(st.integers(0, 99 if width > 1 else 9), min_size=1, max_size=3)):
        high = low + draw(st.integers(0, 9 if width > 1 else 9 - low))
        # ClusterShell refuses ends of different widths where one is filled with zeros.
        fits = len(str(high)) <= width
        parts.append(f"{low:0{width}d}-{high:0{width}d}" if high > low and fits else f"{low:0{width}d}")
    return f"[{','.join(parts)}]"


@given(st.lists(st.tuples(prefixes, ranges(), st.sampled_from(["", "-ib", "x"]), st.one_of(st.just(""), ranges()))))
def test_clustershell_reads_every_hostlist_alike(node_set: Any, parts: list[tuple[str, str, str, str]]) -> None:
    text = ",".join(
        f"{prefix}{first}{middle}{second if middle == 'x' else ''}" for prefix, first, middle, second in parts
    )
    assert set(expand_hostlist(text)) == set(node_set(text))
