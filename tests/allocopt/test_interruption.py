"""Ctrl-C and SIGTERM: what they interrupt, and that they can be made to wait for the end of a step."""

import signal

import pytest

from allocopt.interruption import interruption_held, termination_interrupts

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])


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
