"""What this distribution provides."""

from zephon.plugins import OperatorDescriptor

pack_flat = OperatorDescriptor(
    name="pack_flat",
    summary="Pack documents into flat rows of max_length tokens, nothing flushed before the lane ends",
    impl="zephon_pack.pack_flat:PackFlat",
    samples="zephon_pack.samples:PackFlatSamples",
)
