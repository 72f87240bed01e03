"""Which row groups may hold a row that matches an Arrow expression, by their statistics alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from zephon_parquet.layout import Layout


def matching_groups(layout: Layout, predicate: pc.Expression) -> npt.NDArray[np.bool_]:
    """For each row group, False if surely no row of it matches.

    Arrow decides, from a file that is nothing but the footer. All are kept where it cannot tell (a field or a
    comparison it does not know), and where a floating-point field takes part: minimum and maximum leave NaN out, Arrow
    concludes as if there were none, and ``x != 5`` or ``~(x > 5)`` would lose rows (seen up to 26.0).
    """
    every = np.ones(layout.metadata.num_row_groups, dtype=np.bool_)
    text = str(predicate)
    if "FieldPath" in text or any(field.name in text for field in layout.schema if _has_floats(field.type)):
        return every
    sink = pa.BufferOutputStream()
    layout.metadata.write_metadata_file(sink)
    try:
        fragment = pads.ParquetFileFormat().make_fragment(pa.BufferReader(sink.getvalue()))
        kept = [group.id for group in fragment.subset(predicate).row_groups]
    except (pa.ArrowException, TypeError):
        return every
    matching = np.zeros(layout.metadata.num_row_groups, dtype=np.bool_)
    matching[kept] = True
    return matching


def _has_floats(kind: pa.DataType) -> bool:
    if isinstance(kind, pa.BaseExtensionType):
        return _has_floats(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _has_floats(kind.value_type)
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))
