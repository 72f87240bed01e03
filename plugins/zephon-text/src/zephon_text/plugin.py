"""What this distribution provides, without importing it."""

from zephon.plugins import OperatorDescriptor, TokenizerDescriptor

decode_text = OperatorDescriptor(
    name="decode_text",
    summary="Turn bytes into text and make all line ends \\n",
    impl="zephon_text.decode:DecodeText",
    samples="zephon_text.samples:DecodeTextSamples",
)

tokenize = OperatorDescriptor(
    name="tokenize",
    summary="Turn text into token ids",
    impl="zephon_text.tokenize:Tokenize",
    samples="zephon_text.samples:TokenizeSamples",
)

hf = TokenizerDescriptor(
    name="hf",
    summary="Tokenizers of the Hugging Face tokenizers library (tokenizer.json)",
    impl="zephon_text.hf:HfBackend",
    capabilities={"train"},
)
