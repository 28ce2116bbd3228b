from __future__ import annotations

from pathlib import Path

import pytest

from gateway.backends.remote import address_of
from gateway.backends.remote_directory import told_capabilities
from gateway.engine_choice import engine_plan
from gateway.remote_settings import all_remotes
from gateway.settings import Remote, Settings, SettingsError
from gateway.settings_sources import load_settings

OPENAI = "https://api.openai.com/v1"


def loaded(folder: Path, toml: str = "", **environment: str) -> Settings:
    (folder / "duplex-gateway.toml").write_text(toml, "utf-8")
    return load_settings({}, environment, folder)


def test_remotes_come_from_the_file_and_from_the_environment_which_wins(tmp_path: Path) -> None:
    toml = (
        f'[remotes.openai]\nbase_url = "{OPENAI}"\nmodel = "gpt-realtime"\n[remotes.my-mac]\nbase_url = "http://mac"\n'
    )
    settings = loaded(
        tmp_path,
        toml,
        REMOTE_OPENAI_API_KEY="sk-1",
        REMOTE_MY_MAC_BASE_URL="http://mac.lan:8765",
        REMOTE_OTHER_BASE_URL="ws://other:9/v1",
        REMOTE_OTHER_DIALECT="beta",
        REMOTE_DESKTOP_API_KEY="somebody else's",
        REMOTE_EMPTY_BASE_URL="",
    )
    assert settings.remotes == (
        Remote("my-mac", "http://mac.lan:8765"),
        Remote("openai", OPENAI, "sk-1", "gpt-realtime"),
        Remote("other", "ws://other:9/v1", dialect="beta"),
    )


def test_the_environment_wins_over_dotenv(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("REMOTE_A_BASE_URL=http://one\nREMOTE_A_MODEL=m\n", "utf-8")
    assert loaded(tmp_path, REMOTE_A_BASE_URL="http://two").remotes == (Remote("a", "http://two", model="m"),)


def test_duplex_on_a_server_needs_no_engine_here(tmp_path: Path) -> None:
    settings = loaded(tmp_path, 'profile = "scripted"', DUPLEX_BASE_URL="http://mac:8765", DUPLEX_API_KEY="k")
    assert engine_plan(settings).native.engine == "none"
    assert all_remotes(settings) == {"duplex": Remote("duplex", "http://mac:8765", "k", "duplex")}


def test_keys_are_shown_nowhere(tmp_path: Path) -> None:
    settings = loaded(tmp_path, REMOTE_A_BASE_URL="http://a", REMOTE_A_API_KEY="sk-1", DUPLEX_API_KEY="sk-2")
    assert "sk-" not in repr(settings) + repr(settings.remotes)


@pytest.mark.parametrize(
    ("toml", "environment", "sentence"),
    [
        ("remotes = 3", {}, "`remotes` in duplex-gateway.toml is no table: write [remotes.NAME]"),
        ("[remotes.Big]\nbase_url='x'", {}, "`remotes.Big` in duplex-gateway.toml: give a name of small letters"),
        (
            "[remotes.a]\nurl='x'",
            {},
            "`remotes.a.url` in duplex-gateway.toml is not a setting: give base_url, api_key,",
        ),
        ("[remotes.a]\nmodel=3", {}, "`remotes.a.model` in duplex-gateway.toml is no text"),
        ("[remotes.a]\nmodel='m'", {}, "`remotes.a` in duplex-gateway.toml has no base_url: give it one."),
        ("", {"REMOTE_A_BASE_URL": "mac"}, "The base URL of the remote server `a` is no http(s) or ws(s) URL"),
        ("", {"REMOTE_A_BASE_URL": "http://a:x"}, "The base URL of the remote server `a` is no http(s) or ws(s) URL"),
        (
            "",
            {"REMOTE_A_BASE_URL": "http://a", "REMOTE_A_DIALECT": "v2"},
            "The dialect of the remote server `a` is 'v2'",
        ),
        ("", {"REMOTE_TWIN_BASE_URL": "http://a"}, "A remote server can't be named `twin`, which is a name of ours"),
        ("", {"REMOTE_DUPLEX_BASE_URL": "http://a"}, "`duplex`, which is a name of ours: set DUPLEX_BASE_URL."),
        ("", {"REMOTE_A_BASE_URL": "http://u:p@a"}, "has a user or password in it: give the server's key"),
        ("", {"REMOTE_A_BASE_URL": "ws://a/v1/realtime"}, "ends in the path of a request (/v1/realtime)"),
        ("", {"REMOTE_A_BASE_URL": "ws://localhost:8765/v1"}, "points at the gateway's own address"),
        ("", {"DUPLEX_BASE_URL": "http://127.0.0.1:8765"}, "DUPLEX_BASE_URL points at the gateway's own address"),
        (
            "duplex = 'scripted'",
            {"DUPLEX_BASE_URL": "http://a"},
            "The setting `duplex` is scripted and DUPLEX_BASE_URL",
        ),
        ("", {"DUPLEX_DIALECT": "old"}, "DUPLEX_DIALECT is 'old': give one of ga, beta"),
    ],
)
def test_a_wrong_server_is_refused_in_one_sentence(
    tmp_path: Path, toml: str, environment: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        loaded(tmp_path, toml, **environment)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("base_url", "realtime", "models"),
    [
        (OPENAI, "wss://api.openai.com/v1/realtime?model=m", "https://api.openai.com/v1/models"),
        ("ws://mac:8765", "ws://mac:8765/v1/realtime?model=m", "http://mac:8765/v1/models"),
        ("http://[::1]:9/openai/", "ws://[::1]:9/openai/realtime?model=m", "http://[::1]:9/openai/models"),
        (
            "https://a/v1?api-version=3",
            "wss://a/v1/realtime?api-version=3&model=m",
            "https://a/v1/models?api-version=3",
        ),
    ],
)
def test_a_base_url_leads_to_the_socket_and_to_the_models(base_url: str, realtime: str, models: str) -> None:
    address = address_of(Remote("a", base_url, model="m"))
    assert (address.realtime, address.models) == (realtime, models)
    assert address_of(Remote("a", base_url, model="m"), "transcription").realtime.endswith(
        "model=m&intent=transcription"
    )


def test_a_beta_server_is_told_that_beta_is_spoken() -> None:
    assert address_of(Remote("a", "http://a", "k", dialect="beta")).headers == {
        "Authorization": "Bearer k",
        "OpenAI-Beta": "realtime=v1",
    }
    assert address_of(Remote("a", "http://a")).headers == {}


@pytest.mark.parametrize(
    ("listing", "told"),
    [
        ({"data": [{"id": "a", "capabilities": {"x": 1}}, {"id": "m", "capabilities": {"y": 2}}]}, {"y": 2}),
        ({"data": [{"id": "a", "capabilities": {"x": 1}}]}, None),
        ({"data": [{"id": "m"}]}, None),
        ({"data": [{"id": "m", "capabilities": {"x": "y" * 70_000}}]}, None),
        ({"data": [3, None]}, None),
        ({"data": {}}, None),
        ([], None),
        (None, None),
    ],
)
def test_capabilities_are_what_a_list_says_of_the_model(listing: object, told: object) -> None:
    assert told_capabilities(listing, "m") == told


def test_without_a_model_they_are_those_of_the_first() -> None:
    assert told_capabilities({"data": [{"id": "a", "capabilities": {"x": 1}}, {"id": "b"}]}, "") == {"x": 1}
