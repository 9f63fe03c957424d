"""Operators of distributed circuits: they place rows on shards, and are the identity on one shard.

`dbsp.operators.stages` puts them into circuits. Imports `dbsp.circuit` and below.
"""
