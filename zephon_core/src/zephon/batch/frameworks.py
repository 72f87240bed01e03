"""From numpy to what a training loop computes with. Imported when asked for, never before."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.batch.padding import TOKEN_ROLES, role
from zephon.errors import ConfigError

_INSTALL = {"torch": "pip install torch", "jax": "pip install jax"}


def installed(name: str) -> bool:
    """Whether a framework can be imported."""
    if name in sys.modules:
        return sys.modules[name] is not None
    return _findable(name)


@cache
def _findable(name: str) -> bool:
    # Asked for every batch; looking through sys.path costs more than making a small one.
    return importlib.util.find_spec(name) is not None


def require(name: str, method: str) -> Any:
    """Import a framework.

    Raises:
        ConfigError: ``framework-missing`` with the line that installs it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConfigError(
            f"batch.{method}() needs {name}",
            found=str(error),
            fix=f"{_INSTALL[name]}, or use batch.to_numpy()",
            code="framework-missing",
        ) from error


def torch_columns(arrays: Mapping[str, npt.NDArray[Any]], schema: pa.Schema) -> dict[str, Any]:
    """Numbers as tensors that own their memory, everything else as lists. Token columns are int64."""
    torch = require("torch", "to_torch")
    result: dict[str, Any] = {}
    for name, array in arrays.items():
        if not _is_number(array):
            result[name] = array.tolist()
            continue
        _refuse_nulls(name, array, "torch")
        widen = _is_token_column(name, schema) and array.dtype.kind in "iu"
        try:
            result[name] = torch.from_numpy(np.array(array, dtype=np.int64 if widen else None))
        except TypeError as error:
            raise _no_tensor(name, str(error), "torch") from error
    return result


def jax_columns(arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Numbers as jax arrays that own their memory, everything else as lists."""
    jnp = require("jax", "to_jax").numpy
    result: dict[str, Any] = {}
    for name, array in arrays.items():
        if not _is_number(array):
            result[name] = array.tolist()
            continue
        _refuse_nulls(name, array, "jax")
        made = result[name] = jnp.array(np.array(array))
        kept = np.dtype(made.dtype)
        if kept != array.dtype and array.dtype.kind in "iu" and array.size:
            # Without jax_enable_x64 jax narrows in silence.
            limits = np.iinfo(kept)
            if int(array.min()) < limits.min or int(array.max()) > limits.max:
                raise _no_tensor(name, f"values do not fit {kept}, which jax uses for {array.dtype}", "jax")
    return result


def training_value(value: Any, framework: str) -> Any:
    """One value of ``to_training``: an array becomes a tensor, an array or a list; lists of arrays likewise."""
    if isinstance(value, list):
        return [training_value(item, framework) for item in value] if _holds_arrays(value) else value
    if not isinstance(value, np.ndarray) or framework == "numpy":
        return value
    if framework == "list" or not _is_number(value):
        return value.tolist()
    return require("torch", "to_training").from_numpy(value)


def _holds_arrays(value: list[Any]) -> bool:
    return bool(value) and isinstance(value[0], np.ndarray)


def _is_number(array: npt.NDArray[Any]) -> bool:
    return array.dtype.kind in "iufb"


def _is_token_column(name: str, schema: pa.Schema) -> bool:
    index = schema.get_field_index(name)
    return index < 0 or role(schema.field(index)) in TOKEN_ROLES


def _refuse_nulls(name: str, array: npt.NDArray[Any], framework: str) -> None:
    if isinstance(array, np.ma.MaskedArray):
        raise ConfigError(
            f"the field {name!r} holds nulls, which {framework} has no value for",
            found=f"{int(array.mask.sum())} nulls in this batch",
            fix=f'fill them with .map_transform(), or leave it out: fields=("...",) without {name!r}',
            code="null-in-field",
        )


def _no_tensor(name: str, reason: str, framework: str) -> ConfigError:
    return ConfigError(
        f"the field {name!r} cannot become a {framework} array",
        found=reason,
        fix=f"leave it out with fields=, or read batch.to_numpy()[{name!r}]",
        code="no-tensor-form",
    )
