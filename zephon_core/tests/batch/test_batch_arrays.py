"""Columns as numpy, torch and jax: dtypes that never depend on the data, memory that is never shared by accident."""

from __future__ import annotations

import datetime
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.batch import frameworks
from zephon.block import META_PAD_ID, META_PAD_LENGTH, META_PAD_SIDE, META_ROLE
from zephon.errors import ConfigError


def code_of(call, *args, **kwargs):
    with pytest.raises(ConfigError) as caught:
        call(*args, **kwargs)
    return caught.value.code


NUMBERS = {
    "int8": (pa.int8(), np.int8), "uint16": (pa.uint16(), np.uint16), "int64": (pa.int64(), np.int64),
    "float32": (pa.float32(), np.float32), "bool": (pa.bool_(), np.bool_),
}  # fmt: skip


@given(st.lists(st.none() | st.integers(0, 1), max_size=5), st.integers(0, 2), st.sampled_from(sorted(NUMBERS)))
def test_numbers_keep_their_dtype_whether_or_not_there_are_nulls(make_batch, values, fill, kind):
    arrow, dtype = NUMBERS[kind]
    cast = [None if v is None else (bool(v) if kind == "bool" else v) for v in values]
    array = make_batch({"x": pa.array(cast, arrow)}, size=len(values) + fill).to_numpy()["x"]
    assert array.dtype == dtype and len(array) == len(values) + fill and not array.flags.writeable
    nulls = [i for i, v in enumerate(values) if v is None]
    if kind == "float32":
        assert np.flatnonzero(np.isnan(array)).tolist() == nulls
    else:
        assert isinstance(array, np.ma.MaskedArray) == bool(nulls)
        assert np.flatnonzero(np.ma.getmaskarray(array)).tolist() == nulls
    real = [i for i, v in enumerate(values) if v is not None]
    assert np.asarray(array)[real].tolist() == [cast[i] for i in real]
    assert not np.asarray(array)[len(values) :].any()


@given(
    st.lists(st.none() | st.lists(st.integers(0, 9), max_size=5), max_size=5),
    st.integers(0, 2),
    st.sampled_from([b"left", b"right"]),
    st.none() | st.integers(5, 8),
)
@settings(max_examples=80)
def test_ragged_columns_are_padded_as_their_metadata_say(make_batch, rows, fill, side, length):
    metadata = {META_PAD_ID: b"-1", META_PAD_SIDE: side}
    if length is not None:
        metadata[META_PAD_LENGTH] = str(length).encode()
    field = pa.field("x", pa.list_(pa.int16()), metadata=metadata)
    batch = make_batch({"x": pa.array(rows, field.type)}, field, size=len(rows) + fill)
    width = length if length is not None else max((len(r or []) for r in rows), default=2)
    expected = []
    for row in [*rows, *[[]] * fill]:
        blank = [-1] * (width - len(row or []))
        expected.append(blank + (row or []) if side == b"left" else (row or []) + blank)
    array = batch.to_numpy()["x"]
    assert array.dtype == np.int16 and array.shape == (len(rows) + fill, width)
    assert array.tolist() == expected


def test_columns_beside_the_tokens_are_laid_out_like_them(make_batch, tokens_field):
    positions = pa.field("where", pa.list_(pa.int32()), metadata={META_ROLE: b"positions"})
    batch = make_batch(
        {"input_ids": [[1, 2], [3]], "where": [[0, 1], [0]], "kind": [[7, 7], [8]], "weight": [[0.5, 0.5], [1.0]]},
        tokens_field(pad=9, length=4, side="left"),
        positions,
    )
    arrays = batch.to_numpy()
    assert arrays["input_ids"].tolist() == [[9, 9, 1, 2], [9, 9, 9, 3]]
    assert arrays["where"].tolist() == [[0, 0, 0, 1], [0, 0, 0, 0]]
    assert arrays["kind"].tolist() == [[0, 0, 7, 7], [0, 0, 0, 8]]
    assert arrays["weight"].tolist() == [[0, 0, 0.5, 0.5], [0, 0, 0, 1.0]]


