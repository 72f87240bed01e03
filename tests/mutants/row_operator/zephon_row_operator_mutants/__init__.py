"""Row operators that are right, and row operators with one fault each, for the tests of the conformance kit."""
