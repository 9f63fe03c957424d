"""The namespaces `.str` and `.dt` of expressions.

They are properties of a class of their own, since their names would hide those of a type and of a
module in the annotations of other methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Self

from dbsp.expressions.aggregate_methods import AggregateMethods
from dbsp.expressions.foreign_names import unknown_method
from dbsp.expressions.string_methods import StringMethods
from dbsp.expressions.time_methods import TimeMethods
from dbsp.expressions.value_methods import ValueMethods


class Namespaces(ValueMethods, AggregateMethods):
    """An expression with its methods, those for strings and those for times."""

    @property
    def str(self) -> StringMethods[Self]:
        """The methods for strings, such as `col("s").str.upper()`."""
        return StringMethods(self)

    @property
    def dt(self) -> TimeMethods[Self]:
        """The methods for dates, times and durations, such as `col("t").dt.year()`."""
        return TimeMethods(self)


if not TYPE_CHECKING:  # a type checker reports unknown attributes itself

    def _unknown(namespace):
        def missing(self, name) -> NoReturn:
            if name.startswith("_"):  # looked up by copy, pickle and others before there are attributes
                raise AttributeError(name)
            expression = self._expression if namespace else self
            members = {"": dir(type(expression)), ".str": dir(StringMethods), ".dt": dir(TimeMethods)}
            raise unknown_method(name, namespace, members)

        return missing

    Namespaces.__getattr__ = _unknown("")
    StringMethods.__getattr__ = _unknown(".str")
    TimeMethods.__getattr__ = _unknown(".dt")
