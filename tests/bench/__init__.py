"""Benchmarks: ratios of two things measured in the same run, in turn; ``make bench``."""
