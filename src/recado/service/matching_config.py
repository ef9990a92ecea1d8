"""What the configuration says of meaning, read before the service begins: a wrong file or name is told at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from recado.errors import RecadoError
from recado.semantics.frequencies import Frequencies
from recado.semantics.overrides import Overrides
from recado.semantics.settings import SemanticSettings, read_settings
from recado.service.config import Config, ConfigError


class Understanding(NamedTuple):
    """What subscriptions leave open, similarities that people gave, and how frequent words are."""

    default: SemanticSettings
    overrides: Overrides | None
    frequencies: Frequencies | None


def read_understanding(config: Config) -> Understanding:
    """A ConfigError names the member that is wrong."""
    wanted = config.semantics
    default = default_settings(config)
    try:
        overrides = Overrides.load(wanted.overrides) if wanted.overrides else None
    except RecadoError as error:
        raise ConfigError(f"$.semantics.overrides: {error}") from None
    try:
        frequencies = Frequencies.load(wanted.frequencies) if wanted.frequencies else None
    except RecadoError as error:
        raise ConfigError(f"$.semantics.frequencies: {error}") from None
    return Understanding(default, overrides, frequencies)


def default_settings(config: Config) -> SemanticSettings:
    """What a subscription's ``semantic`` leaves open; a threshold of 0 is the measure's own."""
    members: dict[str, Any] = {"measure": config.semantics.measure, "unmatched": config.semantics.unmatched}
    if config.semantics.threshold:
        members["threshold"] = config.semantics.threshold
    try:
        settings = read_settings(members, place="$.semantics")
    except RecadoError as error:
        raise ConfigError(str(error)) from None
    assert settings is not None  # there are members
    return settings
