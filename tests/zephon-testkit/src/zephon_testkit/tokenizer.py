"""The suite of ``zephon.tokenizer.v1``; the clauses are in ``docs/contracts/tokenizer-v1.md``."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.abc import SpecialTokens, Tokenizer, TokenizerBackend, TrainsTokenizers
from zephon.errors import ConfigError
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_testkit.clauses import clause
from zephon_testkit.encoded import encoded
from zephon_testkit.incomplete import Incomplete
from zephon_testkit.leaks import leaked
from zephon_testkit.packaging import PluginTests
from zephon_testkit.probe import surroundings
from zephon_testkit.profiles import for_all
from zephon_testkit.tables import TEXTS

#: What tokenizers are made from, in the default.
CORPUS: Final = (
    "the quick brown fox jumps over the lazy dog",
    "def function(argument): return argument + 1",
    "Straßenbahn, naïve café, 東京 タワー, Привет мир",
    "1234567890 <b>markup</b> \t tabs and  spaces",
)
#: What another tokenizer is made from.
OTHER_CORPUS: Final = ("pack my box with five dozen liquor jugs", "zebra zebra zebra", "class Other: pass")

#: A vocabulary the default tokenizers fit into: all bytes, one special token, a few merges.
_VOCABULARY: Final = 300

#: Any text; surrogates are none.
_TEXT: Final = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)
_LISTS: Final = st.lists(st.one_of(st.sampled_from([*TEXTS, *CORPUS]), _TEXT), max_size=8)


class TokenizerTests(PluginTests):
    """Subclass it, name the plugin, and make a tokenizer without the plugin::

        class TestBytes(TokenizerTests):
            plugin = "bytes"

            def tokenizer(self, folder, texts):
                library.train(texts).save(folder / "bytes.json")
                return str(folder)

    A backend with the capability ``train`` makes its own where this method is left out.
    """

    point: ClassVar[str] = "tokenizer"
    #: Options of ``load``.
    options: ClassVar[Mapping[str, Any]] = {}
    #: Whether decoding gives back any text as it was, as byte-level tokenizers do.
    lossless: ClassVar[bool] = True

    def tokenizer(self, folder: Path, texts: Sequence[str]) -> str:
        """Make a small tokenizer and return its id, by other means than the plugin.

        Args:
            folder: an existing folder for its files.
            texts: what to make it from; other texts make another tokenizer.
        """
        backend = self.backend()
        if not isinstance(backend, TrainsTokenizers):
            raise Incomplete(
                f"{self.address()} does not train, so the kit has no tokenizer to load: override tokenizer() in a "
                "subclass of TokenizerTests, or name a class with a tokenizer() as samples= in the descriptor"
            )
        backend.train(iter(texts), vocab_size=_VOCABULARY, path=str(folder))
        return str(folder)

    # ------------------------------------------------------------------ what tests are made of

    def backend(self) -> TokenizerBackend:
        """A new backend, with :attr:`settings`."""
        made: TokenizerBackend = self.implementation()(**self.settings)
        return made

    def load(self, tokenizer_id: str) -> Tokenizer:
        """A tokenizer, with :attr:`options`."""
        return self.backend().load(tokenizer_id, **self.options)

    def made(self, folder: Path, texts: Sequence[str] = CORPUS) -> str:
        """The id of a tokenizer in a folder that is made for it."""
        folder.mkdir(parents=True, exist_ok=True)
        return self.tokenizer(folder, texts)

    def loaded(self, folder: Path) -> Tokenizer:
        """A tokenizer, made and loaded."""
        return self.load(self.made(folder / "tokenizer"))

    # ------------------------------------------------------------------ encoding

    @clause("TK-1")
    def test_offsets_and_ids_are_flat_and_typed(self, tmp_path: Path) -> None:
        """If this fails, ``encode`` returns something else than two flat arrays: offsets int64 from 0, one more than
        there are texts, and ids int32, as many as the last offset says.
        """
        tokenizer = self.loaded(tmp_path)

        @for_all(_LISTS, st.booleans())
        def _(texts: list[str], special: bool) -> None:
            offsets, ids = tokenizer.encode(pa.array(texts, pa.string()), special_tokens=special)
            assert isinstance(offsets, np.ndarray)
            assert isinstance(ids, np.ndarray)
            assert (offsets.dtype, ids.dtype) == (np.dtype(np.int64), np.dtype(np.int32))
            assert offsets.shape == (len(texts) + 1,)
            assert ids.shape == (offsets[-1],)
            assert offsets[0] == 0
            assert (np.diff(offsets) >= 0).all()

    @clause("TK-2")
    def test_a_text_has_the_same_ids_in_any_company(self, tmp_path: Path) -> None:
        """If this fails, the ids of a text depend on the batch it is in: padding, truncation, a cut between the
        pieces a long batch is worked off in, a state that goes on from text to text. Blocks end where it suits the
        loader, and nothing may depend on that.
        """
        tokenizer = self.loaded(tmp_path)

        @for_all(_LISTS, st.integers(0, 8), st.booleans())
        def _(texts: list[str], cut: int, special: bool) -> None:
            whole = _encoded(tokenizer, texts, special=special)
            assert (
                _encoded(tokenizer, texts[:cut], special=special) + _encoded(tokenizer, texts[cut:], special=special)
                == whole
            )
            assert [_encoded(tokenizer, [text], special=special)[0] for text in texts] == whole

        many = [f"{CORPUS[number % len(CORPUS)]} {number}" * (1 + number % 9) for number in range(6_000)]
        whole = _encoded(tokenizer, many)
        for start in range(0, len(many), 997):
            assert _encoded(tokenizer, many[start : start + 3]) == whole[start : start + 3], "in a large batch"

    @clause("TK-3")
    def test_a_slice_of_an_array_is_an_array(self, tmp_path: Path) -> None:
        """If this fails, the array's buffers are read without its offset, or past its end. Columns of blocks are slices
        more often than not.
        """
        tokenizer = self.loaded(tmp_path)
        texts = [*TEXTS, *CORPUS, "", "x", *TEXTS]
        whole = pa.array(texts, pa.string())
        expected = _encoded(tokenizer, texts)
        ends = st.integers(0, len(texts))

        @for_all(ends, ends)
        def _(one: int, other: int) -> None:
            start, stop = min(one, other), max(one, other)
            assert _lists(*tokenizer.encode(whole[start:stop], special_tokens=False)) == expected[start:stop]

        nulls = pa.array([None, *texts, None], pa.string())
        assert _lists(*tokenizer.encode(nulls[1:-1], special_tokens=False)) == expected, "a slice without its nulls"

    @clause("TK-4")
    def test_the_same_text_has_the_same_ids(self, tmp_path: Path) -> None:
        """If this fails, ids are drawn (BPE dropout, sampling), depend on what was encoded before, or on which backend
        loaded the tokenizer.
        """
        tokenizer_id = self.made(tmp_path / "tokenizer")
        tokenizer = self.load(tokenizer_id)
        texts = [*CORPUS, *TEXTS]
        expected = _encoded(tokenizer, texts)
        for _ in range(20):
            assert _encoded(tokenizer, texts) == expected
        assert _encoded(tokenizer, texts[::-1]) == expected[::-1]
        assert _encoded(tokenizer, texts) == expected, "they depend on what was encoded before"
        assert _encoded(self.load(tokenizer_id), texts) == expected
        assert _encoded(self.load(tokenizer_id), texts[::-1]) == expected[::-1], "the order decides what gets which id"

    @clause("TK-5")
    def test_another_process_has_the_same_ids(self, tmp_path: Path) -> None:
        """If this fails, something differs from process to process: ``hash()``, the order of a set, the environment.
        Every rank and every worker loads the tokenizer for itself.
        """
        tokenizer_id = self.made(tmp_path / "tokenizer")
        tokenizer = self.load(tokenizer_id)
        texts = [*CORPUS, *TEXTS]
        offsets, ids = tokenizer.encode(pa.array(texts), special_tokens=True)
        found = encoded(self.plugin, self.settings, self.options, tokenizer_id, texts)
        assert (found["offsets"], found["ids"]) == (offsets.tolist(), ids.tolist())
        assert found["hash"] == tokenizer.content_hash
        assert found["vocab_size"] == tokenizer.vocab_size

    @clause("TK-6")
    def test_no_texts_and_empty_texts_are_encoded_too(self, tmp_path: Path) -> None:
        """If this fails, an empty array is an error, or an empty text is left out: every text has its place in the
        offsets, those without ids too.
        """
        tokenizer = self.loaded(tmp_path)
        for special in (False, True):
            offsets, ids = tokenizer.encode(pa.array([], pa.string()), special_tokens=special)
            assert (offsets.tolist(), ids.tolist()) == ([0], [])
            assert (offsets.dtype, ids.dtype) == (np.dtype(np.int64), np.dtype(np.int32))
            empty = _encoded(tokenizer, [""], special=special)
            text = _encoded(tokenizer, [CORPUS[0]], special=special)
            assert (len(empty), len(text)) == (1, 1), "a text without ids has no place"
            mixed = _encoded(tokenizer, ["", CORPUS[0], "", ""], special=special)
            assert mixed == [*empty, *text, *empty, *empty]
            assert _encoded(tokenizer, [""] * 5, special=special) == empty * 5

    @clause("TK-7")
    def test_special_tokens_are_added_around_the_text_or_not_at_all(self, tmp_path: Path) -> None:
        """If this fails, ``special_tokens=False`` adds some all the same, or ``True`` changes more than what stands
        before and after the text. What is added must be the same for every text: the core looks at one to learn it.
        """
        tokenizer = self.loaded(tmp_path)
        texts = [text for text in (*CORPUS, *TEXTS) if text]
        bare, full = _encoded(tokenizer, texts), _encoded(tokenizer, texts, special=True)
        added = set()
        for inner, outer in zip(bare, full, strict=True):
            around = len(outer) - len(inner)
            places = [place for place in range(around + 1) if outer[place : place + len(inner)] == inner]
            assert places, "the ids of the text itself change with special tokens"
            added.add(frozenset((tuple(outer[:p]), tuple(outer[p + len(inner) :])) for p in places))
        assert frozenset.intersection(*added), f"what is added differs from text to text: {added}"
        special = tokenizer.special_tokens
        own = {number for number in (special.bos, special.eos, special.pad) if number is not None}
        plain = _encoded(tokenizer, ["the quick brown fox"])[0]
        assert not own & set(plain), "a text without special tokens has some"

    @clause("TK-8")
    def test_special_tokens_are_ids_of_the_vocabulary(self, tmp_path: Path) -> None:
        """If this fails, ``special_tokens`` is no ``SpecialTokens``, changes, or names an id that is none: None stands
        for what the tokenizer does not have, never 0 or -1.
        """
        tokenizer = self.loaded(tmp_path)
        special = tokenizer.special_tokens
        assert isinstance(special, SpecialTokens)
        for number in (special.bos, special.eos, special.pad):
            assert number is None or isinstance(number, int)
            assert number is None or 0 <= number < tokenizer.vocab_size, f"{number} is no id"
        _encoded(tokenizer, CORPUS, special=True)
        assert tokenizer.special_tokens == special

    @clause("TK-9")
    def test_ids_are_less_than_the_size_of_the_vocabulary(self, tmp_path: Path) -> None:
        """If this fails, ``vocab_size`` leaves out added tokens, or ids that are not used: models allocate that many
        embeddings. It is one more than the largest id.
        """
        tokenizer = self.loaded(tmp_path)
        assert isinstance(tokenizer.vocab_size, int)
        size = tokenizer.vocab_size

        @for_all(st.lists(_TEXT, max_size=8), st.booleans())
        def _(texts: list[str], special: bool) -> None:
            ids = tokenizer.encode(pa.array(texts, pa.string()), special_tokens=special)[1]
            assert ((ids >= 0) & (ids < size)).all()

        every = [chr(code) for code in range(1, 0x180)]
        ids = tokenizer.encode(pa.array([*every, *CORPUS]), special_tokens=True)[1]
        assert ((ids >= 0) & (ids < size)).all()
        assert isinstance(tokenizer.decode(np.array([size - 1], np.int32)), str), "the largest id is no id"

    @clause("TK-10")
    def test_decoding_gives_the_text_back(self, tmp_path: Path) -> None:
        """If this fails, ``decode`` joins pieces with spaces, strips, or decodes bytes that are part of a character. If
        your tokenizer normalises texts, set ``lossless = False``: then a text that was decoded is decoded again as it
        is.
        """
        tokenizer = self.loaded(tmp_path)

        @for_all(st.one_of(st.sampled_from([*TEXTS, *CORPUS]), _TEXT))
        def _(text: str) -> None:
            back = self._there_and_back(tokenizer, text)
            assert back == (text if self.lossless else self._there_and_back(tokenizer, back))

        assert tokenizer.decode(np.array([], np.int32)) == ""

    # ------------------------------------------------------------------ loading

    @clause("TK-11")
    def test_the_hash_is_that_of_the_content(self, tmp_path: Path) -> None:
        """If this fails, ``content_hash`` depends on where the files are or when they were written, leaves out what
        decides about ids, or a tokenizer is remembered by its id though its files have changed. It enters the
        fingerprint of checkpoints: moved files are the same, other ones are not.
        """
        folder, moved = tmp_path / "one", tmp_path / "moved" / "elsewhere"
        tokenizer_id = self.made(folder)
        tokenizer = self.load(tokenizer_id)
        assert isinstance(tokenizer.content_hash, str)
        assert tokenizer.content_hash
        assert self.load(tokenizer_id).content_hash == tokenizer.content_hash
        if str(folder) in tokenizer_id:
            shutil.copytree(folder, moved, copy_function=shutil.copy)
            again = self.load(tokenizer_id.replace(str(folder), str(moved)))
            assert again.content_hash == tokenizer.content_hash, "it depends on the place"
        other_id = self.made(tmp_path / "two", OTHER_CORPUS)
        other = self.load(other_id)
        assert other.content_hash != tokenizer.content_hash, "another tokenizer has the same hash"
        if str(folder) in tokenizer_id:
            shutil.rmtree(folder)
            shutil.copytree(tmp_path / "two", folder)
            replaced = self.load(tokenizer_id)
            assert replaced.content_hash == other.content_hash, "an id is remembered with what it led to"
            assert _encoded(replaced, CORPUS) == _encoded(other, CORPUS)

    @clause("TK-12")
    def test_an_unknown_tokenizer_is_not_found(self, tmp_path: Path) -> None:
        """If this fails, a tokenizer that is not there is an error of your library, or is replaced by another: raise
        ``ConfigError`` with the code ``tokenizer-not-found``.
        """
        (tmp_path / "empty").mkdir()
        for place in (tmp_path / "nowhere", tmp_path / "nowhere" / "tokenizer.json", tmp_path / "empty"):
            with pytest.raises(ConfigError) as caught:
                self.load(str(place))
            assert caught.value.code == "tokenizer-not-found"

    @clause("TK-13")
    def test_an_unknown_option_is_refused(self, tmp_path: Path) -> None:
        """If this fails, ``load`` swallows options it does not know: a misspelt one would change nothing, and nobody
        would notice.
        """
        tokenizer_id = self.made(tmp_path / "tokenizer")
        with pytest.raises((ConfigError, TypeError)):
            self.backend().load(tokenizer_id, **{**self.options, "kit_option": 1})

    # ------------------------------------------------------------------ side by side

    @clause("TK-14")
    def test_one_tokenizer_serves_many_threads(self, tmp_path: Path) -> None:
        """If this fails, calls share something unprotected: a buffer, a cache, a switch that is set for the length of a
        call, such as the one for special tokens.
        """
        tokenizer = self.loaded(tmp_path)
        batches = [[f"{text} {number}" for text in (*CORPUS, *TEXTS)] for number in range(6)]
        expected = [_encoded(tokenizer, batch, special=bool(number % 2)) for number, batch in enumerate(batches)]
        together = threading.Barrier(len(batches))

        def encode(number: int) -> None:
            together.wait(timeout=60)
            for _ in range(20):
                assert _encoded(tokenizer, batches[number], special=bool(number % 2)) == expected[number]
                inner = np.array(expected[number][0], np.int32)
                assert CORPUS[0] in tokenizer.decode(inner) or not self.lossless

        with ThreadPoolExecutor(len(batches)) as pool:
            for done in [pool.submit(encode, number) for number in range(len(batches))]:
                done.result()

    @clause("TK-15")
    def test_what_was_encoded_stays(self, tmp_path: Path) -> None:
        """If this fails, the arrays look into memory that the next call fills again, or are those a cache keeps: who
        gets them may write into them, and must not change what others get.
        """
        tokenizer = self.loaded(tmp_path)
        texts = pa.array([*CORPUS, *TEXTS])
        first: Any = tokenizer.encode(texts, special_tokens=False)
        kept = [array.copy() for array in first]
        tokenizer.encode(pa.array([text[::-1] for text in CORPUS]), special_tokens=False)
        second = tokenizer.encode(texts, special_tokens=False)
        for was, is_now, again in zip(kept, first, second, strict=True):
            assert (was == is_now).all(), "a later call has changed it"
            assert not np.shares_memory(is_now, again), "two results share memory"
            if is_now.flags.writeable:
                is_now[:] = 0
            assert (was == again).all()
        assert _lists(*tokenizer.encode(texts, special_tokens=False)) == _lists(*kept)

    @clause("TK-16")
    def test_texts_and_ids_are_left_alone(self, tmp_path: Path) -> None:
        """If this fails, ``encode`` or ``decode`` writes into what it is given: the array may be a column that others
        read at the same time.
        """
        tokenizer = self.loaded(tmp_path)
        texts = [*(text.upper() for text in CORPUS), *TEXTS]
        array = pa.array(texts)
        ids = tokenizer.encode(array, special_tokens=True)[1]
        assert array.to_pylist() == texts
        kept = ids.copy()
        ids.flags.writeable = False
        tokenizer.decode(ids)
        assert (ids == kept).all()

    @clause("TK-17")
    def test_settings_of_the_process_are_left_alone(self, tmp_path: Path) -> None:
        """If this fails, loading or encoding sets an environment variable (``TOKENIZERS_PARALLELISM``), seeds or draws
        from a global generator, or changes the working directory or a signal handler: they belong to the user.
        """
        tokenizer_id = self.made(tmp_path / "tokenizer")
        before = surroundings()
        tokenizer = self.load(tokenizer_id)
        _encoded(tokenizer, [*CORPUS, *TEXTS], special=True)
        tokenizer.decode(np.array(_encoded(tokenizer, CORPUS)[0], np.int32))
        after = surroundings()
        changed = [key for key in before if key != "threads" and before[key] != after[key]]
        assert not changed, f"changed: {', '.join(changed)}"

    @clause("TK-18")
    def test_nothing_is_left_open(self, tmp_path: Path) -> None:
        """If this fails, loading leaves its files open, or a thread outlives the tokenizer."""
        tokenizer_id = self.made(tmp_path / "tokenizer")

        def work() -> None:
            tokenizer = self.load(tokenizer_id)
            ids = tokenizer.encode(pa.array(CORPUS), special_tokens=True)[1]
            tokenizer.decode(ids)
            with pytest.raises(ConfigError):
                self.load(str(tmp_path / "nowhere"))

        remains = leaked(work)
        assert not remains, "; ".join(remains)

    # ------------------------------------------------------------------ capability, pipeline

    @clause("TK-19")
    def test_what_it_trains_can_be_loaded_or_it_does_not_offer_to_train(self, tmp_path: Path) -> None:
        """If this fails with the capability ``train`` declared: the tokenizer cannot be loaded from the file or
        folder it was written to, is larger than asked for, does not give back any text, or has no ``<|endoftext|>``.
        Without it: there is a ``train`` nobody will call.
        """
        backend = self.backend()
        if not self.has("train"):
            assert not isinstance(backend, TrainsTokenizers), "it has train(), but does not declare the capability"
            return
        assert isinstance(backend, TrainsTokenizers), "the capability is declared, but there is no train()"
        folder = tmp_path / "folder"
        folder.mkdir()
        hashes = set()
        for path in (folder, tmp_path / "tokenizer.json"):
            backend.train((text for text in CORPUS), vocab_size=_VOCABULARY, path=str(path))
            tokenizer = self.load(str(path))
            hashes.add(tokenizer.content_hash)
            assert tokenizer.vocab_size <= _VOCABULARY
            assert tokenizer.special_tokens.eos is not None
            assert tokenizer.decode(np.array([tokenizer.special_tokens.eos], np.int32)) == "<|endoftext|>"
            for text in (*TEXTS, *CORPUS, *OTHER_CORPUS):
                assert self._there_and_back(tokenizer, text) == text
        assert len(hashes) == 1, "the same texts train another tokenizer"
        backend.train(iter(OTHER_CORPUS * 50), vocab_size=_VOCABULARY, path=str(folder))
        assert self.load(str(folder)).content_hash not in hashes, "what it is trained on makes no difference"

    @clause("TK-20")
    def test_a_pipeline_with_it_resumes_everywhere(self, tmp_path: Path) -> None:
        """If this fails although the clauses above hold, something differs between two runs: a clock, the number of
        calls, a global generator.
        """
        from zephon_testkit.resume import check_resume_everywhere

        tokenizer_id = self.made(tmp_path / "tokenizer")
        texts = [f"{CORPUS[number % len(CORPUS)]} {TEXTS[number % len(TEXTS)]} {number}" for number in range(24)]

        def pipeline() -> Pipeline:
            dataset = Dataset.from_dict("data", [{"text": text} for text in texts])
            source = StaticMixtureWorkSource([dataset], {"data": 1.0}, seed=3)
            # As the tokenizer has it: not every one has a beginning and an end to put around texts.
            options = {"field": "text", "backend": self.plugin, "special_tokens": "tokenizer_default"}
            tokenize = _operator("tokenize")(tokenizer_id=tokenizer_id, **options)
            made: Pipeline = Pipeline(source).pipe(tokenize).pipe(_operator("batch")(4))
            return made.options(canonical_replicas=2)

        check_resume_everywhere(pipeline)

    def _there_and_back(self, tokenizer: Tokenizer, text: str) -> str:
        ids = tokenizer.encode(pa.array([text]), special_tokens=False)[1]
        back = tokenizer.decode(ids)
        assert isinstance(back, str)
        return back


def _encoded(tokenizer: Tokenizer, texts: Sequence[str], *, special: bool = False) -> list[list[int]]:
    """The ids of each text."""
    return _lists(*tokenizer.encode(pa.array(texts, pa.string()), special_tokens=special))


def _lists(offsets: Any, ids: Any) -> list[list[int]]:
    bounds, flat = offsets.tolist(), ids.tolist()
    assert bounds[-1] == len(flat)
    return [flat[start:stop] for start, stop in itertools.pairwise(bounds)]


def _operator(name: str) -> Any:
    from zephon.plugins import registry

    try:
        return registry("operator").load(name)
    except Exception as error:
        raise Incomplete(f"pipelines need the operator {name}: install zephon-ops and zephon-text\n{error}") from error
