"""The step of an operator that is a function of Z-sets, applied to each delta separately."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dbsp.circuit.step import Step
from dbsp.data.batch import Batch


class FunctionStep(Step):
    """Applies a function of batches to the inputs of this step.

    Linear operators need nothing else, since they are their own incremental form (DBSP paper,
    theorem 3.3). They map empty inputs to an empty output, so inputs without changes cost nothing.
    """

    __slots__ = ("_empty", "_function", "_sources")

    quiet = True

    def __init__(
        self, function: Callable[..., Batch], sources: Sequence[Step], arities: Sequence[int]
    ) -> None:
        super().__init__()
        self._function = function
        self._sources = tuple(sources)
        self._empty = tuple(Batch.empty(arity) for arity in arities)

    def step(self) -> None:
        self.out = None
        sources = self._sources
        if len(sources) == 1:  # the usual case, without a generator
            batch = sources[0].out
            if batch is None:
                return
            result = self._function(batch)
        else:
            for source in sources:
                if source.out is not None:
                    break
            else:
                return
            result = self._function(
                *(
                    empty if source.out is None else source.out
                    for source, empty in zip(sources, self._empty, strict=True)
                )
            )
        if len(result.weights):
            self.out = result
