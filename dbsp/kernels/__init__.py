"""The inner loops: compiled functions over flat int64 arrays, without Python objects."""

from dbsp.kernels.group_values import (
    accumulate,
    extremes,
    leading,
    replace_rows,
    running_totals,
    shifted,
    sum_floats,
)
from dbsp.kernels.hashing import find_rows, intern_rows, place_rows
from dbsp.kernels.interval_matches import join_intervals, join_timed_intervals
from dbsp.kernels.matches import gather, join_bands, join_runs, join_timed_bands, join_timed_runs
from dbsp.kernels.multiway import extend_by_levels
from dbsp.kernels.nearest import gather_bands, nearest_present
from dbsp.kernels.partitions import first_of_each, least_members
from dbsp.kernels.presence import assert_runs, distinct_runs, distinct_timed_runs, sum_weights
from dbsp.kernels.run_merge import merge_some
from dbsp.kernels.run_search import register_run
from dbsp.kernels.sort import arrange, concatenate, consolidate, project, with_time

__all__ = [
    "accumulate",
    "arrange",
    "assert_runs",
    "concatenate",
    "consolidate",
    "distinct_runs",
    "distinct_timed_runs",
    "extend_by_levels",
    "extremes",
    "find_rows",
    "first_of_each",
    "gather",
    "gather_bands",
    "intern_rows",
    "join_bands",
    "join_intervals",
    "join_runs",
    "join_timed_bands",
    "join_timed_intervals",
    "join_timed_runs",
    "leading",
    "least_members",
    "merge_some",
    "nearest_present",
    "place_rows",
    "project",
    "register_run",
    "replace_rows",
    "running_totals",
    "shifted",
    "sum_floats",
    "sum_weights",
    "with_time",
]
