"""A distributed circuit on Spark's executors: one tick is one Spark job, state is in files.

`cluster_run` has the run of the driver; `segment_tasks` what the executors run.
"""
