from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gateway.settings import Settings, SettingsError, table
from gateway.settings_sources import load_settings, load_sourced_settings


def refused(folder: Path, flags: dict[str, object] | None = None, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(flags or {}, environment or {}, folder)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def test_without_any_source_the_defaults_hold(tmp_path: Path) -> None:
    assert load_settings({}, {}, tmp_path) == Settings()
    assert Settings().host == ("127.0.0.1", "::1")


def test_a_flag_wins_over_the_environment_and_so_on_down_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "duplex-gateway.toml").write_text("port = 1\nmax_sessions = 1\nvoice = 'file'\ninstructions = 'file'\n")
    (tmp_path / ".env").write_text(
        "DUPLEX_GATEWAY_PORT=2\nDUPLEX_GATEWAY_MAX_SESSIONS=2\nDUPLEX_GATEWAY_VOICE=dotenv\nSOMETHING_ELSE=1\n"
    )
    environment = {"DUPLEX_GATEWAY_PORT": "3", "DUPLEX_GATEWAY_MAX_SESSIONS": "3", "DUPLEX_GATEWAY_UNKNOWN": "x"}
    settings = load_settings({"port": "4", "voice": None}, environment, tmp_path)
    assert (settings.port, settings.max_sessions, settings.voice, settings.instructions) == (4, 3, "dotenv", "file")


def test_an_empty_variable_counts_as_not_set(tmp_path: Path) -> None:
    assert load_settings({}, {"DUPLEX_GATEWAY_PORT": ""}, tmp_path).port == 8765


def test_the_foreground_model_has_the_names_that_all_roles_have(tmp_path: Path) -> None:
    environment = {
        "FOREGROUND_BASE_URL": "http://127.0.0.1:8080/v1",
        "FOREGROUND_API_KEY": "s",
        "FOREGROUND_MODEL": "m",
    }
    settings = load_settings({}, environment, tmp_path)
    assert (settings.foreground_base_url, settings.foreground_api_key, settings.foreground_model) == (
        "http://127.0.0.1:8080/v1",
        "s",
        "m",
    )


def test_lists_come_from_repeated_flags_commas_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "duplex-gateway.toml").write_text('allow_host = ["a", "b"]\n')
    settings = load_settings(
        {"host": ["127.0.0.1", "localhost"]}, {"DUPLEX_GATEWAY_ALLOW_ORIGIN": "https://a, https://b,"}, tmp_path
    )
    assert settings.host == ("127.0.0.1", "localhost")
    assert settings.allow_origin == ("https://a", "https://b")
    assert settings.allow_host == ("a", "b")


def test_a_wrong_value_names_the_setting_its_source_and_what_to_do(tmp_path: Path) -> None:
    assert refused(tmp_path, {"port": "many"}) == "The flag --port is 'many': give a whole number from 0 to 65535."
    assert "environment variable DUPLEX_GATEWAY_PROFILE is 'best': give one of auto, embedded, quality" in refused(
        tmp_path, environment={"DUPLEX_GATEWAY_PROFILE": "best"}
    )
    (tmp_path / ".env").write_text("DUPLEX_GATEWAY_MAX_SESSIONS=0\n")
    assert "DUPLEX_GATEWAY_MAX_SESSIONS in .env" in refused(tmp_path)


@pytest.mark.parametrize("value", ["-1", "65536", "nan", "1.5", "0x10", "true"])
def test_a_port_outside_its_range_is_refused(tmp_path: Path, value: str) -> None:
    refused(tmp_path, {"port": value})


@pytest.mark.parametrize(
    "line",
    [
        "prot = 1",
        "port = '1",
        "port = true",
        "port = 1.5",
        "voice = 1",
        "host = 1",
        "host = [1]",
        "host = []",
        "session_limit_s = nan",
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "duplex-gateway.toml").write_text(line + "\n")
    refused(tmp_path)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("prot = 1", "`prot` in duplex-gateway.toml is not a setting: perhaps `port` is meant, else remove it ("),
        (
            "[remote.openai]",
            "`remote` in duplex-gateway.toml is not a setting: perhaps `remotes` is meant, else ",
        ),
        ("zebra = 1", "`zebra` in duplex-gateway.toml is not a setting: remove it (`serve --help` lists them all)."),
    ],
)
def test_an_unknown_key_in_the_file_is_named_with_the_setting_that_it_resembles(
    tmp_path: Path, line: str, sentence: str
) -> None:
    (tmp_path / "duplex-gateway.toml").write_text(line + "\n")
    assert sentence in refused(tmp_path)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com"])
