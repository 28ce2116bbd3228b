"""Which engines are chosen where, with nobody asked who isn't there: machine, hub and servers are the test's."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.local_servers import LocalServer
from gateway.machine import Machine
from gateway.model_hub import Hub, HubSettings
from gateway.profile_choice import QUALITY_CORES, Decision, Surroundings, choose_profile, decide
from gateway.settings import SettingsError
from gateway.settings_sources import load_sourced_settings

QUALITY = frozenset({"onnx_asr", "huggingface_hub"})
SERVER = Machine(apple_silicon=False, cores=8, packages=QUALITY)
MAC = Machine(apple_silicon=True, cores=8, packages=frozenset({"mlx_audio"}))
SMALL = Machine(apple_silicon=False, cores=2, packages=QUALITY)
LLAMA = LocalServer(8080, ("qwen3-8b", "gemma"))
OLLAMA = LocalServer(11434, ("llama3.2:latest",))


class Place:
    """A machine on which gateways start again and again. Counts who is asked."""

    def __init__(self, home: Path, machine: Machine, hub: Hub = Hub.REACHABLE, *servers: LocalServer) -> None:
        self.home = home
        self.machine = machine
        self.hub = hub
        self.hub_settings = HubSettings()
        self.servers = servers
        self.asked: list[str] = []
        self.not_asked_ports: set[int] = set()

    def start(self, *, keep: bool = True, **flags: Any) -> Decision:
        self.asked.clear()
        given = load_sourced_settings({"home": str(self.home), **flags}, {}, self.home)
        around = Surroundings(self.machine, self.hub_settings, self._ask_hub, self._find_servers, lambda: ["CPU"])
        return decide(given, around, keep=keep)

    def _ask_hub(self, settings: HubSettings) -> Hub:
        self.asked.append("hub")
        return self.hub

    def _find_servers(self, without: Collection[int]) -> tuple[LocalServer, ...]:
        self.asked.append("servers")
        self.not_asked_ports = set(without)
        return tuple(server for server in self.servers if server.port not in without)


@pytest.mark.parametrize(
    ("machine", "hub", "profile", "why"),
    [
        (MAC, Hub.UNREACHABLE, "mlx", "Apple Silicon with mlx-audio"),
        (replace(MAC, packages=QUALITY), Hub.REACHABLE, "quality", "mlx-audio is not installed"),
        (SERVER, Hub.REACHABLE, "quality", "the model hub answers and there are 8 cores"),
        (SERVER, Hub.CACHED, "quality", "its models are on this machine"),
        (SERVER, Hub.UNREACHABLE, "embedded", "the model hub does not answer"),
        (SERVER, Hub.OFF, "embedded", "HF_HUB_OFFLINE"),
        (replace(SERVER, packages=QUALITY - {"onnx_asr"}), Hub.REACHABLE, "embedded", "[onnx-asr]'"),
        (replace(SERVER, packages=QUALITY - {"huggingface_hub"}), Hub.CACHED, "embedded", "huggingface-hub"),
        (replace(SERVER, cores=QUALITY_CORES), Hub.REACHABLE, "quality", "4 cores"),
        (replace(SERVER, cores=QUALITY_CORES - 1), Hub.REACHABLE, "embedded", "3 cores and quality wants 4"),
        (replace(SERVER, cores=1), Hub.CACHED, "embedded", "1 core and quality wants 4"),
    ],
)
def test_each_machine_gets_the_profile_that_suits_it_and_is_told_why(
    machine: Machine, hub: Hub, profile: str, why: str
) -> None:
    chosen, reason = choose_profile(machine, lambda: hub)
    assert chosen == profile
    assert why in reason


def test_the_hub_is_asked_only_where_its_answer_matters(tmp_path: Path) -> None:
    for machine in (MAC, SMALL, replace(SERVER, packages=frozenset())):
        choose_profile(machine, lambda: pytest.fail("the hub was asked"))
    place = Place(tmp_path, SERVER)
    place.start(profile="embedded")
    assert place.asked == ["servers"]


def test_the_next_start_chooses_the_same_and_asks_nobody(tmp_path: Path) -> None:
    place = Place(tmp_path, SERVER, Hub.REACHABLE, LLAMA)
    first = place.start()
    assert place.asked == ["hub", "servers"]
    assert "remembered" in first.told[0]
    place.hub, place.servers = Hub.UNREACHABLE, ()
    second = place.start()
    assert place.asked == []
    assert second.settings == first.settings
    assert "as at an earlier start: the model hub answers and there are 8 cores" in second.told[0]


def test_asking_for_auto_by_flag_chooses_anew_and_remembers_that(tmp_path: Path) -> None:
    place = Place(tmp_path, SERVER)
    assert place.start().settings.profile == "quality"
    place.hub = Hub.UNREACHABLE
    assert place.start(profile="auto").settings.profile == "embedded"
    assert place.asked == ["hub", "servers"]
    assert place.start().settings.profile == "embedded"
    assert place.asked == []


def test_a_profile_that_is_given_leaves_the_remembered_one_as_it_is(tmp_path: Path) -> None:
    place = Place(tmp_path, SERVER)
    place.start()
    assert place.start(profile="scripted").settings.profile == "scripted"
    assert place.asked == []
    assert place.start().settings.profile == "quality"


@pytest.mark.parametrize(
    "change",
    [
        {"machine": replace(SERVER, packages=frozenset())},
        {"machine": replace(SERVER, cores=2)},
        {"hub_settings": HubSettings(url="https://hub.example")},
        {"hub_settings": HubSettings(offline=True)},
    ],
)
def test_another_machine_asks_for_another_choice(tmp_path: Path, change: dict[str, Any]) -> None:
    place = Place(tmp_path, SERVER)
    place.start()
    for name, value in change.items():
        setattr(place, name, value)
    place.start()
    assert place.asked


@pytest.mark.parametrize(
    "flags", [{"foreground_base_url": "http://llm:1/v1"}, {"foreground_model": "m"}, {"port": 8080}]
)
def test_settings_that_matter_to_the_choice_ask_for_another(tmp_path: Path, flags: dict[str, Any]) -> None:
    place = Place(tmp_path, SERVER)
    place.start()
    place.start(**flags)
    assert place.asked
    place.start(**flags, max_sessions="3")
    assert place.asked == []


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        "{",
        "\x00",
        "[" * 100_000,
        '{"format": 2, "profile": "quality"}',
        '{"format": 1, "profile": "quality"}',
    ],
)
def test_a_file_that_is_no_choice_is_not_believed(tmp_path: Path, content: str) -> None:
    (tmp_path / "profile.json").write_text(content)
    place = Place(tmp_path, SERVER)
    assert place.start().settings.profile == "quality"
    assert place.asked == ["hub", "servers"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("profile", "scripted"),
        ("profile", ["quality"]),
        ("reason", 1),
        ("server", {"port": 9999, "models": ["m"]}),
        ("server", {"port": 8080, "models": [1]}),
        ("server", {"port": [8080], "models": ["m"]}),
    ],
)
def test_what_was_written_into_the_file_by_hand_leads_nowhere_else(tmp_path: Path, key: str, value: Any) -> None:
    place = Place(tmp_path, SERVER)
    place.start()
    path = tmp_path / "profile.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    decision = place.start()
    assert decision.settings.profile == "quality"
    assert decision.settings.foreground_base_url == ""


def test_a_folder_that_cannot_be_written_keeps_nobody_from_starting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = Place(tmp_path, SERVER)
    place.home = tmp_path / "file" / "home"
    given = load_sourced_settings({"home": str(place.home)}, {}, tmp_path)
    around = Surroundings(place.machine, HubSettings(), place._ask_hub, place._find_servers)
    decision = decide(given, around)
    assert decision.settings.profile == "quality"
    assert "remembered" not in decision.told[0]


def test_looking_at_the_choice_does_not_make_it(tmp_path: Path) -> None:
    place = Place(tmp_path, SERVER)
    place.start(keep=False)
    assert list(tmp_path.iterdir()) == []


# --- the language model --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [SERVER, MAC])
def test_a_server_on_its_usual_port_is_the_language_model_and_is_named(tmp_path: Path, machine: Machine) -> None:
    decision = Place(tmp_path, machine, Hub.REACHABLE, LLAMA, OLLAMA).start()
    assert decision.plan.chat.engine == "endpoint"
    assert (decision.plan.chat.base_url, decision.plan.chat.model) == ("http://127.0.0.1:8080/v1", "qwen3-8b")
    assert "qwen3-8b at 127.0.0.1:8080" in decision.told[1]
    assert "llama.cpp" in decision.told[1]
    assert "FOREGROUND_BASE_URL" in decision.told[1]
    assert decision.sources["foreground_base_url"] == "found: the usual port of llama.cpp"


def test_a_key_that_was_set_for_another_host_does_not_go_to_a_server_that_was_found(tmp_path: Path) -> None:
    decision = Place(tmp_path, SERVER, Hub.REACHABLE, LLAMA).start(foreground_api_key="sk-secret")
    assert decision.plan.chat.engine == "endpoint"
    assert decision.plan.chat.api_key == ""


def test_without_a_server_the_demo_brain_answers_and_says_how_to_set_one(tmp_path: Path) -> None:
    decision = Place(tmp_path, SERVER).start()
    assert decision.plan.chat.engine == "embedded"
    assert "8080, 1234, 11434, 8000" in decision.told[1]
    assert "FOREGROUND_BASE_URL sets one" in decision.told[1]


def test_the_embedded_profile_keeps_its_brain_and_tells_of_a_server_that_it_saw(tmp_path: Path) -> None:
    decision = Place(tmp_path, SMALL, Hub.REACHABLE, OLLAMA).start()
    assert decision.settings.profile == "embedded"
    assert decision.plan.chat.engine == "embedded"
    assert "FOREGROUND_BASE_URL=http://127.0.0.1:11434/v1 FOREGROUND_MODEL=llama3.2:latest" in decision.told[1]


@pytest.mark.parametrize(
    "flags",
    [
        {"foreground_base_url": "http://llm.example/v1"},
        {"foreground": "embedded"},
        {"foreground": "scripted"},
        {"foreground_gguf": "model.gguf"},
        {"profile": "scripted"},
    ],
)
def test_nobody_is_looked_for_where_the_language_model_is_set(tmp_path: Path, flags: dict[str, Any]) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    if "foreground_gguf" in flags:
        flags = {"foreground_gguf": str(tmp_path / "model.gguf")}
    place = Place(tmp_path, SERVER, Hub.REACHABLE, LLAMA)
    decision = place.start(**flags)
    assert "servers" not in place.asked
    assert len(decision.told) == 1
    assert decision.plan.chat.base_url == flags.get("foreground_base_url", "")


def test_our_own_ports_are_never_asked(tmp_path: Path) -> None:
    place = Place(tmp_path, SERVER, Hub.REACHABLE, LLAMA, LocalServer(8000, ("m",)))
    decision = place.start(port="8080", tls=True, tls_port="1234")
    assert place.not_asked_ports == {8080, 1234}
    assert decision.plan.chat.base_url == "http://127.0.0.1:8000/v1"


@pytest.mark.parametrize(("model", "port"), [("gemma", 8080), ("llama3.2", 11434), ("other", None)])
def test_a_model_that_is_named_chooses_the_server_that_has_it(tmp_path: Path, model: str, port: int | None) -> None:
    decision = Place(tmp_path, SERVER, Hub.REACHABLE, LLAMA, OLLAMA).start(foreground_model=model)
    assert decision.plan.chat.base_url == (f"http://127.0.0.1:{port}/v1" if port else "")
    if port is None:
        assert "no server that has other" in decision.told[1]


# --- what can't be -------------------------------------------------------------------------------------------------


def refused(place: Place, **flags: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        place.start(**flags)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert place.asked == []
    return sentence


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"profile": "quality"}, "needs onnx-asr, which is not installed: pip install 'duplex-gateway[onnx-asr]'"),
        ({"profile": "mlx"}, "needs mlx-audio, which is not installed (it is for Apple Silicon)"),
        ({"profile": "embedded", "asr": "mlx"}, "The engine mlx of `asr` needs mlx-audio"),
        ({"profile": "embedded", "asr": "whisper"}, "The engine whisper of `asr` needs ctranslate2"),
        ({"profile": "embedded", "asr_language": "fr"}, "ASR_LANGUAGE fr, which whisper understands here, needs"),
        ({"profile": "endpoints"}, "in ASR_BASE_URL"),
        ({"profile": "endpoints", "asr_base_url": "http://asr:1/v1"}, "in TTS_BASE_URL"),
        ({"profile": "embedded", "asr": "moonshine", "asr_language": "fr"}, "hears English only"),
        ({"profile": "embedded", "tts": "piper", "tts_language": "pt-BR"}, "speaks English only"),
        ({"profile": "embedded", "device": "cuda"}, "install onnxruntime-gpu, or choose --device auto"),
        ({"profile": "embedded", "device": "coreml"}, "choose --device auto"),
    ],
)
def test_what_this_machine_cannot_do_is_one_sentence_before_anybody_is_asked(
    tmp_path: Path, flags: dict[str, Any], sentence: str
) -> None:
    assert sentence in refused(Place(tmp_path, replace(SERVER, packages=frozenset()), Hub.REACHABLE, LLAMA), **flags)


def test_endpoints_may_have_an_engine_in_process_and_a_found_language_model(tmp_path: Path) -> None:
    flags = {"profile": "endpoints", "asr": "moonshine", "tts_base_url": "http://tts:1/v1"}
    plan = Place(tmp_path, SERVER, Hub.UNREACHABLE, LLAMA).start(**flags).plan
    assert (plan.asr.engine, plan.tts.engine, plan.chat.engine) == ("moonshine", "endpoint", "endpoint")


def test_a_device_that_onnxruntime_has_is_taken_and_matters_to_nobody_else(tmp_path: Path) -> None:
    place = Place(tmp_path, SERVER)
    given = load_sourced_settings({"profile": "embedded", "device": "cuda"}, {}, tmp_path)
    around = Surroundings(place.machine, HubSettings(), place._ask_hub, place._find_servers)
    assert decide(given, replace(around, providers=lambda: ["CUDAExecutionProvider"])).plan.asr.device == "cuda"
    assert place.start(profile="scripted", device="cuda").plan.asr.engine == "scripted"
