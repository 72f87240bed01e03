"""Arrays of any shape, serialized as the format's description says, come out as numpy has them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from zephon_litdata import arrays
from zephon_litdata.cells import BadValuesError, Cells

DTYPES = {4: "uint8", 1: "int16", 8: "float16", 3: "int64", 10: "float64", 13: "bool"}
TORCH = {"uint8": 11, "int16": 14, "float16": 9, "int64": 18, "float64": 3, "bool": 19}
some_arrays = st.tuples(st.sampled_from(sorted(DTYPES)), st.sampled_from([0, 2, 3])).flatmap(
    lambda kind: st.tuples(
        st.just(kind[0]),
        st.lists(
            hnp.arrays(
                DTYPES[kind[0]],
                hnp.array_shapes(min_dims=kind[1], max_dims=kind[1], min_side=0, max_side=4) if kind[1] else (),
                elements=st.booleans() if kind[0] == 13 else st.integers(0, 100),
            ),
            min_size=1,
            max_size=6,
        ),
    )
)


def serialized(array, code, order):
    """One value: dtype, number of dimensions, their lengths, values."""
    return np.array([code, array.ndim, *array.shape], f"{order}u4").tobytes() + array.tobytes()


def cells_of(values):
    """Values with a byte of noise before each."""
    stops = np.cumsum([1 + len(value) for value in values])
    return Cells(
        pa.py_buffer(b"".join(b"\xff" + value for value in values)),
        stops - [len(value) for value in values],
        stops.astype(np.int64),
    )


@given(some_arrays, st.sampled_from(["numpy", "tensor, old", "tensor"]))
def test_arrays_of_any_shape_survive(found, kind):
    code, wanted = found
    serializer, order = kind.partition(",")[0], ">" if kind == "tensor" else "<"
    stated = code if serializer == "numpy" else TORCH[DTYPES[code]]
    values = [serialized(array, stated, order) for array in wanted]
    arrow = arrays.type_of(serializer, values[0])
    assert arrays.decode(serializer, arrow, cells_of(values)).to_pylist() == [array.tolist() for array in wanted]


@given(some_arrays, st.data())
def test_an_array_cut_anywhere_is_a_bad_value_and_only_that(found, data):
    code, wanted = found
    values = [serialized(array, code, "<") for array in wanted]
    arrow = arrays.type_of("numpy", values[0])
    place = data.draw(st.integers(0, len(values) - 1))
    values[place] = values[place][: data.draw(st.integers(0, len(values[place]) - 1))]
    with pytest.raises(BadValuesError) as excinfo:
        arrays.decode("numpy", arrow, cells_of(values))
    assert [*excinfo.value.reasons] == [place]


def test_lengths_that_multiply_to_nothing_or_beyond_64_bits_are_bad_values():
    first = serialized(np.zeros((2, 0, 2), np.uint8), 4, "<")
    arrow = arrays.type_of("numpy", first)
    most = (1 << 32) - 1
    wrong = [first[:8] + np.array(shape, "<u4").tobytes() for shape in ((most, 0, 2), (most, most, 0), (most,) * 3)]
    with pytest.raises(BadValuesError) as excinfo:
        arrays.decode("numpy", arrow, cells_of([first, *wrong]))
    assert [*excinfo.value.reasons] == [1, 2, 3]
    assert arrays.decode("numpy", arrow, cells_of([first])).to_pylist() == [[[], []]]
