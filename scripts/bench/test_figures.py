"""Goal: medians, spreads, ratios and percentiles are what their words say, also of nothing."""

import unittest

from figures import median, merged, overlap, percentile, ratio, spread, weighted_mean


class Figures(unittest.TestCase):
    def test_the_median_of_odd_even_and_no_values(self):
        self.assertEqual(median([9, 1, 5]), 5)
        self.assertEqual(median([4, 1, 2, 9]), 3)
        self.assertEqual(median([None, 7]), 7)
        self.assertIsNone(median([]))
        self.assertIsNone(median([None]))

    def test_one_disturbed_round_of_five_does_not_move_the_median(self):
        self.assertEqual(median([100, 101, 99, 100, 3]), 100)

    def test_spread_is_a_part_of_the_median(self):
        self.assertAlmostEqual(spread([90, 100, 110]), 0.2)
        self.assertIsNone(spread([100]))
        self.assertIsNone(spread([0, 0]))

    def test_a_ratio_to_nothing_is_none(self):
        self.assertEqual(ratio(3, 2), 1.5)
        for value, base in ((None, 2), (3, None), (3, 0)):
            self.assertIsNone(ratio(value, base))

    def test_ranges_overlap_where_they_touch(self):
        self.assertTrue(overlap([1, 3], [3, 5]))
        self.assertTrue(overlap([1, 9], [4, 5]))
        self.assertFalse(overlap([1, 2], [3, 4]))
        self.assertIsNone(overlap([], [1]))

    def test_a_percentile_is_the_first_bin_that_reaches_it(self):
        bins = {10: 990, 20: 9, 30: 1}
        self.assertEqual([percentile(bins, share) for share in (50, 99, 99.9, 100)], [10, 10, 20, 30])
        # The 991st of 1,000 is in the second bin.
        self.assertEqual(percentile(bins, 99.1), 20)
        self.assertIsNone(percentile({}, 50))

    def test_a_percentile_of_all_is_not_the_mean_of_percentiles(self):
        slow, fast = {1000: 10}, {1: 990}
        self.assertEqual(percentile(merged([slow, fast]), 99), 1)
        self.assertEqual(percentile(merged([slow, fast]), 99.5), 1000)

    def test_means_are_weighted_by_their_counts(self):
        self.assertEqual(weighted_mean([(10, 3), (50, 1)]), 20)
        self.assertIsNone(weighted_mean([]))
