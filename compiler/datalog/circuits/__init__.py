"""From plans to the query circuit, and reports about both.

`lower` builds the circuit of a program, `stratum_lowering` the relations of one stratum, and
`rule_lowering` the rows of one rule. They share `lowering_context`. `special_relations` builds the
streams of equivalences, choice domains and subsumptions.

Imports tree, meaning, rewrites, plans and the operators.
"""
