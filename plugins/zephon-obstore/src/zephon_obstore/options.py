"""Storage options: the names people use with fsspec's libraries, put into obstore's own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

#: fsspec's names (s3fs, gcsfs, adlfs) and obstore's for the same thing; any other name is obstore's own.
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "s3": {
        "key": "access_key_id",
        "secret": "secret_access_key",
        "token": "session_token",
        "endpoint_url": "endpoint",
        "region_name": "region",
        "anon": "skip_signature",
    },
    "gcs": {"endpoint_url": "base_url", "anon": "skip_signature"},
    "azure": {"endpoint_url": "endpoint", "anon": "skip_signature", "sas_token": "sas_key"},
}

#: What obstore's constructors take beside their configuration.
_BESIDE: Final = ("client_options", "retry_config", "credential_provider")


def constructor_arguments(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments of an obstore store.

    Args:
        kind: ``"s3"``, ``"gcs"`` or ``"azure"``.
        options: as the user gave them.

    Raises:
        ValueError: one thing is given under two names.
    """
    options = {name: value for name, value in options.items() if value is not None}
    if kind == "s3":  # s3fs hands these to boto's client, where region and endpoint may be
        options = {**options.pop("client_kwargs", {}), **options}
    if kind == "gcs" and "token" in options:
        options = _google_token(options)
    beside: dict[str, Any] = {name: options.pop(name) for name in _BESIDE if name in options}
    config: dict[str, Any] = {}
    for name, value in options.items():
        own = _NAMES[kind].get(name, name)
        if own in config:
            raise ValueError(f"the option {own!r} is given under two names")
        config[own] = value
    # Retries are the core's: it waits under one deadline, whatever the storage.
    beside.setdefault("retry_config", {"max_retries": 0})
    endpoint = str(config.get("endpoint", config.get("base_url", "")))
    if endpoint.startswith("http://"):  # asked for by name; without this obstore refuses it
        beside["client_options"] = {"allow_http": True, **beside.get("client_options", {})}
    return {"config": config, **beside}


def _google_token(options: Mapping[str, Any]) -> dict[str, Any]:
    """What gcsfs calls ``token``: ``"anon"``, the content of a key file, or the path of one."""
    options = dict(options)
    who = options.pop("token")
    if who == "anon":
        options["skip_signature"] = True
    elif isinstance(who, Mapping):
        options["service_account_key"] = json.dumps(dict(who))
    else:
        options["application_credentials"] = str(who)
    return options
