"""Laws of the wire: whatever holds blocks arrives as it was, owns its memory, and no row was pickled for it."""

import decimal
import pickle
from typing import NamedTuple

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.block import Block
from zephon_processes._wire import owned, packed, unpacked, with_envelope
from zephon_testkit.blocks import rows as rows_of
from zephon_testkit.blocks import sample_block

ROWS = 60
KINDS = ("a", "bb", "", "é東", "d" * 40)


def with_missing(values):
    return [None if i % 7 == 3 else value for i, value in enumerate(values)]


def column(name):
    """A column of :data:`ROWS` rows, with missing values where the type has them."""
    n = range(ROWS)
    words = [KINDS[i % 5] * (i % 3) + str(i) for i in n]
    lists = [list(range(i % 5)) for i in n]
    plain = {
        "bool": (pa.bool_(), [i % 3 == 0 for i in n]),
        "int8": (pa.int8(), [i - 30 for i in n]),
        "uint64": (pa.uint64(), [2**64 - 1 - i for i in n]),
        "float16": (pa.float16(), [np.float16(i / 4) for i in n]),
        "float64": (pa.float64(), [i / 7 for i in n]),
        "decimal": (pa.decimal128(20, 3), [decimal.Decimal(i) / 8 for i in n]),
        "date": (pa.date32(), list(n)),
        "timestamp": (pa.timestamp("us", "Europe/Berlin"), list(n)),
        "duration": (pa.duration("ns"), list(n)),
        "string": (pa.string(), words),
        "large_string": (pa.large_string(), words),
        "binary": (pa.binary(), [word.encode() for word in words]),
        "fixed_binary": (pa.binary(4), [i.to_bytes(4, "big") for i in n]),
        "list": (pa.list_(pa.int32()), lists),
        "large_list": (pa.large_list(pa.string()), [[str(v) for v in values] for values in lists]),
        "fixed_list": (pa.list_(pa.float32(), 3), [[i, i + 1, i + 2] for i in n]),
        "struct": (pa.struct([("a", pa.int64()), ("b", pa.string())]), [{"a": i, "b": words[i]} for i in n]),
        "map": (pa.map_(pa.string(), pa.int64()), [[(words[i], i)] * (i % 3) for i in n]),
        "nested": (
            pa.list_(pa.struct([("name", pa.string()), ("tags", pa.list_(pa.string()))])),
            [[{"name": words[i], "tags": [words[i]] * (i % 4)}] * (i % 3) for i in n],
        ),
    }
    if name in plain:
        kind, values = plain[name]
        return pa.array(with_missing(values), kind)
    if name == "null":
        return pa.nulls(ROWS)
    if name == "dictionary":
        return pa.array(with_missing(words)).dictionary_encode()
    if name == "nested_dictionary":
        return pa.array(with_missing([[word] for word in words]), pa.list_(pa.dictionary(pa.int32(), pa.string())))
    if name == "run_ends":
        return pa.RunEndEncodedArray.from_arrays(pa.array([20, 45, ROWS], pa.int32()), pa.array(["x", None, "y"]))
    if name == "sparse_union":
        kinds = pa.array([i % 2 for i in n], pa.int8())
        return pa.UnionArray.from_sparse(kinds, [pa.array(n, pa.int64()), pa.array(words)])
    if name == "string_view":
        return pa.array(with_missing(words), pa.string_view())
    if name == "tensor":
        return pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(ROWS * 6.0).reshape(ROWS, 2, 3))
    assert name == "uuid"
    return pa.array([i.to_bytes(16, "big") for i in n], pa.uuid())


#: Types of which a block never has more than the rows of the block: its columns are of these.
CUT = [
    *("bool", "int8", "uint64", "float16", "float64", "decimal", "date", "timestamp", "duration"),
    *("string", "large_string", "binary", "fixed_binary"),
    *("list", "large_list", "fixed_list", "struct", "map", "nested", "null", "tensor", "uuid"),
]
#: Types whose values lie in a store of their own, which travels whole. Readers turn them into the others.
WHOLE = ["dictionary", "nested_dictionary", "run_ends", "sparse_union", "string_view"]
COLUMNS = {name: column(name) for name in (*CUT, *WHOLE)}


