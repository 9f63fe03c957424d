"""The placing of a physical circuit on shards: the rules by operator, and the images of streams.

Imports all operators.
"""
