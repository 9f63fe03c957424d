"""Why a row is there, why it is not, and questions about what a run holds.

| file | what it holds |
|---|---|
| `session` | the relations of a run after a tick, and the answers about them |
| `question` | the text of a goal or a body, checked against the program |
| `heights` | all rows with the heights of their smallest proofs |
| `fact_table` | rows that are looked up by any columns |
| `solve`, `bindings` | ways to satisfy a body from the values bound so far |
| `rule_body` | the parts of a rule with values |
| `prove`, `proof` | from a row down to the input rows |
| `refute`, `refusal` | how far each rule gets for a row that is not there |
| `whole_rules` | relations whose rows depend on whole relations: proofs end at them |
"""
