"""What crosses is Arrow IPC and owns its memory; slices take nothing of their parents along."""

import copyreg
import pickle

import numpy as np
import pyarrow as pa
import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st

from zephon_ray._wire import LARGE, packed, unpacked
from zephon_testkit.blocks import inside_another, sample_block
from zephon_testkit.programs import Carried, content

ALONE = True


def numbers(rows):
    return pa.record_batch({"n": pa.array(np.arange(rows)), "text": pa.array([f"row {n}" for n in range(rows)])})


def addresses(parcel):
    return [np.frombuffer(piece, np.uint8).__array_interface__["data"][0] for _, piece in parcel.pieces]


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 9))
def test_blocks_arrive_as_they_were(start, rows, lane):
    block = sample_block(90, lane=lane).slice(start, start + rows)
    found = unpacked(packed(Carried(block, "some", (1, 2))))
    assert content(found.block) == content(block)
    assert (found.content, found.numbers) == ("some", (1, 2))


@given(st.lists(st.integers(0, 3 * LARGE), max_size=6))
def test_payloads_of_any_sizes_find_their_places(sizes):
    arrays = [np.full(size, number % 251, np.uint8) for number, size in enumerate(sizes)]
    batches = [pa.record_batch({"b": [bytes([number]) * size]}) for number, size in enumerate(sizes)]
    arrays_found, batches_found = unpacked(packed((arrays, batches)))
    assert all(np.array_equal(a, b) for a, b in zip(arrays, arrays_found, strict=True))
    assert all(a.equals(b) for a, b in zip(batches, batches_found, strict=True))


def test_record_batches_are_not_pickled(monkeypatch):
    def refuse(batch):
        raise AssertionError("a record batch was pickled")

    block = sample_block(50)
    with monkeypatch.context() as patched:
        patched.setitem(copyreg.dispatch_table, pa.RecordBatch, refuse)
        with pytest.raises(AssertionError, match="was pickled"):
            pickle.dumps(block)
        parcel = packed((block, [block.data]))
    found, [data] = unpacked(parcel)
    assert content(found) == content(block)
    assert data.equals(block.data)


def test_a_slice_takes_nothing_of_its_parent_along():
    parent = numbers(1_000_000)
    assert packed(parent.slice(500_000, 10)).size < 2048
    small = sample_block(8)
    assert packed(inside_another(small)).size <= packed(small).size + 256


def test_large_columns_are_sent_from_where_they_lie():
    values = np.arange(LARGE)
    parcel = packed(pa.record_batch({"n": pa.array(values)}))
    assert values.__array_interface__["data"][0] in addresses(parcel)


def test_what_was_unpacked_does_not_look_into_what_came():
    memory = bytearray(numbers(LARGE).column(0).buffers()[1])
    batch = pa.record_batch([pa.Array.from_buffers(pa.int64(), LARGE, [None, pa.py_buffer(memory)])], ["n"])
    found = unpacked(packed((batch, np.frombuffer(memory, np.uint8))))
    memory[:] = bytes(len(memory))
    assert found[0].column(0)[-1].as_py() == LARGE - 1
    assert found[1].any()


def test_functions_that_cannot_be_imported_are_sent_by_value_if_asked():
    factor = 3

    def times(n):
        return factor * n

    with pytest.raises((AttributeError, pickle.PicklingError)):
        packed(times)
    assert unpacked(packed(times, by_value=True))(4) == 12


def test_ray_pickles_a_parcel_without_its_payload():
    parcel = packed(numbers(1_000_000))
    apart = []
    message = ray.cloudpickle.dumps(parcel, protocol=5, buffer_callback=apart.append)
    assert len(message) < 16 << 10
    assert sum(buffer.raw().nbytes for buffer in apart) > 16 << 20
