"""Rows as a table in a file: CSV, or Parquet by pyarrow."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from compute.export.scene import SceneError
from compute.files import whole, whole_file

PARQUET_INSTALL = "pip install 'fieldlab[data]'"

Rows = Sequence[Mapping[str, Any]]


def require(path: Path) -> None:
    """Raise SceneError if a table `path` could not be written: before hours of work."""
    if path.suffix.lower() not in WRITERS:
        raise SceneError(f"a table must end in one of {', '.join(WRITERS)}, not {path.name!r}")
    if path.suffix.lower() == ".parquet":
        _pyarrow()


def write(path: Path, rows: Rows, about: str) -> None:
    """Write `rows`, a column for every name in any of them, as `path`. about: JSON that a Parquet file holds, too."""
    require(path)
    names = list(dict.fromkeys(name for row in rows for name in row))
    WRITERS[path.suffix.lower()](path, rows, names, about)


def _csv(path: Path, rows: Rows, names: list[str], _about: str) -> None:
    with whole(path) as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(row.get(name)) for name in names] for row in rows)


def _cell(value: Any) -> Any:
    """JSON's words for what is no number and no text: true, false, lists; nothing for what is not there."""
    if value is None or isinstance(value, str):
        return value or ""
    return repr(value) if isinstance(value, float) else json.dumps(value)


def _parquet(path: Path, rows: Rows, names: list[str], about: str) -> None:
    arrow = _pyarrow()
    columns = {name: arrow.array(_column([row.get(name) for row in rows])) for name in names}
    table = arrow.table(columns).replace_schema_metadata({"fieldlab": about})
    with whole_file(path) as made:
        import_module("pyarrow.parquet").write_table(table, str(made))


def _column(values: list[Any]) -> list[Any]:
    """Of one type: numbers, switches, or else text."""
    present = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in present) or all(isinstance(value, str) for value in present):
        return values
    if all(isinstance(value, int) and not isinstance(value, bool) for value in present):
        return values
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return [None if value is None else float(value) for value in values]
    return [None if value is None else str(_cell(value)) for value in values]


def _pyarrow() -> Any:
    try:
        return import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise SceneError(f"Parquet needs the package pyarrow: {PARQUET_INSTALL}") from error


WRITERS: dict[str, Callable[[Path, Rows, list[str], str], None]] = {".csv": _csv, ".parquet": _parquet}
