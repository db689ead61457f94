import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from allocopt.arrays import FloatArray
from allocopt.errors import UsageError
from allocopt.traces.generators import Gamma, LublinModel, Range, lublin_workload, uniform_workload
from allocopt.traces.reading import read_workload


@pytest.mark.parametrize(
    "ranges",
    [{}, {"nodes": (3, 5), "run_s": (1, 3), "gap_s": (0, 1)}, {"nodes": (3, 3), "run_s": (7, 7), "gap_s": (0, 0)}],
)
def test_every_value_of_a_range_comes_and_none_other(ranges: dict[str, Range]) -> None:
    made = uniform_workload(20_000, np.random.default_rng(1), **ranges)
    asked = {"nodes": (1, 40), "run_s": (10, 1800), "gap_s": (5, 30), **ranges}
    found = {"nodes": made.processors, "run_s": made.run, "gap_s": np.diff(made.submit, prepend=0.0)}
    for name, values in found.items():
        assert set(values.tolist()) == set(range(asked[name][0], asked[name][1] + 1))
    assert made.ids.tolist() == list(range(1, 20_001))
    short = uniform_workload(100, np.random.default_rng(1), **ranges)
    for name in ("ids", "submit", "run", "processors"):
        assert getattr(short, name).tolist() == getattr(made, name)[:100].tolist(), "a longer one begins otherwise"


@pytest.mark.parametrize(
    ("jobs", "nodes", "run_s", "gap_s"),
    [
        (0, (1, 2), (1, 2), (1, 2)),
        (1, (0, 2), (1, 2), (1, 2)),
        (1, (3, 2), (1, 2), (1, 2)),
        (1, (1, 2), (0, 2), (1, 2)),
        (1, (1, 2), (1, 2), (-1, 2)),
    ],
)
def test_an_impossible_range_is_refused(jobs: int, nodes: Range, run_s: Range, gap_s: Range) -> None:
    with pytest.raises(UsageError, match="must"):
        uniform_workload(jobs, np.random.default_rng(0), nodes, run_s, gap_s)


MODEL = LublinModel()
MANY = 200_000
BUCKETS, BUCKET_S = 48, 1800


def check_share(flags: np.ndarray, share: float) -> None:
    assert abs(flags.mean() - share) <= 5 * math.sqrt(share * (1 - share) / len(flags)) + 1e-12


def check_mean(values: np.ndarray, mean: float) -> None:
    assert abs(values.mean() - mean) <= 5 * values.std() / math.sqrt(len(values))


def cdf(gamma: Gamma, x: float) -> float:
    return float(stats.gamma(gamma.shape, scale=gamma.scale).cdf(x))


def test_a_share_of_jobs_is_serial() -> None:
    sizes = MODEL.draw_sizes(MANY, 256, np.random.default_rng(1))
    check_share(sizes == 1, 0.244)
    assert (sizes.min(), sizes.max()) == (1, 256)


def test_powers_of_two_are_as_frequent_as_their_interval_of_the_two_stage_uniform() -> None:
    sizes = LublinModel(serial=0.0, power_of_two=1.0).draw_sizes(MANY, 256, np.random.default_rng(2))
    low, middle, top = 0.8, 5.5, 8.0

    def below(x: float) -> float:
        return 0.86 * np.clip((x - low) / (middle - low), 0, 1) + 0.14 * np.clip((x - middle) / (top - middle), 0, 1)

    for power in range(1, 9):
        check_share(sizes == 2**power, below(power + 0.5) - below(power - 0.5))
    assert set(sizes.tolist()) == {2**power for power in range(1, 9)}


def test_the_logarithm_of_unrounded_sizes_has_the_mean_of_the_two_stage_uniform() -> None:
    # On a machine this large, rounding to whole processors hardly moves a mean over sizes from 2^8 on.
    model = LublinModel(serial=0.0, power_of_two=0.0, log2_least=8.0)
    sizes = model.draw_sizes(MANY, 2**20, np.random.default_rng(3))
    check_mean(np.log2(sizes), (0.86 * 8 + 17.5 + 0.14 * 20) / 2)


@pytest.mark.parametrize("processors", [10, 100, 1000])
def test_no_job_is_larger_than_a_machine_of_any_size(processors: int) -> None:
    sizes = LublinModel(serial=0.1, power_of_two=0.5).draw_sizes(20_000, processors, np.random.default_rng(4))
    assert sizes.max() <= processors
    assert sizes.max() > processors // 2
    assert sizes.min() == 1


@pytest.mark.parametrize("size", [1, 64, 200])
def test_run_times_are_hyper_gamma_with_a_share_linear_in_the_size(size: int) -> None:
    run = MODEL.draw_run_times(np.full(MANY, size), np.random.default_rng(size))
    share = min(max(0.78 - 0.0054 * size, 0), 1)

    def below(x: float) -> float:
        return share * cdf(MODEL.short_run, x) + (1 - share) * cdf(MODEL.long_run, x)

    for time in (2, 10, 60, 600, 3600, 20_000, 100_000):
        check_share(run < time, below(math.log(time)) / below(12.0))
    assert run.min() >= 1
    assert run.max() <= math.exp(12)
    assert (run == np.floor(run)).all()