def test_ragged_numbers_that_nothing_says_how_to_pad_are_errors_but_do_not_hide_the_rest(make_batch):
    batch = make_batch({"x": [[1.0], [2.0, 3.0]], "n": [1, 2]})
    assert code_of(batch.to_numpy) == "ragged-field"
    assert batch.to_numpy(("n",))["n"].tolist() == [1, 2]
    assert batch["x"].to_pylist() == [[1.0], [2.0, 3.0]]
    even = make_batch({"x": [[1.0, 2.0], [3.0, 4.0]]})
    assert even.to_numpy()["x"].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_fixed_shapes_become_dimensions(make_batch):
    values = np.arange(24, dtype=np.float32).reshape(4, 2, 3)
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(values)
    kind = pa.fixed_shape_tensor(pa.int32(), (2, 3), permutation=(1, 0))
    turned = pa.ExtensionArray.from_storage(kind, pa.array([[0, 1, 2, 3, 4, 5]] * 4, pa.list_(pa.int32(), 6)))
    vector = pa.array([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int64(), 2))
    whole = {"tensor": tensor, "turned": turned, "vector": vector}
    arrays = make_batch(whole, size=5, rows=(1, 5)).to_numpy()
    assert arrays["tensor"].tolist() == [*values[1:].tolist(), np.zeros((2, 3)).tolist()]
    logical = turned.to_tensor().to_numpy()
    assert arrays["turned"][:3].tolist() == logical[1:].tolist() and arrays["turned"].shape == (4, 3, 2)
    assert arrays["vector"].dtype == np.int64 and arrays["vector"].mask[:, 0].tolist() == [True, False, False, False]
    assert arrays["vector"].data[1:].tolist() == [[3, 4], [5, 6], [0, 0]]


def test_everything_else_becomes_python_objects(make_batch):
    batch = make_batch(
        {
            "text": ["a", None],
            "blob": [b"x", b"y"],
            "tags": [["p", "q"], ["r"]],
            "pairs": [[1, 2], [3, 4]],
            "point": [{"x": 1}, {"x": 2}],
            "matrix": [[[1], [2]], [[3], [4]]],
        },
        size=3,
    )
    arrays = batch.to_numpy()
    assert arrays["text"].tolist() == ["a", None, None] and arrays["text"].dtype == object
    assert arrays["tags"].tolist() == [["p", "q"], ["r"], None]
    assert arrays["point"].tolist() == [{"x": 1}, {"x": 2}, None]
    assert arrays["matrix"].shape == (3,) and arrays["matrix"][0] == [[1], [2]]


def test_times_stay_times(make_batch):
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9)
    batch = make_batch(
        {"t": pa.array([moment, None], pa.timestamp("us")), "d": pa.array([moment.date(), None])}, size=3
    )
    arrays = batch.to_numpy()
    assert arrays["t"].dtype == "datetime64[us]" and np.isnat(arrays["t"]).tolist() == [False, True, True]
    assert arrays["d"].dtype == "datetime64[D]" and arrays["t"][0] == np.datetime64(moment)


def test_documents_are_shown_when_they_are_named(make_packed):
    batch = make_packed([[[1, 2], [3]]])
    assert set(batch.to_numpy()) == {"input_ids", "positions"}
    [documents] = batch.to_numpy(("documents",))["documents"]
    assert [d["length"] for d in documents] == [2, 1]


def test_the_attention_mask_is_shown_where_it_was_asked_for_and_never_hides_a_real_column(make_batch, tokens_field):
    field = tokens_field(pad=9)
    marked = field.with_metadata({**field.metadata, b"zephon.attention_mask": b"true"})
    batch = make_batch({"input_ids": [[1, 2, 3], [9]]}, marked, size=3)
    mask = batch.to_numpy()["attention_mask"]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0], [0, 0, 0]] and mask.dtype == np.int32
    assert "attention_mask" in batch and batch["attention_mask"].to_pylist() == [[1, 1, 1], [1], []]
    assert "attention_mask" not in make_batch({"input_ids": [[1]]}, field).to_numpy()
    own = make_batch({"input_ids": [[1, 2]], "attention_mask": [[0, 1]]}, marked)
    assert own.to_numpy()["attention_mask"].tolist() == [[0, 1]]


def test_unknown_fields_are_errors(make_batch):
    assert code_of(make_batch({"n": [1]}).to_numpy, ("m",)) == "field-missing"


def test_zero_copy_views_cannot_be_written_through(make_batch):
    batch = make_batch({"n": pa.array([1, 2, 3]), "x": pa.array([[1, 2], [3, 4], [5, 6]])})
    for array in batch.to_numpy().values():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 9


