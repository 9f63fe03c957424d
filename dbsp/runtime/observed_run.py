"""The part of a run that has observers, and names its streams."""

from __future__ import annotations

from dbsp.runtime.pass_observer import PassObserver
from dbsp.runtime.stream_lookup import StreamLookup
from dbsp.runtime.ticks import Ticks


class ObservedRun(Ticks):
    """A run whose passes observers receive; watches and recordings are observers."""

    def lookup(self) -> StreamLookup:
        """Return the streams of the present circuit by their names."""
        return StreamLookup(self.graph, self.input_ports, self.output_ports)

    def attach(self, observer: PassObserver) -> None:
        """Let an observer receive the passes of all ticks from the next one on."""
        self.observers.append(observer)
        observer.observe(self._scope)

    def detach(self, observer: PassObserver) -> None:
        """Let an observer receive no further passes."""
        if observer in self.observers:
            self.observers.remove(observer)
            observer.leave(self._scope)
