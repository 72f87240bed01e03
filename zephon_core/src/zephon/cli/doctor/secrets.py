"""Takes out of a report what may not be shown to others."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

from zephon.io.urls import redact

_SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|SIGNATURE|COOKIE|SAS\b", re.IGNORECASE)
#: Something whose name ends like a secret's, and what is assigned to it. ``tokenizer:hf`` is none.
_ASSIGNED: Final = re.compile(
    r"([\w-]*(?:key|token|secret|password|passwd|passphrase|credentials?|authorization|signature)(?:_id)?"
    r"['\"]?\s*[=:]\s*)((?:bearer|basic)\s+)?['\"]?[^\s'\",;&)]+",
    re.IGNORECASE,
)
#: Shorter values are words that would be found everywhere.
_SHORTEST: Final = 6


def scrubbed(report: Any, environ: Mapping[str, str] = os.environ) -> Any:
    """The report without userinfo and query of URLs, assigned secrets, and values of secret environment variables."""
    values = {value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= _SHORTEST}
    # The longest first: one may be part of another.
    return _clean(report, sorted(values, key=len, reverse=True))


def _clean(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, dict):
        return {key: _clean(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, secrets) for item in value]
    if not isinstance(value, str):
        return value
    for secret in secrets:
        value = value.replace(secret, "***")
    return _ASSIGNED.sub(r"\1***", redact(value))