def test_a_public_address_needs_a_key(tmp_path: Path, host: str) -> None:
    assert "without a key" in refused(tmp_path, {"host": [host]})
    assert load_settings({"host": [host], "api_key": "k"}, {}, tmp_path).host == (host,)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_needs_no_key(tmp_path: Path, host: str) -> None:
    assert load_settings({"host": [host]}, {}, tmp_path).api_key == ""


@pytest.mark.parametrize("flags", [{}, {"profile": "quality"}, {"profile": "scripted", "duplex": "none"}])
def test_a_gateway_that_would_serve_nothing_is_told_what_it_could_serve(
    tmp_path: Path, flags: dict[str, object]
) -> None:
    assert refused(tmp_path, {**flags, "cascade": False}) == (
        "The setting `cascade` is off, and nothing else is there to serve: choose a full-duplex model with --duplex, "
        "name another Realtime server (DUPLEX_BASE_URL or [remotes.NAME]), or leave the cascade on."
    )


@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        ({"profile": "scripted"}, {}),
        ({"duplex": "scripted"}, {}),
        ({"duplex_base_url": "http://mac:8765"}, {}),
        ({}, {"REMOTE_MAC_BASE_URL": "http://mac:8765"}),
    ],
)
def test_a_gateway_without_a_cascade_serves_whatever_else_there_is(
    tmp_path: Path, flags: dict[str, object], environment: dict[str, str]
) -> None:
    assert not load_settings({**flags, "cascade": False}, environment, tmp_path).cascade


ROLES = ("asr", "tts", "foreground")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8765/v1", "http://localhost:8765", "http://[::1]:8765/v1", "http://0.0.0.0:8765/v1"]
)
def test_an_endpoint_that_is_the_gateway_itself_is_refused(tmp_path: Path, role: str, url: str) -> None:
    sentence = refused(tmp_path, {f"{role}_base_url": url})
    assert sentence.startswith(f"{role.upper()}_BASE_URL points at the gateway's own address")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1:8766/v1", "http://llm.example:8765/v1", "https://llm.example", "http://u:p@llm.example:1/v1"],
)
def test_any_other_endpoint_is_taken(tmp_path: Path, role: str, url: str) -> None:
    assert getattr(load_settings({f"{role}_base_url": url}, {}, tmp_path), f"{role}_base_url") == url


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://", "http://x:port", "http://[::1", "llama"])
def test_an_endpoint_that_is_no_url_is_refused(tmp_path: Path, role: str, url: str) -> None:
    assert f"{role.upper()}_BASE_URL is not an http(s) URL" in refused(tmp_path, {f"{role}_base_url": url})


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/audio/speech/", "/v1/models"])
def test_an_endpoint_with_the_path_of_a_request_is_refused(tmp_path: Path, path: str) -> None:
    assert "what stands before it" in refused(tmp_path, {"tts_base_url": f"http://tts.example{path}"})


