"""Terms and formulas: the nodes that the parsed and the checked program are made of, and ways through them.

`syntax` has one class for each kind of term and formula, `kinds` the kinds that inference gives to terms,
`traversal` what is done to nodes of all kinds alike. A new kind of term is a class in `syntax`; what means
something else for it stands in `meaning.infer` (its kind), `meaning.show` (its text) and
`meaning.term_expressions` (its value). Imports nothing of the compiler.
"""
