"""Why a row is there, why it is not, and questions about what a run holds.

question   the text of a goal or a body, checked against the program
state      the relations of a run after a tick
heights    all rows with the heights of their smallest proofs
table      rows that are looked up by any columns
solve      ways to satisfy a body from what is bound
body       the parts of a rule with values
prove      from a row down to what was put in
refute     how far each rule gets for a row that is not there
"""
