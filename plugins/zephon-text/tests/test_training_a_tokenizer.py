"""A tokenizer trained here is one that can be loaded, and gives back any text."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from zephon.abc import TrainsTokenizers
from zephon.plugins import registry


def trained(folder):
    backend = registry("tokenizer").load("hf")()
    assert isinstance(backend, TrainsTokenizers)
    assert "train" in registry("tokenizer").describe("hf").capabilities
    backend.train((f"def f{i}(x): return x" for i in range(50)), vocab_size=300, path=str(folder))
    return backend.load(str(folder))


def test_training_twice_on_the_same_text_gives_the_same_tokenizer(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    assert trained(one).content_hash == trained(two).content_hash
    assert trained(one).vocab_size <= 300


def test_any_text_comes_back(tmp_path):
    tokenizer = trained(tmp_path)
    assert tokenizer.special_tokens.eos == 0

    @given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
    def comes_back(text):
        offsets, ids = tokenizer.encode(pa.array([text]), special_tokens=False)
        assert offsets.tolist() == [0, len(ids)]
        assert tokenizer.decode(np.array(ids)) == text

    comes_back()
