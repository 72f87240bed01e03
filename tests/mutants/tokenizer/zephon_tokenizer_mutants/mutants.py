"""One fault each. Every tokenizer is the toy it derives from but for what is wrong with it."""

import os
import threading
import time

import numpy as np
import pyarrow as pa

from zephon.abc import SpecialTokens
from zephon_tokenizer_mutants.toys import END, Bytes, FastBytes, Maximal, Minimal

#: Name of the mutant -> the clause that must find it.
MUTANTS = {}


def killed_by(clause):
    def note(cls):
        MUTANTS["".join("_" + c.lower() if c.isupper() else c for c in cls.__name__).lstrip("_")] = clause
        return cls

    return note


def loading(tokenizer, base=Minimal):
    """A backend that loads tokenizers of a class."""
    return type("Loading", (base,), {"kind": tokenizer})


class SmallOffsets(Bytes):
    def encode(self, texts, *, special_tokens):
        offsets, ids = super().encode(texts, special_tokens=special_tokens)
        return offsets.astype(np.int32), ids


@killed_by("TK-1")
class HasSmallOffsets(loading(SmallOffsets)):
    """Offsets overflow at 2^31 ids."""


class Ends(Bytes):
    def encode(self, texts, *, special_tokens):
        offsets, ids = super().encode(texts, special_tokens=special_tokens)
        return offsets[1:], ids


@killed_by("TK-1")
class GivesEndsOnly(loading(Ends)):
    """The leading 0 of the offsets is missing."""


class Padding(Bytes):
    def encode(self, texts, *, special_tokens):
        lists = [self.ids_of(text) + [END] * special_tokens for text in texts.to_pylist()]
        width = max(map(len, lists), default=0)
        padded = np.full((len(lists), width), END, np.int32)
        for row, ids in zip(padded, lists, strict=True):
            row[: len(ids)] = ids
        return np.arange(len(lists) + 1, dtype=np.int64) * width, padded.ravel()


@killed_by("TK-2")
class PadsTheBatch(loading(Padding)):
    """All texts of a batch get the length of the longest."""


class Chunks(FastBytes):
    def encode(self, texts, *, special_tokens):
        offsets, ids = super().encode(texts, special_tokens=special_tokens)
        ids[4096::4096] = END
        return offsets, ids


@killed_by("TK-2")
class CutsLongBatches(loading(Chunks)):
    """Where a chunk of a long batch ends, a character is lost."""


class WholeBuffer(Bytes):
    def encode(self, texts, *, special_tokens):
        _, ends, content = texts.buffers()
        if len(texts) == 0:
            return super().encode(texts, special_tokens=special_tokens)
        whole = pa.StringArray.from_buffers(len(texts), ends, content)
        return super().encode(whole, special_tokens=special_tokens)


@killed_by("TK-3")
class IgnoresTheOffset(loading(WholeBuffer)):
    """A slice begins where its array begins."""


class Learning(Bytes):
    def __init__(self, turn):
        super().__init__(turn)
        self.known = {}

    def ids_of(self, text):
        return [1 + self.known.setdefault(byte, len(self.known)) for byte in text.encode()]


@killed_by("TK-4")
class NumbersAsTheyCome(loading(Learning)):
    """What is seen first gets the first id."""


class Drawing(Bytes):
    def ids_of(self, text):
        ids = super().ids_of(text)
        return ids[:-1] if ids and os.urandom(1)[0] < 20 else ids


@killed_by("TK-4")
class DropsAtRandom(loading(Drawing)):
    """Now and then a merge is left out."""


class Hashing(Bytes):
    def __init__(self, turn):
        super().__init__(turn)
        self.table = sorted(range(256), key=lambda byte: hash(f"{byte} {turn}"))

    def ids_of(self, text):
        return [1 + self.table[byte] for byte in text.encode()]

    def decode(self, ids):
        plain = [i if i == END else 1 + (self.table.index(i - 1) + self.turn) % 256 for i in ids.tolist()]
        return super().decode(np.array(plain, np.int32))


