"""Arrays of any shape, encoded as the format's description says, come out as numpy has them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zephon_mds import arrays
from zephon_mds.cells import BadValuesError, Cells

DTYPES = {8: "uint8", 17: "int16", 18: "float16", 33: "int32", 66: "float64"}
some_arrays = st.tuples(st.sampled_from(sorted(DTYPES)), st.integers(1, 3)).flatmap(
    lambda kind: st.tuples(
        st.just(kind[0]),
        st.lists(
            hnp.arrays(
                DTYPES[kind[0]],
                hnp.array_shapes(min_dims=kind[1], max_dims=kind[1], max_side=4),
                elements=st.integers(0, 100),
            ),
            min_size=1,
            max_size=6,
        ),
    )
)


def encoded(array, code, width, has_dtype):
    """One value: dtype, dimensions and width of the lengths, lengths, values."""
    head = bytes([code]) if has_dtype else b""
    head += bytes([array.ndim << 2 | width])
    return head + np.array(array.shape, f"<u{1 << width}").tobytes() + array.tobytes()


def cells_of(values):
    """Values with a byte of noise before each."""
    stops = np.cumsum([1 + len(value) for value in values])
    return Cells(
        pa.py_buffer(b"".join(b"\xff" + value for value in values)),
        stops - [len(value) for value in values],
        stops.astype(np.int64),
    )


@given(some_arrays, st.booleans(), st.data())
def test_arrays_of_any_shape_survive(found, has_dtype, data):
    code, wanted = found
    values = [encoded(array, code, data.draw(st.integers(0, 3)), has_dtype) for array in wanted]
    encoding = "ndarray" if has_dtype else f"ndarray:{DTYPES[code]}"
    kind = arrays.type_of(encoding, None, values[0])
    assert arrays.decode(encoding, kind, cells_of(values)).to_pylist() == [array.tolist() for array in wanted]


@given(some_arrays, st.data())
def test_an_array_cut_anywhere_is_a_bad_value_and_only_that(found, data):
    code, wanted = found
    values = [encoded(array, code, 1, True) for array in wanted]
    kind = arrays.type_of("ndarray", None, values[0])
    place = data.draw(st.integers(0, len(values) - 1))
    values[place] = values[place][: data.draw(st.integers(0, len(values[place]) - 1))]
    with pytest.raises(BadValuesError) as excinfo:
        arrays.decode("ndarray", kind, cells_of(values))
    assert [*excinfo.value.reasons] == [place]


def test_lengths_that_multiply_to_nothing_or_beyond_64_bits_are_bad_values():
    first = encoded(np.zeros((2, 1, 2), np.uint8), 8, 3, True)
    kind = arrays.type_of("ndarray", None, first)
    wrong = [
        first[:2] + np.array(shape, "<u8").tobytes() + bytes(4)
        for shape in ((1 << 33, 0, 2), (1 << 33, 1 << 33, 4), (1 << 63, 1, 4))
    ]
    with pytest.raises(BadValuesError) as excinfo:
        arrays.decode("ndarray", kind, cells_of([first, *wrong]))
    assert [*excinfo.value.reasons] == [1, 2, 3]
