"""Read Parquet files by chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dbsp.data.schema import Schema
from dbsp.io.data_files import DataFile, Source
from dbsp.io.file_rows import ColumnChoice, FileRows, Part
from dbsp.io.unpack import OPTION, limit_of, too_large

_BATCH_ROWS = 2**18


def read_parquet(
    source: Source,
    *,
    columns: ColumnChoice | None = None,
    filesystem: Any = None,
    max_unpacked: int | None = None,
) -> FileRows:
    """Return the rows of Parquet files as a change for `Run.step`, `insert` and `Program.start`.

    The rows are read when they are needed, by chunks: the files are never in memory as a whole. A
    read of more than a second shows a progress bar on a terminal. Columns match those of the
    relation by name.

    Parameters:
        source: a path, a URL, a glob such as `sales/*.parquet`, a folder, or a list of them. A
            folder stands for all `.parquet` files inside it, and its folders named `key=value` give
            a column, as in Hive. PyArrow opens URLs of s3, gs, hdfs and file; the package fsspec
            opens others.
        columns: the columns to read, all by default. A mapping from names in the file to names in
            the relation also renames them.
        filesystem: the file system of the paths, of PyArrow or fsspec; by default that of the URL.
        max_unpacked: the most bytes to which one file may grow; by default 256 MB, or 100 times its
            size if that is more.

    Raises:
        InputError: there is no such file.
        ArgumentError: an argument has another type.
        SetupError: the URL needs a package that is not installed.

    Examples:
        >>> import pyarrow.parquet
        >>> pyarrow.parquet.write_table(pyarrow.table({"id": [1, 2], "euro": [3.5, 4.0]}), "sale.parquet")
        >>> circuit = Circuit("shop")
        >>> circuit.output("all", circuit.input("sale", id=int, price=float))
        >>> sales = dbsp.read_parquet("sale.parquet", columns={"id": "id", "euro": "price"})
        >>> circuit.start().step({"sale": sales})["all"].to_dict()
        {(1, 3.5): 1, (2, 4.0): 1}
    """
    return ParquetRows(source, columns, filesystem, max_unpacked)


class ParquetRows(FileRows):
    """The rows of Parquet files."""

    format = "Parquet"
    endings = (".parquet", ".pq")

    def parts(self, file: DataFile, fields: Schema, advance: Callable[[int], None]) -> Iterator[Part]:
        import pyarrow as pa
        from pyarrow import parquet

        try:
            with file.filesystem.open_input_file(file.path) as opened:
                metadata = parquet.read_metadata(opened)
                self._check_size(file, metadata)
                written = metadata.schema.to_arrow_schema()
                names = list(written.names)
                texts = [  # PyArrow knows no lists, structs and maps by these names
                    field.name
                    for field in written
                    if field.name in fields.names
                    and fields.type_of(field.name).kind == "str"
                    and not field.type.num_fields
                ]
                reader = parquet.ParquetFile(
                    opened, metadata=metadata, read_dictionary=texts, pre_buffer=True
                )
                for name in self.wanted or ():
                    if name not in names and name not in file.partition:
                        raise self.unknown_column(name, (*names, *file.partition), file)
                chosen = None if self.wanted is None else [name for name in self.wanted if name in names]
                if not metadata.num_rows:
                    yield tuple(chosen or names), [[]] * len(chosen or names), 0
                done = 0
                for batch in reader.iter_batches(_BATCH_ROWS, columns=chosen):
                    yield tuple(batch.schema.names), batch.columns, batch.num_rows
                    share = file.size * batch.num_rows // max(1, metadata.num_rows)
                    advance(share)
                    done += share
                advance(file.size - done)
        except (pa.ArrowException, OSError) as error:
            raise self.unreadable(file, error) from error

    def _check_size(self, file: DataFile, metadata: Any) -> None:
        """Raise InputError if the rows need more memory than the limit allows."""
        limit = limit_of(file.size) if self.max_unpacked is None else self.max_unpacked
        pages = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        if max(pages, 8 * metadata.num_rows * max(1, metadata.num_columns)) > limit:
            raise too_large(limit, file.size, file.shown, OPTION)
