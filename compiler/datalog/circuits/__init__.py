"""From plans to the query circuit, and reports about both.

`lower` goes through the program, `stratum_lowering` makes the relations of one stratum and
`rule_lowering` the rows of one rule; `lowering_context` is what they share, and
`special_relations` has the streams of relations that are more than sets of rows.

Imports tree, meaning, rewrites, plans and the operators.
"""
