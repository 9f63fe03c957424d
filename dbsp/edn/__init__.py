"""EDN, the notation of Datomic's data: values, reader and writer.

Imports only the errors; every other package may use it.

>>> from dbsp.edn import read, write
>>> value = read('{:person/name "Ada" :person/tags #{:math}}')
>>> write(value)
'{:person/name "Ada", :person/tags #{:math}}'
"""

from dbsp.edn.edn_forms import Form
from dbsp.edn.edn_reader import read, read_all, read_forms, read_stream
from dbsp.edn.edn_values import Char, EdnList, EdnMap, Keyword, Symbol, Tagged
from dbsp.edn.edn_writer import write, write_pretty
from dbsp.edn.json_form import from_json, read_json_lines, to_json

__all__ = [
    "Char",
    "EdnList",
    "EdnMap",
    "Form",
    "Keyword",
    "Symbol",
    "Tagged",
    "from_json",
    "read",
    "read_all",
    "read_forms",
    "read_json_lines",
    "read_stream",
    "to_json",
    "write",
    "write_pretty",
]
