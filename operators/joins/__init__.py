"""Joins: binary, range, as-of, semi-, anti- and outer joins, and the multi-way join.

Imports groups and the layers below.
"""
