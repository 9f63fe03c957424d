"""Databases of facts in the style of Datomic: transactions, history, queries, live queries.

A database keeps the datoms `[e a v tx added]` in sorted traces; the circuits of queries read them
from there. Imports the compiler; the command line and Spark import this package.
"""