# -- torch and jax -----------------------------------------------------------------------------------------------------


class Tensor:
    """Stands for a tensor: wraps the array it was made of."""

    def __init__(self, array):
        self.array = array
        self.dtype = array.dtype


@pytest.fixture
def torch(monkeypatch):
    def from_numpy(array):
        if array.dtype == np.uint16:
            raise TypeError("can't convert np.ndarray of type numpy.uint16")
        owner = array if array.base is None else array.base
        assert owner.flags.owndata and array.flags.writeable, "a tensor must own its memory"
        return Tensor(array)

    module = SimpleNamespace(from_numpy=from_numpy)
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture
def jax(monkeypatch):
    def array(values):
        narrow = {np.dtype(np.int64): np.int32, np.dtype(np.float64): np.float32}
        return Tensor(np.array(values, dtype=narrow.get(values.dtype, values.dtype)))

    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(numpy=SimpleNamespace(array=array)))


COLUMNS = {"input_ids": [[1, 2], [3]], "n": pa.array([1, 2], pa.int32()), "text": ["a", "b"], "ok": [True, False]}


def test_torch_gets_memory_of_its_own_and_int64_tokens(make_batch, tokens_field, torch):
    out = make_batch(COLUMNS, tokens_field(pad=9)).to_torch()
    assert out["input_ids"].array.tolist() == [[1, 2], [3, 9]] and out["input_ids"].dtype == np.int64
    assert out["n"].dtype == np.int32 and out["ok"].dtype == np.bool_ and out["text"] == ["a", "b"]
    assert make_batch(COLUMNS, tokens_field(pad=9)).to_torch(("n",)).keys() == {"n"}


def test_to_training_gives_tensors_where_torch_is_and_arrays_where_they_are_asked_for(make_packed, torch):
    batch = make_packed([[[1, 2], [3]]])
    out = batch.to_training(return_labels=True, return_cu_seqlens=True, extra_fields=())
    assert all(isinstance(out[k], Tensor) for k in ("input_ids", "labels", "positions", "max_seqlen"))
    assert [v.array.tolist() for v in out["cu_seqlens"]] == [[0, 2]]
    assert isinstance(batch.to_training(dtype=np.int64)["input_ids"], np.ndarray)
    assert isinstance(batch.to_training(dtype="int32")["input_ids"], Tensor)

    class Dtype:
        def __repr__(self):
            return "torch.int32"

    assert batch.to_training(dtype=Dtype())["input_ids"].dtype == np.int32


def test_every_tensor_of_to_training_owns_its_memory(make_packed, torch):
    batch = make_packed([[[1, 2, 3], [4]], [[5, 6], [7, 8]]], loss=[[1, 0, 1, 1], [1, 1, 1, 1]])
    for labels in (False, True):
        for flatten in (False, True):
            batch.to_training(
                return_labels=labels,
                flatten=flatten,
                return_loss_mask=labels,
                return_padding_mask=True,
                return_document_ids=True,
                return_cu_seqlens=True,
            )  # the stand-in checks each array


@pytest.mark.parametrize(
    ("column", "code"), [(pa.array([1, None]), "null-in-field"), (pa.array([1, 2], pa.uint16()), "no-tensor-form")]
)
def test_what_torch_cannot_hold_is_an_error_that_names_the_field(make_batch, torch, column, code):
    assert code_of(make_batch({"x": column}).to_torch) == code


def test_jax_never_narrows_a_value_in_silence(make_batch, tokens_field, jax):
    out = make_batch(COLUMNS, tokens_field(pad=9)).to_jax()
    assert out["input_ids"].array.tolist() == [[1, 2], [3, 9]] and out["text"] == ["a", "b"]
    assert make_batch({"n": [1, 2]}).to_jax()["n"].dtype == np.int32
    assert code_of(make_batch({"n": [1 << 40]}).to_jax) == "no-tensor-form"


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_a_framework_that_is_not_installed_is_an_error_with_the_line_that_installs_it(make_batch, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError) as caught:
        getattr(make_batch({"n": [1]}), f"to_{name}")()
    assert caught.value.code == "framework-missing" and f"pip install {name}" in caught.value.fix
    assert not frameworks.installed(name)


def test_the_batch_layer_imports_no_framework():
    code = "import sys, zephon.batch; print(sorted({'torch', 'jax', 'pandas'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