def test_every_bound_address_is_our_own_and_on_a_wildcard_all_of_this_machines(tmp_path: Path) -> None:
    bound = {"host": ["127.0.0.1", "Gateway.Example"], "api_key": "k", "port": "9000"}
    assert "own address" in refused(tmp_path, {**bound, "asr_base_url": "http://gateway.example:9000/v1"})
    everywhere = {"host": ["0.0.0.0"], "api_key": "k", "port": "9000", "tls": True, "tls_port": "9001"}
    for host in (socket.gethostname(), "127.0.0.2"):
        for port in (9000, 9001):
            assert "own address" in refused(tmp_path, {**everywhere, "asr_base_url": f"http://{host}:{port}/v1"})
    for other in ("http://203.0.113.7:9000/v1", "http://gateway.example:9000/v1", "http://[2001:db8::1]:9000/v1"):
        assert load_settings({**everywhere, "asr_base_url": other}, {}, tmp_path).asr_base_url == other


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"asr": "endpoint"}, "such as ASR_BASE_URL=http://127.0.0.1:8000/v1"),
        ({"tts": "endpoint"}, "such as TTS_BASE_URL="),
        ({"foreground": "endpoint"}, "such as FOREGROUND_BASE_URL="),
        ({"asr": "moonshine", "asr_base_url": "http://x/v1"}, "an empty --asr-base-url takes the server back"),
        ({"foreground": "embedded", "foreground_base_url": "http://x/v1"}, "give one of the two"),
        ({"foreground_gguf": "a.gguf", "foreground_base_url": "http://x/v1"}, "give one of the two"),
        ({"foreground_gguf": "a.gguf", "foreground": "scripted"}, "give one of the two"),
        ({"foreground_gguf": "a.gguf"}, "FOREGROUND_GGUF names no file (a.gguf)"),
        ({"foreground_gguf": __file__}, "FOREGROUND_GGUF is no GGUF file"),
        ({"asr_model": "./no-such-model"}, "ASR_MODEL names no folder (./no-such-model)"),
        ({"tts_model": "~/no-such-model"}, "TTS_MODEL names no folder"),
        ({"tts_voices": ["marin"]}, "TTS_VOICES holds 'marin': give pairs NAME=VOICE"),
        ({"tts_voices": ["marin=af_heart,=af_bella"]}, "TTS_VOICES holds '=af_bella'"),
        ({"tts_voices": ["marin="]}, "TTS_VOICES holds 'marin='"),
        ({"foreground_extra_body": "{top_k: 20}"}, "FOREGROUND_EXTRA_BODY is not JSON"),
        ({"foreground_extra_body": "[1]"}, "FOREGROUND_EXTRA_BODY is no JSON object"),
        ({"foreground_extra_body": '{"stream": false}'}, "FOREGROUND_EXTRA_BODY sets `stream`"),
        ({"foreground_extra_body": "{" * 10_000}, "FOREGROUND_EXTRA_BODY is not JSON"),
        ({"foreground_extra_body": '{"a": "' + "x" * 20_000 + '"}'}, "longer than 16384 bytes"),
        ({"device": "npu"}, "give one of auto, cpu, cuda, coreml"),
    ],
)
def test_what_contradicts_itself_or_is_not_there_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: dict[str, object], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence in refused(tmp_path, flags)


