"""Storage backends that are right, and storage backends that are wrong in one way each."""
