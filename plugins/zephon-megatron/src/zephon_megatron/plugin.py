"""What this distribution provides, without importing it."""

from zephon.plugins import ShardFormatDescriptor

megatron = ShardFormatDescriptor(
    name="megatron",
    summary="tokens in Megatron .bin/.idx, datatrove .ds and .npy files; a row is a document or a window",
    impl="zephon_megatron.format:MegatronFormat",
    capabilities={"ranges"},
    samples="zephon_megatron.samples:MegatronSamples",
    suffixes=(".idx", ".ds", ".npy"),
    magic=(b"MMIDIDX\x00\x00",),
)
