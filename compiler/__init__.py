"""From program text to a circuit: one folder per language, one file per pass."""

if __name__ != "dbsp.compiler":
    raise ImportError(
        f"this package is imported as 'dbsp.compiler', not as {__name__!r}; write 'import dbsp.compiler'"
    )
