"""Under which centre's rules packages are judged: ``[site]`` of a study, as parameters of policies."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, field_validator

from procure.errors import TableError
from procure.policies import catalog
from procure.settings import Folder, Settings
from procure.text import nearest

NODES = "nodes.csv"
"""The node table in a site's folder."""
POLICY = "slurm"
"""The policy of a study with a site that names none."""
_MARKS = ",;@+"
"""What separates names in a policy's parameter."""


class StudySite(Settings):
    """A centre whose rules hold in a study, and what becomes of bought nodes there.

    ``new_nodes`` and ``new_features`` go by the beginning of a type's name, whatever its case: ``gpu`` is every type
    whose name begins so. ``change`` holds changes of the rules as ``procure what-if --rule`` takes them.
    """

    path: Folder
    new_nodes: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    new_features: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    change: tuple[str, ...] = ()

    @field_validator("new_nodes", "new_features")
    @classmethod
    def _plain_names(cls, given: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for kind, names in given.items():
            wrong = [name for name in (kind, *names) if not name or set(name) & set(_MARKS)]
            if wrong:
                raise ValueError(f"{wrong[0]!r} was given; a name is not empty and holds none of {' '.join(_MARKS)}")
        return given

    def parameters(self) -> dict[str, str]:
        """Return what a policy that goes by this site is told."""
        told = {
            "site": self.path.as_posix(),
            "new": _written(self.new_nodes),
            "features": _written(self.new_features),
            "change": ";".join(self.change).replace(",", "+"),
        }
        return {key: text for key, text in told.items() if text}

    def label(self, policy: str) -> str:
        """Return a policy's label under this site; one that goes by no site, or by another, stays as it is."""
        name, given = catalog.split(policy)
        fields = catalog.model_of(name, given).model_fields
        if "site" not in fields or "site" in given:
            return policy
        told = {key: text for key, text in self.parameters().items() if key in fields and key not in given}
        return catalog.spec(policy, told, Path.cwd()).label

    def check_types(self, types: list[str]) -> None:
        """Refuse a name that no type's name begins with; the error has the nearest of the types."""
        for key in ("new_nodes", "new_features"):
            for kind in getattr(self, key):
                if not any(name.casefold().startswith(kind.casefold()) for name in types):
                    raise TableError(f"site.{key}: no quoted type begins with {kind!r}; {nearest(kind, types)}")


def _written(names: dict[str, tuple[str, ...]]) -> str:
    return ";".join(f"{kind}@{'+'.join(each)}" for kind, each in names.items())