def sent(obj, *, by_value=False, envelope_in_payload=False):
    """The object on the other side of a line, the payload it came in having been overwritten since."""
    message = packed(obj, by_value=by_value)
    if envelope_in_payload:
        message = with_envelope(message)
    payload = bytearray(b"\xee" * message.size)
    message.write(memoryview(payload))
    found = unpacked(message.envelope, message.places, message.streams, owned(memoryview(payload)))
    payload[:] = b"\xdd" * len(payload)
    return found


def check_same(found, batch):
    assert found.schema.equals(batch.schema, check_metadata=True)
    assert found.num_rows == batch.num_rows
    found.validate(full=True)
    assert found.equals(batch)


def batch_of(names, start=0, stop=ROWS):
    fields = [pa.field(name, COLUMNS[name].type, metadata={b"role": name.encode()}) for name in names]
    schema = pa.schema(fields, metadata={b"made": b"here"})
    if not names:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * (stop - start), pa.struct([])))
    return pa.RecordBatch.from_arrays([COLUMNS[name] for name in names], schema=schema).slice(start, stop - start)


@st.composite
def batches(draw):
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), unique=True, max_size=5))
    start, stop = sorted([draw(st.integers(0, ROWS)), draw(st.integers(0, ROWS))])
    return batch_of(names, start, stop)


class Carried(NamedTuple):
    """What tasks and results look like."""

    before: int
    batch: pa.RecordBatch
    after: list[object]


@settings(max_examples=150, deadline=None)
@given(batches(), st.booleans(), st.booleans())
def test_any_batch_arrives_as_it_was_wherever_it_was_cut_from(batch, by_value, envelope_in_payload):
    found = sent(Carried(1, batch, [batch, "x"]), by_value=by_value, envelope_in_payload=envelope_in_payload)
    assert type(found) is Carried
    assert (found.before, found.after[1]) == (1, "x")
    check_same(found.batch, batch)
    check_same(found.after[0], batch)


@settings(max_examples=50, deadline=None)
@given(st.lists(batches(), max_size=6), st.binary(max_size=5000), st.integers(0, 3000))
def test_batches_arrays_and_plain_data_go_side_by_side(several, raw, numbers):
    array = np.arange(numbers, dtype=np.int64)
    found = sent({"batches": several, "raw": raw, "array": array, "again": array})
    for one, other in zip(found["batches"], several, strict=True):
        check_same(one, other)
    assert found["raw"] == raw
    assert np.array_equal(found["array"], array)
    assert found["array"] is found["again"], "one object is one object on the other side, too"


@pytest.mark.parametrize("name", CUT)
@pytest.mark.parametrize("start", [0, 1, 5])
def test_a_slice_of_a_large_column_brings_its_own_bytes_only(name, start):
    large = pa.concat_arrays([COLUMNS[name]] * 200)
    few = pa.RecordBatch.from_arrays([large.slice(1000 + start, 9)], names=["c"])
    alone = pa.RecordBatch.from_arrays([COLUMNS[name].slice((1000 + start) % ROWS, 9)], names=["c"])
    assert alone.equals(few)
    copied = pa.concat_batches([alone.slice(i, 1) for i in range(9)])  # its buffers hold nine rows and no more
    # A bitmap or offsets may begin in the middle of a byte or word.
    assert packed(few).size <= packed(copied).size + 256


@pytest.mark.parametrize("name", WHOLE)
def test_a_column_with_a_store_of_its_own_arrives_also_from_the_middle(name):
    check_same(sent(batch_of([name], 17, 23)), batch_of([name], 17, 23))


