"""What a run keeps between ticks: traces of sorted runs, state tables, and their journal.

All of it is all or nothing with the tick: each change is recorded in a journal, then committed or
rolled back. Imports data and kernels. The runtime owns the state; operators ask their scope for it.
"""