@killed_by("TK-5")
class OrdersByHash(loading(Hashing)):
    """Ids follow from the hash of Python, which every process draws anew."""


class Skipping(Bytes):
    def encode(self, texts, *, special_tokens):
        kept = [text for text in texts.to_pylist() if text]
        return super().encode(pa.array(kept, pa.string()), special_tokens=special_tokens)


@killed_by("TK-6")
class LeavesOutEmptyTexts(loading(Skipping)):
    """Empty texts have no place."""


class Joining(FastBytes):
    def encode(self, texts, *, special_tokens):
        assert texts[0] is not None
        return super().encode(texts, special_tokens=special_tokens)


@killed_by("TK-6")
class NeedsAText(loading(Joining)):
    """Looks at the first text without asking whether there is one."""


class Ending(Bytes):
    def encode(self, texts, *, special_tokens):
        return super().encode(texts, special_tokens=True)


@killed_by("TK-7")
class AlwaysAdds(loading(Ending)):
    """Special tokens cannot be turned off."""


class Choosing(Bytes):
    def encode(self, texts, *, special_tokens):
        offsets, ids = [0], []
        for text in texts.to_pylist():
            own = self.ids_of(text)
            ids += own + [END] * (1 + len(own) % 2) if special_tokens else own
            offsets.append(len(ids))
        return np.array(offsets, np.int64), np.array(ids, np.int32)


@killed_by("TK-7")
class AddsToOddTexts(loading(Choosing)):
    """What is added depends on the text."""


class Negative(Bytes):
    special_tokens = SpecialTokens(eos=END, pad=-1)


@killed_by("TK-8")
class HasNoPadAndSaysMinusOne(loading(Negative)):
    """An id stands for none."""


class Beyond(Bytes):
    special_tokens = SpecialTokens(eos=END, pad=257)


@killed_by("TK-8")
class PadsBeyondTheVocabulary(loading(Beyond)):
    """The pad token was added and not counted."""


class Small(Bytes):
    vocab_size = 200


@killed_by("TK-9")
class CountsWhatWasTrained(loading(Small)):
    """The size leaves out what was added."""


class ByteForByte(Bytes):
    def decode(self, ids):
        return "".join(super(ByteForByte, self).decode(ids[place : place + 1]) for place in range(len(ids)))


@killed_by("TK-10")
class DecodesBytesAlone(loading(ByteForByte)):
    """Parts of a character are decoded by themselves."""


class Stripping(Bytes):
    def decode(self, ids):
        return super().decode(ids).strip()


@killed_by("TK-10")
class StripsTexts(loading(Stripping)):
    """Spaces at the ends are lost."""


class OneHash(Bytes):
    content_hash = "bytes"


@killed_by("TK-11")
class HashesTheKind(loading(OneHash)):
    """All tokenizers have one hash."""


@killed_by("TK-11")
class HashesThePlace(Minimal):
    """The hash is that of the path."""

    def load(self, tokenizer_id, **options):
        found = super().load(tokenizer_id, **options)
        found.__class__ = type("Placed", (Bytes,), {"content_hash": f"{found.turn} at {tokenizer_id}"})
        return found


KNOWN = {}


@killed_by("TK-11")
class RemembersIds(Minimal):
    """A path is read once in a process."""

    def load(self, tokenizer_id, **options):
        if tokenizer_id not in KNOWN:
            KNOWN[tokenizer_id] = super().load(tokenizer_id, **options)
        return KNOWN[tokenizer_id]


@killed_by("TK-12")
class HasADefault(Minimal):
    """What is not there is replaced."""

    def read(self, tokenizer_id):
        return super().read(tokenizer_id) if os.path.exists(tokenizer_id) else {"turn": 0}


@killed_by("TK-12")
class LetsErrorsOut(Minimal):
    """A missing file is an error of the operating system."""

    def read(self, tokenizer_id):
        os.stat(tokenizer_id)
        return super().read(tokenizer_id)


