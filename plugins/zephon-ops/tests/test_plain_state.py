"""A user's state as JSON and Arrow: what goes in comes out, of the same classes, in the same order, sharing nothing."""

from __future__ import annotations

import json
import math
from collections import Counter, OrderedDict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.errors import ConfigError
from zephon_ops.plain_state import decode_state, encode_state

keys = st.integers() | st.text(st.characters(codec="utf-8"), max_size=4) | st.booleans() | st.tuples(st.integers())
arrays = st.builds(
    lambda n, dtype: np.arange(n).astype(dtype), st.integers(0, 4), st.sampled_from(["i4", "f8", "?", "U3", "M8[s]"])
)
states = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(codec="utf-8"), max_size=5)
    | st.binary(max_size=5)
    | st.builds(
        lambda n, k: np.arange(n).astype(k), st.integers(0, 4), st.sampled_from(["i4", "f8", "?", "U3", "M8[s]"])
    )
    | st.builds(np.float32, st.integers(0, 9)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=3)
        | st.just({"$tuple": [1]})
        | st.just({"$bytes": 0})
    ),
    max_leaves=8,
)


def through_json(state):
    tree, tables = encode_state(state, "test")
    text = json.dumps(tree, sort_keys=True, allow_nan=False, ensure_ascii=False).encode()
    return decode_state(json.loads(text), tables)


def identical(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(identical, a, b))
    if isinstance(a, dict):
        return identical(list(a.items()), list(b.items()))
    if isinstance(a, float) and math.isnan(a):
        return math.isnan(b)
    if isinstance(a, (np.ndarray, np.generic)):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return a == b


@settings(max_examples=100, deadline=None)
@given(state=states)
def test_a_state_survives_any_json_writer(state):
    assert identical(through_json(state), state)


def test_arrow_data_is_referred_to_and_comes_back():
    array, batch = pa.array([1, None]), pa.record_batch({"a": ["x"]})
    tree, tables = encode_state({"a": [array], "b": batch}, "test")
    assert tables["arrow.1"] is batch
    found = decode_state(tree, tables)
    assert found["a"][0].equals(array)
    assert found["b"].equals(batch)


def test_an_encoded_state_shares_nothing_that_can_change():
    state = {"list": [1], "array": np.zeros(2)}
    encoded = encode_state(state, "test")
    state["list"].append(2)
    state["array"][0] = 9
    first, second = decode_state(*encoded), decode_state(*encoded)
    first["array"][1] = 5
    first["list"].append(3)
    assert second["list"] == [1]
    assert second["array"].tolist() == [0, 0]


def test_arrays_keep_shape_order_and_can_be_written_to():
    array = np.asfortranarray(np.arange(6).reshape(2, 3))
    found = through_json(array)
    assert found.flags.f_contiguous
    assert (found == array).all()
    found[0, 0] = 7


class Text(str):
    __slots__ = ()


loop: list = []
loop.append(loop)


@pytest.mark.parametrize(
    "state",
    [
        object(),
        {1},
        Counter("aab"),
        OrderedDict(a=1),
        Text("x"),
        "\ud800",
        np.array([None]),
        [{"deep": (1, {2})}],
        loop,
        bytearray(b"x"),
        pa.table({"a": [1]}),
        len,
    ],
    ids=lambda s: type(s).__name__,
)
def test_what_would_come_back_as_something_else_is_refused(state):
    with pytest.raises(ConfigError) as info:
        encode_state(state, "test")
    assert info.value.code == "state-not-plain"


def test_the_error_says_where_in_the_state():
    with pytest.raises(ConfigError) as info:
        encode_state({"a": [0, {"b": {1}}]}, "test")
    assert "state['a'][1]['b']" in info.value.found
