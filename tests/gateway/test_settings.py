from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings import Settings, SettingsError, load_settings, table


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
    assert "environment variable DUPLEX_GATEWAY_PROFILE is 'best': give one of embedded, scripted" in refused(
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


def test_an_unknown_key_in_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "duplex-gateway.toml").write_text("prot = 1\n")
    assert "`prot` in duplex-gateway.toml is not a setting" in refused(tmp_path)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.com"])
def test_a_public_address_needs_a_key(tmp_path: Path, host: str) -> None:
    assert "without a key" in refused(tmp_path, {"host": [host]})
    assert load_settings({"host": [host], "api_key": "k"}, {}, tmp_path).host == (host,)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_needs_no_key(tmp_path: Path, host: str) -> None:
    assert load_settings({"host": [host]}, {}, tmp_path).api_key == ""


@pytest.mark.parametrize("url", ["http://127.0.0.1:8765/v1", "http://localhost:8765", "http://[::1]:8765/v1"])
def test_an_endpoint_that_is_the_gateway_itself_is_refused(tmp_path: Path, url: str) -> None:
    assert "own address" in refused(tmp_path, {"foreground_base_url": url})


@pytest.mark.parametrize("url", ["http://127.0.0.1:8766/v1", "http://llm.example:8765/v1", "https://llm.example"])
def test_any_other_endpoint_is_taken(tmp_path: Path, url: str) -> None:
    assert load_settings({"foreground_base_url": url}, {}, tmp_path).foreground_base_url == url


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://", "http://x:port", "http://[::1"])
def test_an_endpoint_that_is_no_url_is_refused(tmp_path: Path, url: str) -> None:
    assert "FOREGROUND_BASE_URL is not an http(s) URL" in refused(tmp_path, {"foreground_base_url": url})


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