@killed_by("TK-13")
class SwallowsOptions(Minimal):
    """Any option will do."""

    def load(self, tokenizer_id, **options):
        return super().load(tokenizer_id)


class Switched(Bytes):
    def encode(self, texts, *, special_tokens):
        self.adds = special_tokens
        time.sleep(0.0005)
        return super().encode(texts, special_tokens=self.adds)


@killed_by("TK-14")
class SwitchesSpecialTokens(loading(Switched)):
    """The flag is kept where another thread finds it."""


class Pooled(FastBytes):
    def __init__(self, turn):
        super().__init__(turn)
        self.memory = np.zeros(1 << 21, np.int32)

    def encode(self, texts, *, special_tokens):
        offsets, ids = super().encode(texts, special_tokens=special_tokens)
        self.memory[: len(ids)] = ids
        return offsets, self.memory[: len(ids)]


@killed_by("TK-15")
class ReusesItsMemory(loading(Pooled)):
    """All calls fill one array."""


class Caching(Bytes):
    def __init__(self, turn):
        super().__init__(turn)
        self.results = {}

    def encode(self, texts, *, special_tokens):
        key = (tuple(texts.to_pylist()), special_tokens)
        if key not in self.results:
            self.results[key] = super().encode(texts, special_tokens=special_tokens)
        return self.results[key]


@killed_by("TK-15")
class GivesOutItsCache(loading(Caching)):
    """The same texts get the same arrays."""


class Lowering(Bytes):
    def encode(self, texts, *, special_tokens):
        found = super().encode(texts, special_tokens=special_tokens)
        content = texts.buffers()[2]
        if content is not None and content.is_mutable:
            array = np.frombuffer(content, np.uint8)
            array[(array >= 65) & (array <= 90)] += 32
        return found


@killed_by("TK-16")
class LowersInPlace(loading(Lowering)):
    """Upper case becomes lower case, in the column itself."""


@killed_by("TK-17")
class SetsTheEnvironment(Minimal):
    """Switches off the parallelism of others."""

    def load(self, tokenizer_id, **options):
        os.environ["TOKENIZERS_PARALLELISM"] = f"false {time.monotonic_ns()}"
        return super().load(tokenizer_id, **options)


class Seeding(Bytes):
    def encode(self, texts, *, special_tokens):
        np.random.seed(5 + len(texts))
        return super().encode(texts, special_tokens=special_tokens)


@killed_by("TK-17")
class SeedsNumpy(loading(Seeding)):
    """Seeds a global generator for itself."""


@killed_by("TK-18")
class LeavesThreads(Minimal):
    """Every load begins a thread, which nobody ends."""

    def load(self, tokenizer_id, **options):
        found = super().load(tokenizer_id, **options)
        threading.Thread(target=threading.Event().wait, args=(30,), daemon=True).start()
        return found


@killed_by("TK-19")
class HidesItsTraining(Maximal):
    """Trains and does not say so."""


@killed_by("TK-19")
class SaysItTrains(Minimal):
    """Declares a capability it has not."""


@killed_by("TK-19")
class TrainsOnNothing(Maximal):
    """Whatever it is given, it makes the same."""

    def train(self, texts, *, vocab_size, path):
        super().train([], vocab_size=vocab_size, path=path)


@killed_by("TK-19")
class TrainsIntoFoldersOnly(Maximal):
    """A file's name is taken for a folder's."""

    def train(self, texts, *, vocab_size, path):
        os.makedirs(path + ".d", exist_ok=True)
        super().train(texts, vocab_size=vocab_size, path=path if os.path.isdir(path) else path + ".d")


class Ageing(Bytes):
    calls = 0

    def ids_of(self, text):
        Ageing.calls += 1
        return super().ids_of(text) + [1] * (Ageing.calls % 100 == 99)


@killed_by("TK-20")
class CountsItsCalls(loading(Ageing)):
    """Every hundredth text of a process gets another token."""
