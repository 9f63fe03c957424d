"""The limits of int64 codes and weights, and the code of None.

Kernels compile these numbers in as constants, and their cached machine code does not notice a
change of this file. The numbers belong to the format of stored rows, so they do not change.
"""

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

NULL = INT64_MIN
"""The code of None in a nullable column."""
