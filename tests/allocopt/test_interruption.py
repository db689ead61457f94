"""Ctrl-C and SIGTERM: what they interrupt, and that they can be made to wait for the end of a step."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest
from numba import int64
from support import tiny_kernels
from support.tiny_kernels import Split

from allocopt.files.models import FileModel, validated
from allocopt.interruption import LARGEST_SLICE, interruption_held, run_in_slices, termination_interrupts
from allocopt.kernels.arrays import record_type
from allocopt.kernels.compiled import Kernel
from allocopt.kernels.ready import make_ready

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])


def test_slices_of_a_kernel_that_often_stops_early_do_not_outgrow_its_numbers() -> None:
    sizes: list[int] = []

    def step(size: int) -> int:
        sizes.append(size)
        return size if len(sizes) < 100 else 0

    run_in_slices(step, 1)
    assert max(sizes) == LARGEST_SLICE


@BOTH
def test_an_interruption_waits_for_the_end_of_a_step(number: signal.Signals) -> None:
    with termination_interrupts(), interruption_held() as interrupted:
        assert not interrupted()
        signal.raise_signal(number)
        assert interrupted()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@BOTH
def test_a_second_interruption_does_not_wait(number: signal.Signals) -> None:
    with termination_interrupts():
        with interruption_held():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)


def test_handlers_of_the_caller_are_left_alone() -> None:
    heard: list[int] = []
    kept = {number: signal.signal(number, lambda number, frame: heard.append(number)) for number in (2, 15)}
    try:
        with termination_interrupts(), interruption_held() as interrupted:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGTERM)
            assert not interrupted()
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    assert heard == [signal.SIGINT, signal.SIGTERM]


@contextmanager
def interrupted_at(name: str) -> Iterator[None]:
    """Interrupt once, when a function is called, also where nobody but C code calls it."""
    before = sys.getprofile()

    def hook(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == name:
            sys.setprofile(before)
            signal.raise_signal(signal.SIGINT)

    sys.setprofile(hook)
    try:
        yield
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("where", ["_raw_object_cache_getbuffer", "load_overload"])
def test_a_kernel_that_is_loaded_when_ctrl_c_comes_is_whole(where: str) -> None:
    make_ready([tiny_kernels.split])
    again = Kernel(tiny_kernels.split.py_func, record_type(Split)(int64), {"_nrt": True})  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt), interrupted_at(where):
        again.load()
    assert again(4).second.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_ctrl_c_that_comes_in_a_kernel_is_heard_when_it_has_returned_its_arrays() -> None:
    make_ready([tiny_kernels.split])
    with pytest.raises(KeyboardInterrupt), interrupted_at("_numba_unpickle"):
        tiny_kernels.split(3)
    assert tiny_kernels.split(2).second.tolist() == [1.0, 1.0]


def test_ctrl_c_while_a_model_of_a_file_is_built_is_no_fault_of_the_model() -> None:
    class Pair(FileModel):
        first: int

    with pytest.raises(KeyboardInterrupt), interrupted_at("complete_model_class"):
        validated(Pair, {"first": 1}, "x.json")
    assert validated(Pair, {"first": 1}, "x.json").first == 1
