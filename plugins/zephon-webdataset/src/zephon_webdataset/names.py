"""How a member's name says which row it belongs to and which field of it."""

from __future__ import annotations

import re
from typing import Final

#: The column of the keys.
KEY: Final = "__key__"
#: Members the format keeps for itself: ``__name__`` at the top of the archive.
_META: Final = re.compile(r"__[^/]*__(?:/|\Z)")


def split_name(name: str) -> tuple[str, str] | None:
    """Key and field of a member, as the webdataset library has them.

    The key is all before the first dot of the file name, directories included; the field is the rest, in lower case.

    Returns:
        None for members of no row: names without a dot or with nothing before it (``.DS_Store``), nothing after it,
        and names reserved for metadata.
    """
    folder, slash, base = name.rpartition("/")
    stem, _, extension = base.partition(".")
    if not stem or not extension or _META.match(name):
        return None
    return f"{folder}{slash}{stem}", extension.lower()
