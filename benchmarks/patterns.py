"""Patterns in a directed graph, each as rules, as a circuit of streams and as SQL.

    triangle   E(a,b), E(b,c), E(a,c)
    cycle4     E(a,b), E(b,c), E(c,d), E(d,a)
    clique4    E(a,b), E(a,c), E(a,d), E(b,c), E(b,d), E(c,d)
    diamond    two triangles on one edge: E(a,b), E(a,c), E(b,c), E(a,d), E(b,d)
    path2      E(a,b), E(b,c)
    star       E(a,b), E(a,c), E(a,d)
    barbell    two triangles and a bridge: E(a,b), E(b,c), E(a,c), E(c,d), E(d,e), E(e,f), E(d,f)

All variables are in the result, and variables may be equal (with c = d every triangle is a
diamond), so that every match is one row with weight 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from dbsp import Circuit, Stream, multiway_join


@dataclass(frozen=True)
class Pattern:
    """`edges` are pairs of variables; a variable is one letter."""

    name: str
    edges: tuple[str, ...]

    @property
    def variables(self) -> tuple[str, ...]:
        return tuple(sorted(set("".join(self.edges))))

    def rules(self) -> str:
        head = ", ".join(self.variables)
        typed = ", ".join(f"{variable}: number" for variable in self.variables)
        body = ", ".join(f"e({x}, {y})" for x, y in self.edges)
        return f"""
            .decl e(x: number, y: number)
            .input e
            .decl result({typed})
            .output result
            result({head}) :- {body}.
        """

    def multiway(self) -> Circuit:
        """Return a circuit with one operator for the whole pattern."""
        circuit = Circuit(self.name)
        edge = circuit.input("e", x=int, y=int, kind="set")
        matches = multiway_join([edge(x, y) for x, y in self.edges], select=list(self.variables))
        circuit.output("result", matches)
        return circuit

    def joins(self, strategy: str = "auto") -> Circuit:
        """Return a circuit that writes the pattern as binary joins, in the order of the edges."""
        circuit = Circuit(self.name, strategy=strategy)
        edge = circuit.input("e", x=int, y=int, kind="set")
        matches: Stream | None = None
        for x, y in self.edges:
            step = edge.rename(**{x: "x", y: "y"})
            if matches is None:
                matches = step
            else:
                shared = [name for name in (x, y) if name in matches.schema.names]
                matches = matches.join(step, on=shared)
        assert matches is not None
        circuit.output("result", matches.select(*self.variables))
        return circuit

    def sql(self) -> str:
        places: dict[str, list[str]] = {}
        for number, (x, y) in enumerate(self.edges):
            places.setdefault(x, []).append(f"e{number}.x")
            places.setdefault(y, []).append(f"e{number}.y")
        columns = ", ".join(f"{places[variable][0]} AS {variable}" for variable in self.variables)
        tables = ", ".join(f"e AS e{number}" for number in range(len(self.edges)))
        equal = [f"{first} = {place}" for first, *others in places.values() for place in others]
        return f"SELECT {columns} FROM {tables} WHERE {' AND '.join(equal)}"


PATTERNS = {
    pattern.name: pattern
    for pattern in (
        Pattern("triangle", ("ab", "bc", "ac")),
        Pattern("cycle4", ("ab", "bc", "cd", "da")),
        Pattern("clique4", tuple(map("".join, combinations("abcd", 2)))),
        Pattern("diamond", ("ab", "ac", "bc", "ad", "bd")),
        Pattern("path2", ("ab", "bc")),
        Pattern("star", ("ab", "ac", "ad")),
        Pattern("barbell", ("ab", "bc", "ac", "cd", "de", "ef", "df")),
    )
}

WORKLOADS = {
    "w2": PATTERNS["triangle"],
    "w5": PATTERNS["cycle4"],
    "clique4": PATTERNS["clique4"],
    "diamond": PATTERNS["diamond"],
}
"""The patterns of the contest, by the name of the workload."""
