"""Arithmetic of the benchmark: medians, spreads, ratios, percentiles out of fio's bins.

Promises  nothing is guessed: what has no value gives None, and None goes through every function
          a percentile is the value of the first bin that reaches it, as fio counts it itself
"""

import math


def median(values):
    """The middle value, or the mean of the two in the middle; None of nothing."""
    ordered = sorted(value for value in values if value is not None)
    if not ordered:
        return None
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def spread(values):
    """How far the values lie apart: (largest - smallest) / median; None where that says nothing."""
    known = [value for value in values if value is not None]
    if len(known) < 2 or not median(known):
        return None
    return (max(known) - min(known)) / median(known)


def ratio(value, base):
    """value / base; None where either is missing or the base is 0."""
    if value is None or not base:
        return None
    return value / base


def overlap(some, others):
    """Whether the ranges of two lists of values meet; None where one is empty."""
    some, others = ([v for v in values if v is not None] for values in (some, others))
    if not some or not others:
        return None
    return min(some) <= max(others) and min(others) <= max(some)


def merged(many_bins):
    """Bins of several histograms, {value: count}, as one."""
    sum_of = {}
    for bins in many_bins:
        for value, count in bins.items():
            sum_of[value] = sum_of.get(value, 0) + count
    return sum_of


def percentile(bins, percent):
    """The value of the first bin at which `percent` of all counts are reached; None of no counts."""
    total = sum(bins.values())
    if not total:
        return None
    wanted, seen = percent / 100 * total, 0
    for value in sorted(bins):
        seen += bins[value]
        # Sums of fractions: 99.9 % of 1,000 must be reached by 999.
        if seen >= wanted - total * 1e-12:
            return value
    return max(bins)


def weighted_mean(pairs):
    """The mean of (mean, count) pairs; None where nothing was counted."""
    count = sum(n for _, n in pairs)
    if not count:
        return None
    return math.fsum(mean * n for mean, n in pairs) / count
