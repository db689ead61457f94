"""Ctrl-C waits for the end of a step, a second one does not."""

import signal

import pytest

from allocopt.sweep.interruption import interruption_awaited


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def two_steps(done: list[str]) -> None:
    with interruption_awaited() as check:
        check()
        press()
        done.append("the step is not cut")
        check()
        done.append("there is no other one")


def press_twice() -> None:
    with interruption_awaited():
        press()
        press()


def test_ctrl_c_is_heard_between_two_steps() -> None:
    steps: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        two_steps(steps)
    assert steps == ["the step is not cut"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_ctrl_c_does_not_wait() -> None:
    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_caller_is_left_alone() -> None:
    heard: list[int] = []
    kept = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with interruption_awaited() as check:
            press()
            check()
    finally:
        signal.signal(signal.SIGINT, kept)
    assert heard == [signal.SIGINT]
