"""The operators of the circuit: one concept per file."""

if __name__ != "dbsp.operators":
    raise ImportError(
        f"this package is imported as 'dbsp.operators', not as {__name__!r}; write 'import dbsp.operators'"
    )
