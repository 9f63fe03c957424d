"""Why a row is in the answer of a query, and why it is not: proofs down to the datoms.

The clauses of the query are searched from the row down. A search reads only the ranges of the
indices that the values known so far select.
"""
