"""Datomic's query language: from EDN or Python data to checked rules, and from there to a circuit.

The packages, each of which imports only the ones before it: tree, text, meaning, circuits. Checked
rules are those of `compiler.datalog.meaning`, so rewrites, planner and circuits are shared.
"""
