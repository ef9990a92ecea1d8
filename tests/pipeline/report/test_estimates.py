"""Figures from samples, and the exponent of popularity."""

import numpy as np
import pytest

from recado.pipeline.report.digest import harmonic, zipf_exponent
from recado.pipeline.report.redundancy import AT_LEAST, EXACT, WHOLE_SET, Judged, TypeCounts, estimate, rows_of
from recado.pipeline.report.redundancy import FROM_SAMPLE as SAMPLE


def test_all_judged_is_exact():
    counts = [TypeCounts("a", 10, 4, 8, 5, 0), TypeCounts("b", 2, 2, 0, 1, 1)]
    judged = [Judged("a", number, number > 1, 1 + number, number) for number in range(4)]
    judged += [Judged("b", 0, False, 1, 0), Judged("b", 1, False, 1, 0)]
    a, b, whole = rows_of(counts, judged, any_complex=True, pairs=300)
    assert (a.covered, a.mergeable, a.depth, a.depth_is, a.redundancy) == (3, 2, 4, EXACT, 0.6)
    assert (b.covered, b.depth, b.depth_is) == (1, 2, AT_LEAST)  # covered by a filter of another type
    assert (whole.type, whole.subscriptions, whole.filters, whole.never) == (WHOLE_SET, 12, 6, 1)
    assert (whole.covered, whole.covered_margin, whole.covered_is) == (4, 0, EXACT)
    assert (whole.mergeable_is, whole.depth, whole.depth_is) == (EXACT, 4, AT_LEAST)


def test_a_sample_says_so_and_complex_mergers_are_a_bound():
    counts = [TypeCounts("a", 1000, 1000, 0, 1, 0)]
    judged = [Judged("a", int(number < 30), number < 10) for number in range(100)]
    row, _ = rows_of(counts, judged, any_complex=False, pairs=300)
    assert (row.covered, row.covered_is, row.mergeable_is, row.depth, row.depth_is) == (
        300,
        SAMPLE,
        SAMPLE,
        2,
        AT_LEAST,
    )
    assert row.covered_margin == pytest.approx(1.96 * (0.3 * 0.7 / 100 * 0.9) ** 0.5)
    assert rows_of(counts, judged, any_complex=True, pairs=300)[0].mergeable_is == AT_LEAST


def test_nothing_to_judge():
    assert rows_of([], [], any_complex=False, pairs=300) == []


def test_margins_hold_as_often_as_they_say():
    rng = np.random.default_rng(1)
    truth = rng.random(3000) < 0.2
    held = 0
    for _ in range(400):
        found = estimate(3000, rng.choice(truth, 200, replace=False).tolist())
        held += abs(found.share - truth.mean()) <= found.margin
    assert 0.92 <= held / 400 <= 0.98


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_the_exponent_of_a_zipf_law_is_found(exponent):
    weights = np.arange(1, 501) ** -exponent
    drawn = np.random.default_rng(2).choice(500, 200_000, p=weights / weights.sum())
    sizes, numbers = np.unique(np.bincount(drawn), return_counts=True)
    found = zipf_exponent([(int(s), int(n)) for s, n in zip(sizes, numbers, strict=True) if s])
    assert found == pytest.approx(exponent, abs=0.03)


def test_even_popularity_has_no_exponent():
    assert zipf_exponent([(3, 100)]) == 0
    assert zipf_exponent([]) == 0


def test_a_long_sum_is_close_to_the_plain_one():
    for exponent in (0.0, 0.7, 1.0, 2.0):
        plain = sum(rank**-exponent for rank in range(1, 250_001))
        assert harmonic(250_000, exponent) == pytest.approx(plain, rel=1e-9)
