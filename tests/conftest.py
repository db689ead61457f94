"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings
from support.oracle import OracleWindow, read_oracle

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# No test asserts a time; the first example of some compiles kernels. Continuous integration tries more examples.
EXAMPLES = 60 if os.environ.get("CI") == "true" else 40
settings.register_profile("allocopt", deadline=None, max_examples=EXAMPLES)
settings.load_profile("allocopt")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real traces and proven optima beside the checkout; skipped where absent, but not in continuous integration."""
    if not SHARED_DATA.is_dir():
        message = f"needs the data folder {SHARED_DATA}"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return SHARED_DATA


@pytest.fixture(scope="session")
def oracle_windows(shared_data: Path) -> list[OracleWindow]:
    """Windows of 2 to 8 jobs with proven optima."""
    return read_oracle(shared_data / "tjap" / "oracle_windows.json")
