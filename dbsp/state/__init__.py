"""The state of a run between ticks: traces of sorted runs, state tables, and their journal.

A tick changes all of its state or none: a journal records each change, and the tick then commits or
rolls back. This package imports data and kernels. The runtime owns the state; operators get it from
their scope.
"""
