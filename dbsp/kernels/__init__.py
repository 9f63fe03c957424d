"""The inner loops: functions over flat int64 arrays, without Python objects.

`dbsp.kernels.tiers` decides whether a call is interpreted or compiled.
"""

from dbsp.kernels import (
    bloom_filter,
    counted_runs,
    exact_sums,
    float_results,
    frontier,
    group_search,
    group_values,
    grouped_pairs,
    hashing,
    interval_matches,
    key_ranges,
    keyed_rows,
    marking,
    matches,
    multiway,
    narrow_keys,
    nearest,
    numbered_values,
    packed_parts,
    partitions,
    placing,
    prefix_lists,
    presence,
    run_merge,
    run_search,
    sort,
    term_sum,
    timed_bounds,
    transpose,
)
from dbsp.kernels.tiers import entry

accumulate = entry(group_values.accumulate)
assert_runs = entry(presence.assert_runs)
bound_timed_groups = entry(timed_bounds.bound_timed_groups)
change_accumulators = entry(group_values.change_accumulators)
change_digits = entry(exact_sums.change_digits)
change_extremes = entry(group_values.change_extremes)
change_groups = entry(group_values.change_groups)
change_presence = entry(presence.change_presence)
collect_rows = entry(frontier.collect_rows)
column_limits = entry(key_ranges.column_limits)
consolidate = entry(sort.consolidate)
consolidate_few = entry(sort.consolidate_few)
consolidate_owned = entry(sort.consolidate_owned)
count_asserted = entry(presence.count_asserted)
count_beyond = entry(counted_runs.count_beyond)
count_bounds = entry(prefix_lists.count_bounds)
count_different = entry(narrow_keys.count_different)
count_present_values = entry(group_values.count_present_values)
count_values = entry(counted_runs.count_values)
distinct_timed_runs = entry(presence.distinct_timed_runs)
divide_keys = entry(narrow_keys.divide_keys)
divide_sorted = entry(group_values.divide_sorted)
expand_frontier = entry(frontier.expand_frontier)
expand_lists = entry(prefix_lists.expand_lists)
extend_by_levels = entry(multiway.extend_by_levels)
find_prefixes = entry(prefix_lists.find_prefixes)
find_ranges = entry(key_ranges.find_ranges)
find_rows = entry(hashing.find_rows)
find_shards = entry(placing.find_shards)
first_of_each = entry(partitions.first_of_each)
gather = entry(matches.gather)
gather_bands = entry(nearest.gather_bands)
gather_versions = entry(nearest.gather_versions)
group_requests = entry(prefix_lists.group_requests)
has_many_pairs = entry(grouped_pairs.has_many_pairs)
hash_runs = entry(placing.hash_runs)
intern_rows = entry(hashing.intern_rows)
intersect_lists = entry(prefix_lists.intersect_lists)
is_sorted = entry(sort.is_sorted)
join_bands = entry(matches.join_bands)
join_by_groups = entry(grouped_pairs.join_by_groups)
join_intervals = entry(interval_matches.join_intervals)
join_runs = entry(matches.join_runs)
join_timed_bands = entry(matches.join_timed_bands)
join_timed_intervals = entry(interval_matches.join_timed_intervals)
join_timed_runs = entry(matches.join_timed_runs)
leading = entry(group_values.leading)
leading_versions = entry(group_values.leading_versions)
least_members = entry(partitions.least_members)
list_edges = entry(group_search.list_edges)
list_values = entry(prefix_lists.list_values)
mark_parts = entry(marking.mark_parts)
mark_rows = entry(marking.mark_rows)
means = entry(float_results.means)
merge_backward = entry(run_merge.merge_backward)
merge_runs = entry(run_merge.merge_runs)
moved_bands = entry(nearest.moved_bands)
move_to_ranges = entry(key_ranges.move_to_ranges)
narrow_limits = entry(narrow_keys.narrow_limits)
nearest_present = entry(nearest.nearest_present)
note_rows = entry(bloom_filter.note_rows)
number_column = entry(numbered_values.number_column)
pack_narrow = entry(narrow_keys.pack_narrow)
pack_part = entry(packed_parts.pack_part)
place_rows = entry(hashing.place_rows)
project = entry(sort.project)
quantile_places = entry(float_results.quantile_places)
range_keys = entry(key_ranges.range_keys)
reach_around = entry(nearest.reach_around)
rearrange = entry(sort.rearrange)
register_run = entry(run_search.register_run)
replace_by_key = entry(keyed_rows.replace_by_key)
replace_rows = entry(group_values.replace_rows)
scatter_keys = entry(packed_parts.scatter_keys)
search_groups = entry(group_search.search_groups)
shifted = entry(group_values.shifted)
sort_divided = entry(narrow_keys.sort_divided)
split_rows = entry(placing.split_rows)
sort_owned = entry(sort.sort_owned)
subtract_runs = entry(run_merge.subtract_runs)
sum_runs = entry(run_merge.sum_runs)
sum_repeated = entry(narrow_keys.sum_repeated)
sum_scattered = entry(packed_parts.sum_scattered)
sum_terms = entry(term_sum.sum_terms)
sum_weights = entry(presence.sum_weights)
test_values = entry(prefix_lists.test_values)
total_blocks = entry(counted_runs.total_blocks)
translate_column = entry(numbered_values.translate_column)
transpose_pairs = entry(transpose.transpose_pairs)
unpack_narrow = entry(narrow_keys.unpack_narrow)
unpack_part = entry(packed_parts.unpack_part)
values_at = entry(counted_runs.values_at)
values_between = entry(float_results.values_between)
weigh_values = entry(counted_runs.weigh_values)
with_time = entry(sort.with_time)

