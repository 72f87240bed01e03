"""Specs: frozen attrs classes of plain data, their codec, their fingerprint.

A spec says *what* is wanted and holds no live object. Whatever is a spec can be explained, compared,
fingerprinted, written to a recipe, and sent to a worker.
"""

from zephon.spec.callables import callable_reference, is_importable, resolve_reference, source_hash
from zephon.spec.codec import converter, from_plain, schema_from_plain, to_plain, type_from_plain
from zephon.spec.fields import data_fields, execution, execution_fields, rebuilt, runtime, spec_fields
from zephon.spec.fingerprint import canonical_json, differences, fingerprint

__all__ = [
    "callable_reference",
    "canonical_json",
    "converter",
    "data_fields",
    "differences",
    "execution",
    "execution_fields",
    "fingerprint",
    "from_plain",
    "is_importable",
    "rebuilt",
    "resolve_reference",
    "runtime",
    "schema_from_plain",
    "source_hash",
    "spec_fields",
    "to_plain",
    "type_from_plain",
]
