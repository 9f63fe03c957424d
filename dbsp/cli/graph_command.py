"""`dbsp graph`: draw the circuit of a program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dbsp.circuit.stage import Stage
from dbsp.cli import options

EXAMPLES = """Examples:

dbsp graph reach.dl -o reach.svg

dbsp graph reach.dl --stage incremental -o reach.svg

dbsp graph reach.dl --source edge=operations --sink path -o reach.svg

dbsp graph reach.dl | dot -Tpdf > reach.pdf"""


def graph(
    program: options.ProgramPath,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write to this file: .dot, .gv, .svg, .png or .pdf. Without it, DOT is printed.",
            show_default=False,
        ),
    ] = None,
    stage: Annotated[
        Stage,
        typer.Option(
            "--stage",
            help="The query circuit as written, the incremental circuit derived from it, the physical "
            "circuit that runs, or the distributed circuit that several shards run.",
        ),
    ] = Stage.QUERY,
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
    from dbsp.circuit import drawing
    from dbsp.cli import program_files

    compiled = program_files.load_program(program, compilation)
    if source or sink:
        from dbsp.operators.streams.spark_pair import named_ports

        query = compiled.circuit_for(compiled.plans)
        circuit = named_ports(query, source or (), sink or ()).circuit(stage)
    else:
        circuit = compiled.circuit(stage)
    title = f"{program.name} ({stage})"
    if output is None:
        print(drawing.to_dot(circuit, title=title), end="")
    else:
        drawing.write(circuit, output, title=title)
