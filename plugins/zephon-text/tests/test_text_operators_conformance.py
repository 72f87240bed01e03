"""The conformance kit, on the operators of text with the samples they ship with."""

from zephon_testkit import RowOperatorTests
from zephon_text import samples


class TestDecodeText(samples.DecodeTextSamples, RowOperatorTests):
    plugin = "decode_text"


class TestTokenize(samples.TokenizeSamples, RowOperatorTests):
    plugin = "tokenize"
