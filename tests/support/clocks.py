"""Budgets whose time passes as a test says, so that it can cut a solver off anywhere."""

from dataclasses import dataclass

from allocopt.solving.budget import Budget, Clock


@dataclass(frozen=True, slots=True)
class LooksBudget(Budget):
    """A budget that lasts until its clock was looked at so many times, whatever the time."""

    looks: int = 0

    def start(self) -> Clock:
        """Start the clock of one solve."""
        return LooksClock(None, 0.0, looks=self.looks)


@dataclass(slots=True)
class LooksClock(Clock):
    """A clock that runs out after some looks; its time stands still until then."""

    looks: int = 0

    def elapsed(self) -> float:
        """No time passes."""
        return 0.0

    def remaining(self) -> float:
        """One second, or none."""
        self.looks -= 1
        return 1.0 if self.looks >= 0 else 0.0


@dataclass(frozen=True, slots=True)
class ScriptedBudget(Budget):
    """A budget whose clock shows given readings, in seconds, and then the last one for ever."""

    readings: tuple[float, ...] = (0.0,)

    def start(self) -> Clock:
        """Start the clock of one solve."""
        return ScriptedClock(self.seconds, 0.0, readings=self.readings)


@dataclass(slots=True)
class ScriptedClock(Clock):
    """A clock that shows given readings."""

    readings: tuple[float, ...] = (0.0,)

    def elapsed(self) -> float:
        """Return the next reading."""
        now, *rest = self.readings
        self.readings = tuple(rest) or (now,)
        return now
