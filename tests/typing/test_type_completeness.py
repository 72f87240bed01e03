"""Whether every type of what authors import is spelled out, so that no checker has to guess it."""

import pytest

#: What a plugin may import.
PACKAGES = ["abc", "block", "errors", "plugins", "random", "spec"]


@pytest.fixture(scope="module")
def symbols(pyright):
    """Every public symbol of ``zephon``, and whatever it refers to, as pyright lists them."""
    report = pyright("--verifytypes", "zephon", "--ignoreexternal")
    return report["typeCompleteness"]["symbols"]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_type_an_author_meets_is_declared(symbols, package):
    mine = [symbol for symbol in symbols if symbol["name"].startswith(f"zephon.{package}.")]
    assert len(mine) > 5
    unclear = {
        symbol["name"]: [diagnostic["message"] for diagnostic in symbol["diagnostics"]]
        for symbol in mine
        if symbol["isTypeAmbiguous"] or not symbol["isTypeKnown"]
    }
    assert unclear == {}