def test_gaps_have_the_mean_of_the_truncated_log_gamma() -> None:
    gaps = MODEL.draw_gaps(MANY, np.random.default_rng(6))
    shape, scale = MODEL.gap.shape, MODEL.gap.scale
    # E[exp(g); g <= 13] is the probability under the exponentially tilted gamma, of scale b / (1 - b).
    tilted = Gamma(shape, scale / (1 - scale))
    check_mean(gaps, (1 - scale) ** -shape * cdf(tilted, 13.0) / cdf(MODEL.gap, 13.0))
    check_share(gaps < math.exp(5), cdf(MODEL.gap, 5.0) / cdf(MODEL.gap, 13.0))


def test_a_half_hour_weighs_as_much_as_its_probability() -> None:
    below = stats.gamma(8.1737, scale=3.9631).cdf
    numbers = np.arange(11, 59)
    expected = np.zeros(BUCKETS)
    expected[(numbers - 1) % BUCKETS] = below(numbers + 0.5) - below(numbers - 0.5)
    assert MODEL.bucket_weights() == pytest.approx(expected / expected.mean(), rel=1e-9)
    assert MODEL.bucket_weights().sum() == pytest.approx(48)


def paid_by_bucket(gaps_s: list[float], weights: FloatArray) -> list[float]:
    """Spend the time of each gap half hour by half hour, each at its price."""
    spent, bucket, times = 0.0, 0, []
    for gap in gaps_s:
        spent += gap / BUCKET_S
        while spent > weights[bucket % BUCKETS]:
            spent -= weights[bucket % BUCKETS]
            bucket += 1
        times.append(BUCKET_S * (bucket + spent / weights[bucket % BUCKETS]))
    return times


@given(st.lists(st.floats(1.0, 400_000.0), min_size=1, max_size=20))
def test_arrivals_are_those_of_paying_bucket_by_bucket(gaps_s: list[float]) -> None:
    slowly = np.array(paid_by_bucket(gaps_s, MODEL.bucket_weights()))
    times = MODEL.arrival_times(np.array(gaps_s))
    assert (times == np.floor(times)).all()
    # A whole second more or less where rounding meets the last digit.
    assert (np.abs(times + 0.5 - slowly) <= 0.5 + 1e-6).all()


def test_a_workload_is_whole_and_its_seed_decides_it() -> None:
    made, again, other = (lublin_workload(500, 100, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert (made.name, made.machine_processors, len(made)) == ("lublin", 100, 500)
    for name in ("submit", "run", "processors"):
        assert getattr(made, name).tolist() == getattr(again, name).tolist() != getattr(other, name).tolist()
    assert made.estimate.tolist() == made.run.tolist()


def test_a_sample_of_the_authors_program_has_the_same_statistics(shared_data: Path) -> None:
    """Loose: two samples, whose means differ by chance; the mean gap is heavy-tailed, its logarithm is not."""
    theirs = read_workload(shared_data / "traces" / "lublin_256.swf.gz")
    ours = lublin_workload(50_000, 256, np.random.default_rng(0))
    for statistic, tolerance in (
        (lambda made: (made.processors == 1).mean(), 0.02),
        (lambda made: ((made.processors & (made.processors - 1)) == 0).mean(), 0.02),
        (lambda made: np.log2(made.processors[made.processors > 1]).mean(), 0.1),
        (lambda made: np.log(made.run).mean(), 0.15),
        (lambda made: np.log(made.run).std(), 0.1),
        (lambda made: np.log(np.maximum(np.diff(made.submit), 1)).mean(), 0.1),
        (lambda made: np.diff(made.submit).mean() / 850, 0.3),
        (lambda made: (made.submit % 86_400 < 43_200).mean(), 0.05),
    ):
        assert statistic(ours) == pytest.approx(statistic(theirs), abs=tolerance)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (lambda: LublinModel(serial=-0.1), "the share serial is -0.1"),
        (lambda: LublinModel(smaller=1.5), "the share smaller is 1.5"),
        (lambda: LublinModel(serial=0.6, power_of_two=0.6), "together above 1"),
        (lambda: LublinModel(longest_log_run=9.0), "must be above the mean"),
        (lambda: LublinModel(longest_log_gap=5.0), "must be above the mean"),
        (lambda: Gamma(0.0, 1.0), "must be positive"),
        (lambda: lublin_workload(0, 100, np.random.default_rng(0)), "the number of jobs is 0"),
        (lambda: lublin_workload(1, 9, np.random.default_rng(0)), "has 9 processors, must have at least 10"),
    ],
)
def test_parameters_that_contradict_are_refused(make: Callable[[], object], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        make()
    assert len(lublin_workload(1, 8, np.random.default_rng(0), LublinModel(log2_below_machine=1.5))) == 1
