"""Addressed randomness: every draw is a pure function of a key and a counter.

There is no generator object and no state. A *key* is 64 bits derived from names (seed, operator,
dataset, ...); a *counter* is an integer or an array of integers that says which draw is meant. The same
address gives the same word on every machine, in any order, for arrays of any length.

The mixing function is the 64-bit finaliser of SplitMix (Steele, Lea, Flood: "Fast splittable
pseudorandom number generators", OOPSLA 2014, constants of variant 13 by D. Stafford), applied twice with
the key injected between. Keys come from BLAKE2b (RFC 7693), so that related names give unrelated keys.

Nothing here uses Python's ``hash()``, a global generator or a clock.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import numpy as np
import numpy.typing as npt

UInt64Array = npt.NDArray[np.uint64]

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)
_M1: Final = np.uint64(0xBF58476D1CE4E5B9)
_M2: Final = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31 = np.uint64(30), np.uint64(27), np.uint64(31)


def derive_key(*parts: str | int | bytes) -> int:
    """Return a 64-bit key for a name made of several parts.

    Parts are length-prefixed and typed before hashing, so ``("ab", "c")`` and ``("a", "bc")``, or ``1`` and
    ``"1"``, give different keys.

    Args:
        parts: strings, bytes or integers of any size.

    Returns:
        An integer in ``[0, 2**64)``.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        if isinstance(part, str):
            tag, data = b"s", part.encode("utf-8", "surrogatepass")
        elif isinstance(part, bytes):
            tag, data = b"b", part
        else:
            tag, data = b"i", str(int(part)).encode()
        digest.update(tag + str(len(data)).encode() + b":" + data)
    return int.from_bytes(digest.digest(), "little")


def _mix(z: UInt64Array) -> UInt64Array:
    """SplitMix64 finaliser, in place on an array the caller owns."""
    z ^= z >> _S30
    z *= _M1
    z ^= z >> _S27
    z *= _M2
    z ^= z >> _S31
    return z


def words(key: int | np.uint64 | UInt64Array, counters: npt.ArrayLike) -> UInt64Array:
    """Return one 64-bit random word per counter.

    Args:
        key: one key, or an array of keys that broadcasts against ``counters``.
        counters: integers; negative ones are taken modulo 2**64.

    Returns:
        uint64 array of the broadcast shape, owned by the caller.
    """
    key_array = np.asarray(key, dtype=np.uint64)
    counter_array = np.asarray(counters)
    if counter_array.dtype.kind == "i":
        counter_array = counter_array.astype(np.int64).view(np.uint64)
    elif counter_array.dtype != np.uint64:
        counter_array = counter_array.astype(np.uint64)
    with np.errstate(over="ignore"):
        z = np.add(counter_array, np.uint64(1)) * _GAMMA
        z = np.atleast_1d(z)
        _mix(z)
        z = np.atleast_1d(np.asarray(z ^ key_array, dtype=np.uint64))
        z += _GAMMA
        _mix(z)
    shape = np.broadcast_shapes(key_array.shape, counter_array.shape)
    return z.reshape(shape)


def word(key: int, *counters: int) -> int:
    """Return one word for a (possibly nested) scalar address; ``word(k, a, b)`` chains ``words``."""
    value = key
    for counter in counters:
        value = int(words(value, np.uint64(counter & 0xFFFFFFFFFFFFFFFF)))
    return value


def combine(a: npt.ArrayLike, b: npt.ArrayLike) -> UInt64Array:
    """Mix two arrays of 64-bit values into one, order-sensitively (used to nest addresses)."""
    return words(np.asarray(a, dtype=np.uint64), b)


def below(random_words: UInt64Array, limit: int | npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.int64]:
    """Map random words to integers in ``[0, limit)``.

    Multiply-shift on the upper 32 bits where ``limit <= 2**32`` (bias below ``limit / 2**32`` per value,
    Lemire 2019, without the rejection step so that a draw is always one word), modulo otherwise.

    Args:
        random_words: uint64 words.
        limit: positive integers, one or one per word.
    """
    bound = np.asarray(limit, dtype=np.uint64)
    if bound.size and int(bound.max()) <= 1 << 32:
        high = random_words >> np.uint64(32)
        return ((high * bound) >> np.uint64(32)).astype(np.int64)
    return (random_words % bound).astype(np.int64)


def uniform(random_words: UInt64Array) -> npt.NDArray[np.float64]:
    """Map random words to floats in ``[0, 1)`` with 53 random bits."""
    return (random_words >> np.uint64(11)).astype(np.float64) * (1.0 / (1 << 53))
