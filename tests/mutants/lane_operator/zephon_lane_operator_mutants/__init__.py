"""Lane operators that are right, and lane operators with one fault each, for the tests of the conformance kit."""
