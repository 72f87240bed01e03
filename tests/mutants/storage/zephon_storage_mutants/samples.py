"""What the author of a toy tells the kit."""

from pathlib import Path

SUITE = "StorageTests"


class Samples:
    """Files of ``toy://`` are files of the local disk; every character of a name means itself."""

    def root(self, folder):
        return f"toy://{folder}"

    def put(self, url, data):
        path = Path(url.removeprefix("toy://"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def get(self, url):
        return Path(url.removeprefix("toy://")).read_bytes()

    def delete(self, url):
        Path(url.removeprefix("toy://")).unlink()