def test_an_empty_flag_takes_back_what_a_file_says(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("ASR_BASE_URL=http://asr.example/v1\n")
    assert load_settings({"asr": "moonshine", "asr_base_url": ""}, {}, tmp_path).asr_base_url == ""


@pytest.mark.parametrize("model", ["istupakov/parakeet-tdt-0.6b-v3-onnx", "whisper-1", ""])
def test_a_models_name_is_no_path(tmp_path: Path, model: str) -> None:
    assert load_settings({"asr_model": model}, {}, tmp_path).asr_model == model


def test_the_source_of_each_setting_is_known(tmp_path: Path) -> None:
    (tmp_path / "duplex-gateway.toml").write_text("port = 1\n")
    (tmp_path / ".env").write_text("TTS_VOICE=x\n")
    given = load_sourced_settings({"profile": "auto"}, {"DUPLEX_GATEWAY_VOICE": "y"}, tmp_path)
    names = ("profile", "voice", "tts_voice", "port", "host")
    assert [given.sources[name] for name in names] == [
        "flag --profile",
        "environment DUPLEX_GATEWAY_VOICE",
        ".env",
        "duplex-gateway.toml",
        "default",
    ]
    assert given.by_flag("profile")
    assert not given.by_flag("voice")


def test_a_certificate_needs_its_key_and_both_their_files(tmp_path: Path) -> None:
    assert "belong together" in refused(tmp_path, {"ssl_certfile": "a.pem"})
    assert "names no file" in refused(tmp_path, {"ssl_certfile": "a.pem", "ssl_keyfile": "b.pem"})


@pytest.mark.parametrize(("word", "meant"), [("1", True), ("True", True), ("on", True), ("no", False), ("0", False)])
def test_yes_and_no_are_words_in_the_environment(tmp_path: Path, word: str, meant: bool) -> None:
    assert load_settings({}, {"DUPLEX_GATEWAY_TLS": word}, tmp_path).tls is meant


@pytest.mark.parametrize("line", ["tls = 1", "tls = 'maybe'"])
def test_anything_else_is_neither_yes_nor_no(tmp_path: Path, line: str) -> None:
    (tmp_path / "duplex-gateway.toml").write_text(line + "\n")
    assert "give true or false" in refused(tmp_path)


def test_a_flag_can_say_no_to_what_a_file_says(tmp_path: Path) -> None:
    (tmp_path / "duplex-gateway.toml").write_text("tls = true\n")
    assert load_settings({"tls": None}, {}, tmp_path).tls is True
    assert load_settings({"tls": False}, {}, tmp_path).tls is False


def test_the_self_made_certificate_stands_beside_no_other_and_on_a_port_of_its_own(tmp_path: Path) -> None:
    pem = tmp_path / "a.pem"
    pem.write_text("")
    assert "one of the two" in refused(tmp_path, {"tls": True, "ssl_certfile": str(pem), "ssl_keyfile": str(pem)})
    assert "--tls-port" in refused(tmp_path, {"tls": True, "port": "9000", "tls_port": "9000"})
    assert load_settings({"tls": True, "port": "0", "tls_port": "0"}, {}, tmp_path).tls
    assert load_settings({"port": "8766"}, {}, tmp_path).port == 8766
    assert "own address" in refused(tmp_path, {"tls": True, "foreground_base_url": "https://localhost:8766/v1"})


@pytest.mark.parametrize("names", [("auto",), ("off",), ("lexical",), ("audio", "probability", "verdict", "lexical")])
def test_the_end_of_turn_has_the_judges_that_are_named(tmp_path: Path, names: tuple[str, ...]) -> None:
    assert load_settings({"end_of_turn": list(names)}, {}, tmp_path).end_of_turn == names
    environment = {"DUPLEX_GATEWAY_END_OF_TURN": ", ".join(names)}
    assert load_settings({}, environment, tmp_path).end_of_turn == names


@pytest.mark.parametrize("names", ["oracle", "audio,oracle", "auto,audio", "off,lexical", ","])
def test_a_judge_that_does_not_exist_or_stands_beside_auto_is_refused(tmp_path: Path, names: str) -> None:
    sentence = refused(tmp_path, environment={"DUPLEX_GATEWAY_END_OF_TURN": names})
    assert "end_of_turn" in sentence
    assert "audio, probability, verdict, lexical" in sentence


def test_secrets_are_masked_wherever_they_might_be_shown(tmp_path: Path) -> None:
    shown = repr(
        load_settings({"api_key": "s3cret", "foreground_api_key": "s3cret", "signing_secret": "s3cret"}, {}, tmp_path)
    )
    assert "s3cret" not in shown
    assert "api_key='***'" in shown
    assert "s3cret" not in repr(load_settings({"asr_base_url": "https://u:s3cret@asr.example/v1"}, {}, tmp_path))
    (tmp_path / "duplex-gateway.toml").write_text("api_key = 12345678\n")
    assert "12345678" not in refused(tmp_path)


def test_each_setting_has_a_flag_a_variable_and_a_sentence_of_help() -> None:
    entries = table()
    assert len({entry.env for entry in entries}) == len({entry.flag for entry in entries}) == len(entries)
    assert all(entry.help for entry in entries)


def test_a_number_that_may_be_unset_is_a_number_when_it_is_set(tmp_path: Path) -> None:
    assert load_settings({}, {}, tmp_path).foreground_temperature is None
    assert load_settings({}, {"FOREGROUND_TEMPERATURE": "0"}, tmp_path).foreground_temperature == 0.0
    assert "FOREGROUND_TEMPERATURE" in refused(tmp_path, environment={"FOREGROUND_TEMPERATURE": "hot"})
    assert "FOREGROUND_TEMPERATURE" in refused(tmp_path, environment={"FOREGROUND_TEMPERATURE": "2.1"})
