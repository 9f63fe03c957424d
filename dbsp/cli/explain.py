"""`dbsp explain`: how a program will be evaluated, in words."""

from __future__ import annotations

from dbsp.cli import options

EXAMPLES = """Example:

dbsp explain reach.dl"""


def explain(program: options.ProgramPath) -> None:
    """Say how a program is evaluated: its strata, the order of work in each rule, its recursion."""
    from dbsp.cli import session

    print(session.load_program(program).explain().rstrip("\n"))
