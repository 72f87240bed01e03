"""Where the files of a tokenizer are: a directory, a file, a URL, or a repository of the Hugging Face hub."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import attrs

from zephon.abc import StorageBackend
from zephon.errors import ConfigError, StorageError
from zephon.plugins import StorageDescriptor, registry
from zephon.plugins.known import checkout, install_line

_TOKENIZER: Final = "tokenizer.json"
#: Files beside it that name the special tokens; where both have an entry, the first one's counts.
_COMPANIONS: Final = ("tokenizer_config.json", "special_tokens_map.json")
_ATTEMPTS: Final = 4


@attrs.frozen(slots=True, kw_only=True)
class TokenizerFiles:
    """What was found.

    Attributes:
        source: where, fit for messages.
        tokenizer: content of ``tokenizer.json``.
        named: entries of the configuration files beside it.
    """

    source: str
    tokenizer: bytes
    named: Mapping[str, Any]


def find_files(tokenizer_id: str) -> TokenizerFiles:
    """Read the files of a tokenizer.

    Args:
        tokenizer_id: in this order: a URL, the path of a ``tokenizer.json`` or of a directory that holds one, a
            repository of the hub (its local cache is asked before the network).

    Raises:
        ConfigError: ``tokenizer-not-found``, ``tokenizer-unreadable``.
        StorageError: ``tokenizer-unreachable``: the storage kept failing.
    """
    scheme, _, rest = tokenizer_id.partition("://")
    if rest and scheme == "file":
        tokenizer_id = rest
    elif rest:
        return _from_url(tokenizer_id)
    path = Path(tokenizer_id).expanduser()
    if path.exists():
        return _from_path(path)
    if path.is_absolute() or tokenizer_id.startswith((".", "~")) or path.suffix == ".json" or len(path.parts) > 2:
        raise not_found(
            tokenizer_id,
            f"the path {str(path)!r} does not exist (working directory {os.getcwd()!r})",
            "give the path of a tokenizer.json, or of a directory that holds one",
        )
    return _from_hub(tokenizer_id)


def not_found(tokenizer_id: str, found: str, fix: str) -> ConfigError:
    """The error for a tokenizer that is not there."""
    return ConfigError(f"the tokenizer {tokenizer_id!r} is not there", found=found, fix=fix, code="tokenizer-not-found")


def unreadable(source: str, found: str) -> ConfigError:
    """The error for a file that is no tokenizer."""
    return ConfigError(
        f"{source} cannot be read as a tokenizer",
        found=found,
        fix="save it again: AutoTokenizer.from_pretrained(...).save_pretrained(DIRECTORY)",
        code="tokenizer-unreadable",
    )


def _from_path(path: Path) -> TokenizerFiles:
    file = path / _TOKENIZER if path.is_dir() else path
    if not file.is_file():
        raise not_found(
            str(path),
            f"a directory without {_TOKENIZER}; it holds: {', '.join(sorted(os.listdir(path))[:20]) or 'nothing'}",
            f"write a {_TOKENIZER} with AutoTokenizer.from_pretrained({str(path)!r}).save_pretrained({str(path)!r})",
        )

    def companion(name: str) -> bytes | None:
        beside = file.parent / name
        return beside.read_bytes() if beside.is_file() else None

    return _collect(str(file), file.read_bytes(), companion)


def _from_url(url: str) -> TokenizerFiles:
    parts = urlsplit(url)
    shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    if not parts.path.endswith(".json"):
        parts = parts._replace(path=f"{parts.path.rstrip('/')}/{_TOKENIZER}")
    storage = _storage(parts.scheme, shown)

    def read(name: str) -> bytes | None:
        place = parts if name == _TOKENIZER else parts._replace(path=f"{parts.path.rpartition('/')[0]}/{name}")
        return _read(storage, urlunsplit(place), shown)

    content = read(_TOKENIZER)
    if content is None:
        raise not_found(
            shown, "nothing at this URL", f"give the URL of a {_TOKENIZER} or of the directory that holds it"
        )
    # A signed URL opens one file only.
    return _collect(shown, content, read if not parts.query else lambda _: None)


def _storage(scheme: str, shown: str) -> StorageBackend:
    storages = registry("storage")
    described = [d for d in storages.descriptors().values() if isinstance(d, StorageDescriptor)]
    able = [d for d in described if scheme in d.schemes] or [d for d in described if "*" in d.schemes]
    if not able:
        install = install_line("zephon-fsspec", checkout())
        raise not_found(shown, f"no storage plugin reads {scheme}:// URLs", f"{install}; or download the files")
    backend: StorageBackend = storages.load(max(able, key=lambda d: d.priority).name)()
    return backend


def _read(storage: StorageBackend, url: str, shown: str) -> bytes | None:
    """Content of a URL, or None where there is none."""
    for attempt in range(_ATTEMPTS):
        try:
            size = storage.stat(url).size
            return bytes(storage.read_ranges(url, [(0, size)])[0])
        except (FileNotFoundError, IsADirectoryError):
            return None
        except PermissionError as error:
            raise not_found(shown, f"access denied: {error}", "set the credentials of this storage") from None
        except OSError as error:
            if attempt == _ATTEMPTS - 1:
                raise StorageError(
                    f"the tokenizer at {shown} could not be fetched",
                    found=f"{_ATTEMPTS} attempts, the last one: {type(error).__name__}: {error}",
                    fix="try again later, or download the files and give their directory",
                    code="tokenizer-unreachable",
                ) from error
            time.sleep(0.5 * 2**attempt)
    raise AssertionError("unreachable")


def _from_hub(repository: str) -> TokenizerFiles:
    try:
        from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
    except ImportError:
        raise not_found(
            repository,
            "no such file or directory here, and huggingface_hub, which asks the hub, is not installed",
            "give the path of a tokenizer.json, or pip install huggingface_hub",
        ) from None

    def fetch(name: str, revision: str | None = None) -> str:
        cached = try_to_load_from_cache(repository, name, revision=revision)
        if cached is _CACHED_NO_EXIST:
            raise EntryNotFoundError(f"{name} is known not to be in {repository}")
        return cached if isinstance(cached, str) else hf_hub_download(repository, name, revision=revision)

    def explain(name: str, error: Exception) -> ConfigError:
        wanted = " ".join((_TOKENIZER, *_COMPANIONS))
        return not_found(
            repository,
            f"no such file or directory here, and {name} came neither from the local Hugging Face cache nor from the "
            f"hub: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}",
            f"while online: hf download {repository} {wanted}; or give the path of a {_TOKENIZER}",
        )

    # LocalEntryNotFoundError (not reachable) is an EntryNotFoundError (surely absent), which may be an OSError.
    try:
        path = Path(fetch(_TOKENIZER))
    except LocalEntryNotFoundError as error:
        raise explain(_TOKENIZER, error) from error
    except EntryNotFoundError as error:
        raise not_found(
            repository,
            f"the repository has no {_TOKENIZER} (a slow tokenizer only)",
            f"AutoTokenizer.from_pretrained({repository!r}).save_pretrained(DIRECTORY), then tokenizer_id=DIRECTORY",
        ) from error
    except (OSError, ValueError) as error:
        raise explain(_TOKENIZER, error) from error

    def companion(name: str) -> bytes | None:
        # Of the same commit. A file that cannot be had is an error, never taken for absent: else two machines with
        # different caches might disagree on what begins and ends a text.
        try:
            return Path(fetch(name, revision=path.parent.name)).read_bytes()
        except LocalEntryNotFoundError as error:
            raise explain(name, error) from error
        except EntryNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise explain(name, error) from error

    return _collect(repository, path.read_bytes(), companion)


def _collect(source: str, tokenizer: bytes, companion: Callable[[str], bytes | None]) -> TokenizerFiles:
    named: dict[str, Any] = {}
    for name in reversed(_COMPANIONS):
        content = companion(name)
        if content is None:
            continue
        try:
            entries = json.loads(content)
        except ValueError as error:
            raise unreadable(f"{name} beside {source}", str(error)) from None
        if not isinstance(entries, dict):
            raise unreadable(f"{name} beside {source}", f"a {type(entries).__name__}, not an object")
        named.update(entries)
    return TokenizerFiles(source=source, tokenizer=tokenizer, named=named)
