"""What the passes over one circuit share, besides the changes that they record."""

from __future__ import annotations

from dbsp.circuit.pass_manager import PassContext
from dbsp.lazy_dataclass import dataclass
from dbsp.operators.stages.join_strategy import JoinStrategy


@dataclass(kw_only=True)
class CircuitContext(PassContext):
    """The context of the passes over a circuit that is built by hand.

    The circuits of compiled programs have other contexts: the compiler has planned their joins.
    """

    strategy: JoinStrategy
