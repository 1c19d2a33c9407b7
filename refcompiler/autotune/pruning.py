"""Which configurations are worth trying: what `prune_configs_by` asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from refcompiler.autotune.config import Config, configurations
from refcompiler.errors import LaunchError

_KNOWN = ("early_config_prune", "perf_model", "top_k")


@dataclass(frozen=True)
class Pruning:
    """``early`` chooses configurations by the arguments, ``model`` estimates times, of which the best ``top_k`` stay: a
    number, or a share of all configurations."""

    early: Callable[..., Sequence[Config]] | None = None
    model: Callable[..., float] | None = None
    top_k: int | float = 1.0

    @classmethod
    def of(cls, asked: Mapping[str, Any] | None) -> Pruning:
        """From the mapping given to the decorator. Raises LaunchError for an unknown key or a wrong ``top_k``."""
        given = dict(asked or {})
        unknown = [name for name in given if name not in _KNOWN]
        if unknown:
            known = ", ".join(_KNOWN)
            raise LaunchError("autotune.pruning", f"prune_configs_by has no {unknown[0]!r}; it has {known}")
        top_k = given.get("top_k", 1.0)
        whole = isinstance(top_k, int) and not isinstance(top_k, bool) and top_k > 0
        if not whole and not (isinstance(top_k, float) and 0 < top_k <= 1.0):
            raise LaunchError("autotune.pruning", f"top_k is a number of configurations or a share, found {top_k!r}")
        return cls(given.get("early_config_prune"), given.get("perf_model"), top_k)

    def apply(
        self, configs: Sequence[Config], positional: Mapping[str, Any], keywords: Mapping[str, Any]
    ) -> list[Config]:
        """The configurations to try, for arguments given by position and by keyword."""
        kept = list(configs)
        if self.early is not None:
            kept = configurations("early_config_prune", self.early(list(configs), dict(positional), **keywords))
        if self.model is not None:
            most = self.top_k if isinstance(self.top_k, int) else max(1, int(len(configs) * self.top_k))
            if len(kept) > most:
                everything = {**positional, **keywords}
                estimates = [self.model(**{**everything, **config.all_kwargs()}) for config in kept]
                order = sorted(range(len(kept)), key=estimates.__getitem__)
                kept = [kept[i] for i in order[:most]]
        return kept
