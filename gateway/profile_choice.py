"""Chooses the engines where nobody did: the profile that suits this machine, and a language model's server.

Whoever gives a profile gets it. `auto` chooses once and remembers. The result is settings in which nothing is left to
choose, and the sentences that tell the user what was chosen, why, and how to change it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from gateway.engine_checks import PACKAGES, ListProviders, check_engines, onnxruntime_providers
from gateway.found_server import fitting, is_wanted, on_server
from gateway.found_server import told as told_of_server
from gateway.local_servers import USUAL_PORTS, LocalServer, find_local_servers
from gateway.machine import Machine, this_machine
from gateway.masking import masked_url
from gateway.model_hub import Hub, HubSettings, hub_settings, hub_state
from gateway.own_address import own_ports
from gateway.remembered_choice import FILE_NAME, Basis, Choice, ChosenProfile, recall, remember
from gateway.settings import Settings
from gateway.settings_sources import SourcedSettings
from models.engine_plan import EnginePlan
from models.weights import default_home

QUALITY_CORES = 4
"""Fewest cores for `quality`. Kokoro alone took 0.6–0.9 times real time on 2 cores (measured 2026-11-29), so that with
recognition beside it 2 don't do; that 4 do is an estimate."""

_QUALITY_PACKAGES = ("onnx_asr", "huggingface_hub")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the gateway starts, and how to find out more: calls that ask the network, each within a bounded time."""

    machine: Machine
    hub: HubSettings
    ask_hub: Callable[[HubSettings], Hub] = hub_state
    find_servers: Callable[[Collection[int]], tuple[LocalServer, ...]] = find_local_servers
    providers: ListProviders = onnxruntime_providers


def surroundings(environment: Mapping[str, str]) -> Surroundings:
    """Return those of this process."""
    return Surroundings(this_machine(), hub_settings(environment))


@dataclass(frozen=True, slots=True)
class Decision:
    """Settings with nothing left to choose, the source of each, and the plan that they make.

    `told`: sentences without a full stop, first about the profile, then about the language model if one was looked for.
    """

    settings: Settings
    sources: Mapping[str, str]
    plan: EnginePlan
    told: tuple[str, ...]


def decide(given: SourcedSettings, around: Surroundings, *, keep: bool = True) -> Decision:
    """Return `given` with everything decided. `keep`: what was chosen automatically is remembered.

    Asks nobody if the choice is remembered. Raises SettingsError for what this machine can't do.
    """
    settings, sources = given.settings, dict(given.sources)
    if settings.profile == "auto":
        choice, how = _automatic(given, around, keep)
        settings = replace(settings, profile=choice.profile)
        sources["profile"] = f"auto: {choice.reason}"
        server = choice.server
    else:
        check_engines(settings, around.machine, around.providers)  # before anybody is asked
        server = _seen_server(settings, around)
        how = " (--profile changes it)"
    told = [f"profile {settings.profile}{how}"]
    if is_wanted(settings):
        told.append(told_of_server(settings, server))
        if server is not None and settings.profile != "embedded":
            settings = on_server(settings, server)
            found = f"found: the usual port of {server.kind}"
            sources |= dict.fromkeys(("foreground_base_url", "foreground_model", "foreground_api_key"), found)
    plan = check_engines(settings, around.machine, around.providers)
    return Decision(settings, sources, plan, tuple(told))


def choose_profile(machine: Machine, ask_hub: Callable[[], Hub]) -> tuple[ChosenProfile, str]:
    """Return what suits `machine`, and why: the reason completes a sentence. Asks the hub only where it matters."""
    if machine.apple_silicon and "mlx_audio" in machine.packages:
        return "mlx", "this is Apple Silicon with mlx-audio"
    without = " (Apple Silicon, but mlx-audio is not installed)" if machine.apple_silicon else ""
    if machine.cores < QUALITY_CORES:
        cores = "1 core" if machine.cores == 1 else f"{machine.cores} cores"
        return "embedded", f"this machine has {cores} and quality wants {QUALITY_CORES}{without}"
    missing = [name for name in _QUALITY_PACKAGES if name not in machine.packages]
    if missing:
        name, extra = PACKAGES[missing[0]]
        return "embedded", f"quality needs {name}, which is not installed (pip install '{extra}'){without}"
    hub = ask_hub()
    if hub in (Hub.UNREACHABLE, Hub.OFF):
        return "embedded", f"{hub.value}, which quality needs{without}"
    return "quality", f"{hub.value} and there are {machine.cores} cores{without}"


def _automatic(given: SourcedSettings, around: Surroundings, keep: bool) -> tuple[Choice, str]:
    """Return the choice, remembered or new, and how it came about."""
    path = (given.settings.home or default_home()) / FILE_NAME
    basis = _basis(given.settings, around)
    known = None if given.by_flag("profile") else recall(path, basis)
    if known is not None:
        check_engines(replace(given.settings, profile=known.profile), around.machine, around.providers)
        return (
            known,
            f", as at an earlier start: {known.reason} (--profile auto decides anew, --profile NAME changes it)",
        )
    profile, reason = choose_profile(around.machine, lambda: around.ask_hub(around.hub))
    settings = replace(given.settings, profile=profile)
    check_engines(settings, around.machine, around.providers)
    choice = Choice(profile, reason, _seen_server(settings, around))
    remembered = keep and remember(path, choice, basis)
    return choice, f": {reason} ({'remembered; ' if remembered else ''}--profile NAME changes it)"


def _seen_server(settings: Settings, around: Surroundings) -> LocalServer | None:
    return fitting(settings, around.find_servers(own_ports(settings))) if is_wanted(settings) else None


def _basis(settings: Settings, around: Surroundings) -> Basis:
    """Return what makes another choice possible when it changes. That a server appears or leaves does not."""
    return {
        "apple_silicon": around.machine.apple_silicon,
        "cores": min(around.machine.cores, QUALITY_CORES),
        "packages": sorted(around.machine.packages),
        "hub": "off" if around.hub.offline else masked_url(around.hub.url),
        "finds_language_model": is_wanted(settings),
        "foreground_model": settings.foreground_model,
        "own_ports": sorted(own_ports(settings) & set(USUAL_PORTS)),
    }