__all__ = [
    "accumulate",
    "assert_runs",
    "bound_timed_groups",
    "change_accumulators",
    "change_digits",
    "change_extremes",
    "change_groups",
    "change_presence",
    "column_limits",
    "consolidate",
    "consolidate_few",
    "consolidate_owned",
    "count_asserted",
    "count_beyond",
    "count_bounds",
    "count_different",
    "count_present_values",
    "count_values",
    "distinct_timed_runs",
    "divide_keys",
    "divide_sorted",
    "expand_lists",
    "extend_by_levels",
    "find_prefixes",
    "find_ranges",
    "find_rows",
    "find_shards",
    "first_of_each",
    "gather",
    "gather_bands",
    "gather_versions",
    "group_requests",
    "has_many_pairs",
    "hash_runs",
    "intern_rows",
    "intersect_lists",
    "is_sorted",
    "join_bands",
    "join_by_groups",
    "join_intervals",
    "join_runs",
    "join_timed_bands",
    "join_timed_intervals",
    "join_timed_runs",
    "leading",
    "leading_versions",
    "least_members",
    "list_edges",
    "list_values",
    "mark_parts",
    "mark_rows",
    "means",
    "merge_backward",
    "merge_runs",
    "move_to_ranges",
    "moved_bands",
    "narrow_limits",
    "nearest_present",
    "note_rows",
    "number_column",
    "pack_narrow",
    "pack_part",
    "place_rows",
    "project",
    "quantile_places",
    "range_keys",
    "reach_around",
    "rearrange",
    "register_run",
    "replace_by_key",
    "replace_rows",
    "scatter_keys",
    "search_groups",
    "shifted",
    "sort_divided",
    "sort_owned",
    "split_rows",
    "subtract_runs",
    "sum_repeated",
    "sum_runs",
    "sum_scattered",
    "sum_terms",
    "sum_weights",
    "test_values",
    "total_blocks",
    "translate_column",
    "transpose_pairs",
    "unpack_narrow",
    "unpack_part",
    "values_at",
    "values_between",
    "weigh_values",
    "with_time",
]
