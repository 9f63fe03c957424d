"""`dbsp graph`: draw the circuit of a program."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dbsp.circuit.stage import Stage
from dbsp.cli import options

EXAMPLES = """Examples:

dbsp graph reach.dl -o reach.svg

dbsp graph reach.dl --stage incremental -o reach.svg

dbsp graph reach.dl --stages -o reach.svg
    draws the query, incremental and physical circuit side by side

dbsp graph reach.dl --overview -o reach.svg
    draws the relations and how they depend on each other

dbsp graph reach.dl --only path --depth 4 --collapse rules -o reach.svg
    draws the rules that lead to path

dbsp graph reach.dl --source edge=operations --sink path -o reach.svg

dbsp graph reach.dl | dot -Tpdf > reach.pdf"""


class Grouping(StrEnum):
    """What `--collapse` draws as one node."""

    RULES = "rules"
    STRATA = "strata"
    SCOPES = "scopes"


def graph(
    program: options.ProgramPath,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to this file: .svg, .png, .pdf, .dot, .gv, .mmd (Mermaid) or .json. Without it, DOT "
            "is printed.",
            show_default=False,
        ),
    ] = None,
    stage: Annotated[
        list[Stage] | None,
        typer.Option(
            "--stage",
            help="The query circuit as written, the incremental circuit derived from it, the physical "
            "circuit that runs, or the distributed circuit that several shards run. Repeat it to draw "
            "several side by side. Default: query.",
            show_default=False,
        ),
    ] = None,
    stages: Annotated[
        bool,
        typer.Option(
            "--stages",
            help="Draw the query, incremental and physical circuit side by side; parts of one rule have "
            "the same colour.",
        ),
    ] = False,
    overview: Annotated[
        bool,
        typer.Option(
            "--overview",
            help="Draw the relations of the program and their strata instead of a circuit; negations and "
            "aggregates are marked.",
        ),
    ] = False,
    only: Annotated[
        str | None,
        typer.Option(
            "--only", metavar="RELATION", help="Draw only what leads to this relation.", show_default=False
        ),
    ] = None,
    readers: Annotated[
        bool, typer.Option("--readers", help="With --only: draw what depends on the relation, too.")
    ] = False,
    depth: Annotated[
        int | None,
        typer.Option(
            "--depth",
            metavar="N",
            min=0,
            help="With --only: draw at most N arrows from the relation.",
            show_default=False,
        ),
    ] = None,
    collapse: Annotated[
        Grouping | None,
        typer.Option(
            "--collapse",
            help="Draw one node for each rule, for each stratum, or for each recursive scope.",
            show_default=False,
        ),
    ] = None,
    critical: Annotated[
        bool, typer.Option("--critical", help="Mark the longest path, by the number of its nodes.")
    ] = False,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--source",
            metavar="INPUT=ENCODING",
            help="Show an input as the source of a Spark pipeline; can be repeated.",
            show_default=False,
        ),
    ] = None,
    sink: Annotated[
        list[str] | None,
        typer.Option(
            "--sink",
            metavar="OUTPUT=ENCODING",
            help="Show an output as the sink of a Spark pipeline; can be repeated.",
            show_default=False,
        ),
    ] = None,
    compilation: options.Compilation,
) -> None:
    """Draw the circuit of a program, as DOT or as an image.

    Boxes are operators, arrows are streams, frames are recursive scopes. Each box names its rule.
    """
    from dbsp.circuit.circuit_drawing import drawing_of, picture_of_stages
    from dbsp.cli import program_files

    if overview and (stage or stages or source or sink):
        raise options.invalid_option("--overview draws relations, and no stage, source or sink of a circuit")
    if stage and stages:
        raise options.invalid_option("--stages names the stages itself; leave out --stage")
    if only is None and (readers or depth is not None):
        option = "--readers" if readers else "--depth"
        raise options.invalid_option(
            f"{option} selects nodes around a relation; name the relation with --only"
        )
    compiled = program_files.load_program(program, compilation)
    drawn = [Stage.QUERY, Stage.INCREMENTAL, Stage.PHYSICAL] if stages else list(dict.fromkeys(stage or ()))
    drawn = drawn or [Stage.QUERY]
    if overview:
        from dbsp.compiler.datalog.circuits.relation_overview import relations_picture

        picture = relations_picture(compiled.checked, program.name)
    elif source or sink:
        from dbsp.operators.streams.spark_pair import named_ports

        query = compiled.circuit_for(compiled.plans)
        ports = named_ports(query, source or (), sink or ())
        picture = picture_of_stages({name: ports.circuit(name) for name in drawn})
    else:
        picture = picture_of_stages({name: compiled.circuit(name) for name in drawn})
    what = "relations" if overview else ", ".join(drawn)
    drawing = drawing_of(
        picture,
        output,
        only=only,
        readers=readers,
        depth=depth,
        collapse=None if collapse is None else collapse.value,
        critical="nodes" if critical else None,
        title=f"{program.name} ({what})",
    )
    if output is None:
        print(drawing.to_dot(), end="")
