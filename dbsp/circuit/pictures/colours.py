"""Colours of a picture: one per rule, or by what a run measured; both with a legend."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal, TypeAlias

from dbsp.circuit.pictures.picture import LegendLine, Measured, PictureData, PictureNode
from dbsp.display.amounts import duration, memory, row_count

Profile: TypeAlias = Literal["time", "rows", "state"]
"""What the colours of a profile show: the time of the steps, the rows emitted, or the state."""

LEGEND_LINES = 40
"""The greatest number of rules in a legend."""
_STEPS = 5
_GOLDEN = 0.618033988749895


def coloured_by_rule(picture: PictureData) -> PictureData:
    """Return the picture with one colour per rule, and a legend of the rules."""
    texts: dict[str, str] = {}
    for node in picture.nodes:
        if node.rule and not texts.get(node.rule):  # a declaration has the name of its relation
            texts[node.rule] = node.text or node.relation
    fills = {rule: _hue(number) for number, rule in enumerate(texts)}
    lines = [
        LegendLine(f"{rule.rpartition('/')[2]}  {text}".rstrip(), fills[rule]) for rule, text in texts.items()
    ]
    if len(lines) > LEGEND_LINES:
        more = len(lines) - LEGEND_LINES
        lines = [*lines[:LEGEND_LINES], LegendLine(f"and {more:,} more")]
    nodes = (replace(node, fill=fills[node.rule]) if node.rule else node for node in picture.nodes)
    return replace(picture, nodes=tuple(nodes), legend=(*picture.legend, *lines))


def _hue(number: int) -> str:
    """Return a light colour; colours of consecutive numbers are far apart."""
    return _hex(colorsys.hls_to_rgb(number * _GOLDEN % 1, 0.86, 0.75))


def _hex(rgb: tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in rgb)


_AMOUNTS: Mapping[Profile, tuple[str, Callable[[Measured], float | None], Callable[[float], str]]] = {
    "time": ("time of the steps", lambda measured: measured.seconds, duration),
    "rows": ("rows emitted", lambda measured: measured.rows_out, lambda rows: row_count(round(rows))),
    "state": ("state", lambda measured: measured.state_bytes, lambda size: memory(round(size))),
}


def coloured_by_profile(picture: PictureData, profile: Profile) -> PictureData:
    """Return the picture with the measured amounts as colours, and the rows as widths of arrows.

    The colour of a node is the share of the largest amount, from white to red. The width of an
    arrow is the logarithm of the rows that its source emitted.
    """
    title, amount, text = _AMOUNTS[profile]
    amounts = {node.id: amount(node.measured) or 0.0 for node in picture.nodes}
    largest = max(amounts.values(), default=0.0)
    emitted = {node.id: node.measured.rows_out for node in picture.nodes}
    most = max((rows for rows in emitted.values() if rows is not None), default=0)

    def heated(node: PictureNode) -> PictureNode:
        return replace(node, fill=_heat(amounts[node.id] / largest if largest else 0.0))

    def width(rows: int | None) -> float:
        return 1.0 if not rows else 1 + 5 * math.log1p(rows) / math.log1p(most)

    legend = [LegendLine(f"colour: {title}, of {text(sum(amounts.values()))} in all nodes")]
    shares = [step / (_STEPS - 1) for step in range(_STEPS)] if largest else []
    legend += [LegendLine(text(share * largest), _heat(share)) for share in shares]
    if most:
        legend.append(LegendLine(f"width of an arrow: rows, up to {row_count(most)} (logarithmic)"))
    return replace(
        picture,
        nodes=tuple(map(heated, picture.nodes)),
        edges=tuple(replace(edge, width=width(emitted[edge.source])) for edge in picture.edges),
        legend=(*picture.legend, *legend),
    )


def _heat(share: float) -> str:
    """Return the colour of a share: white for 0, red for 1; small shares differ visibly."""
    strength = math.sqrt(share)
    return _hex((1.0, 1 - 0.62 * strength, 1 - 0.72 * strength))
