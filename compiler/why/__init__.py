"""Proofs of rows, refusals of missing rows, reasons of changes, and queries about a run.

| file | what it holds |
|---|---|
| `session` | the relations of a run after a tick, and the answers to questions about them |
| `question` | the text of a goal or a body, checked against the program |
| `heights` | all rows with the heights of their smallest proofs |
| `fact_table` | the rows of a relation, with lookup by any columns |
| `solve`, `bindings` | the solutions of a body, given some bound variables |
| `rule_body` | the literals of a rule with their values |
| `prove`, `proof` | from a row down to the input facts |
| `refute`, `refusal` | the closest partial matches of each rule for a missing row |
| `run_before` | a run as it was before its latest tick |
| `change_reason` | why a tick inserted or retracted a row |
| `tick_sides`, `changed_groups` | the rows and literals that differ before and after the tick |
| `change_evidence` | the derivations of a changed row, and what the tick changed in them |
| `change_search`, `circular_derivations` | the smallest explanation of a changed row |
| `change_steps`, `change_display` | the steps of a reason, and its display |
| `opaque_relations` | relations that the rules alone do not determine |
| `equivalence_pairs` | the pairs that connect two values of an equivalence |
| `removals` | rows that a choice, a subsumption or a limit removed, and the rows kept instead |
"""
