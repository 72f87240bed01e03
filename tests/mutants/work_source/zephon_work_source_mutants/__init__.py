"""Work sources that are right, and such with one fault each."""