@pytest.mark.parametrize("rows", [0, 1, 13])
@pytest.mark.parametrize("names", [[], ["string"]], ids=["no columns", "one column"])
def test_few_rows_and_few_columns(rows, names):
    check_same(sent(batch_of(names, 0, rows)), batch_of(names, 0, rows))


def test_a_block_arrives_with_its_origins_lane_and_index():
    block = sample_block(37).slice(11, 30)
    found = sent([block])[0]
    assert isinstance(found, Block)
    assert rows_of([found]) == rows_of([block])
    assert (found.lane, found.index) == (block.lane, block.index)


class TestTheEnvelope:
    def test_holds_no_row_of_any_batch(self):
        mark = "seldom seen text"
        raw = pa.RecordBatch.from_arrays([pa.array([mark] * 50), pa.array([mark.encode()] * 50)], names=["t", "b"])
        for by_value in (False, True):
            message = packed({"block": raw, "rows": 50}, by_value=by_value)
            assert mark.encode() not in message.envelope
            assert message.streams == [1]
            payload = bytearray(message.size)
            message.write(memoryview(payload))
            assert mark.encode() in payload

    def test_does_not_grow_with_the_rows(self):
        small, large = (packed(Carried(1, batch_of(["string", "list"], 0, rows), [])).envelope for rows in (1, ROWS))
        assert len(small) == len(large)

    def test_holds_no_large_array_whatever_its_kind(self):
        arrays = [
            np.arange(5000, dtype=np.int32),
            np.arange(6000.0).reshape(60, 100),
            np.asfortranarray(np.arange(6000.0).reshape(60, 100)),
            np.zeros(700, dtype=[("a", "<i8"), ("b", "<f4")]),
        ]
        message = packed(arrays)
        assert len(message.envelope) < 1500
        for found, array in zip(sent(arrays), arrays, strict=True):
            assert found.dtype == array.dtype
            assert np.array_equal(found, array)

    def test_is_plain_pickle_where_nothing_is_large(self):
        message = packed({"n": 1})
        assert (pickle.loads(message.envelope), message.places, message.size) == ({"n": 1}, [], 0)


def test_arrays_of_every_shape_of_memory_arrive():
    base = np.arange(24000, dtype=np.int64).reshape(200, 120)
    frozen = base.copy()
    frozen.flags.writeable = False
    arrays = [base[::2], base[:, 3], base.T, base[::-1], base[0:0], np.float32(3.5), np.array(7), frozen]
    for found, array in zip(sent(arrays), arrays, strict=True):
        assert np.array_equal(found, array)
        assert np.asarray(found).dtype == np.asarray(array).dtype
    assert not sent(frozen).flags.writeable


def test_what_is_received_can_be_sent_on():
    once = sent(batch_of(["string", "nested"], 3, 40))
    check_same(sent(once.slice(5, 20)), batch_of(["string", "nested"], 8, 28))


def test_functions_of_no_module_go_by_value_and_only_then():
    offset = 3
    found = sent({"f": lambda n: n + offset, "batch": batch_of(["int8"])}, by_value=True)
    assert found["f"](4) == 7
    check_same(found["batch"], batch_of(["int8"]))
    with pytest.raises((pickle.PicklingError, AttributeError)):
        packed(lambda n: n + offset)


def test_a_batch_inside_a_closure_is_not_pickled_either():
    batch = batch_of(["string"])

    def first():
        return batch.slice(0, 1)

    message = packed(first, by_value=True)
    assert message.streams == [1]
    assert len(message.envelope) < len(cloudpickle.dumps(first))
    check_same(sent(first, by_value=True)(), batch.slice(0, 1))


def test_what_is_received_lies_in_one_piece_of_memory_and_not_in_two():
    batch = pa.RecordBatch.from_arrays([pa.array(np.arange(1 << 18))], names=["n"])
    before = pa.total_allocated_bytes()
    found = sent(batch)
    grown = pa.total_allocated_bytes() - before
    assert found.nbytes <= grown <= found.nbytes + 4096
