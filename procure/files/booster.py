"""Reading a booster that XGBoost wrote, which is trusted as its own reader trusts it: load only models of your own."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from procure.errors import TableError


def load_booster(content: bytes, source: str) -> Any:
    """Return the `xgboost.Booster` that some bytes hold; ``source`` is their name in an error.

    Raises
    ------
    TableError
        XGBoost cannot read them: they are damaged, or another version wrote them.
    """
    import xgboost

    found = xgboost.Booster({"nthread": 1, "verbosity": 0})
    try:
        found.load_model(bytearray(content))
        found.save_config()  # makes XGBoost look at its settings now
    except (ValueError, OverflowError):  # XGBoost's own error is a ValueError
        raise TableError(
            f"{source}: the model file is damaged, or written by another XGBoost than {installed_xgboost()}; "
            "train it again"
        ) from None
    return found


def installed_xgboost() -> str:
    """Return the version of XGBoost, whichever of its builds is installed."""
    for name in ("xgboost", "xgboost-cpu"):
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "of unknown version"
