"""Rewritings of a checked program: the same outputs from rules that cost a run less.

Each rewriting is a function from a program to a program, in one file. It appends a description of
its changes, for `explain`. Inputs and outputs hold the same rows after it, at every tick and under
deletions; other relations may disappear or hold fewer rows.
`compiler.datalog.compiler_passes` lists the rewritings in their order.
"""
