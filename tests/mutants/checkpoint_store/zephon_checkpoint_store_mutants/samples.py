"""What the author of a toy tells the kit."""

SUITE = "CheckpointStoreTests"


class Samples:
    """Places of ``toy://`` are folders of the local disk."""

    def location(self, folder):
        return f"toy://{folder}"
