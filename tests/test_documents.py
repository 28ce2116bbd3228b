"""What the documents name exists."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import play_wav
from gateway import duplex_server
from gateway.cli import main
from gateway.settings import table

ROOT = Path(__file__).parent.parent
ROOMS = ("gateway", "models", "protocol", "clients", "docker", "tests")
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

TICKED = re.compile(r"`([^`\n]+)`")


def by_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


# --- ARCHITECTURE.md -----------------------------------------------------------------------------------------------


def names_in(path: Path) -> set[str]:
    """Return the classes, functions and constants of a module, methods and fields as `Class.name`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
            names |= {f"{node.name}.{name}" for inner in node.body for name in bound_by(inner)}
        names.update(bound_by(node))
    return names


def bound_by(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def where_to_look() -> list[tuple[str, list[str], list[str]]]:
    """Return the rows of the table: question, files, names."""
    section = ARCHITECTURE.split("## Where to look")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")][2:]
    return [(question.strip(), TICKED.findall(files), TICKED.findall(names)) for question, files, names in rows]


@pytest.mark.parametrize(("question", "files", "names"), where_to_look(), ids=[row[0] for row in where_to_look()])
def test_the_table_leads_to_files_and_names_that_exist(question: str, files: list[str], names: list[str]) -> None:
    assert files, question
    folder = (ROOT / files[0]).parent
    paths = [ROOT / file if "/" in file else folder / file for file in files]
    for path in paths:
        assert path.is_file(), by_name(path)
    found = set().union(*map(names_in, paths))
    owner = ""
    for name in names:
        owner = name.split(".")[0] if "." in name else owner
        assert name in found or f"{owner}.{name}" in found, f"{name} is not in {files}"


# --- all documents -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", DOCUMENTS, ids=by_name)
def test_files_and_folders_that_a_document_names_exist(document: Path) -> None:
    folders = [ROOT, document.parent]
    for ticked in TICKED.findall(document.read_text(encoding="utf-8")):
        if re.fullmatch(r"[\w./-]+(\.(py|md|toml|wav)|/)", ticked) and not ticked.startswith("/"):
            for home in (ROOT, document.parent) if "/" in ticked else ():  # a bare name after it may lie there as well
                folders.append(home / ticked if ticked.endswith("/") else (home / ticked).parent)
            if ticked == "duplex-gateway.toml":
                continue  # the user's own
            assert any((folder / ticked).exists() for folder in folders), f"{by_name(document)}: {ticked}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=by_name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{by_name(document)}: {target}"


def test_decisions_are_numbered_one_after_the_other_and_dated() -> None:
    headings = [
        line for line in (ROOT / "DECISIONS.md").read_text(encoding="utf-8").splitlines() if line.startswith("## ")
    ]
    matches = [re.fullmatch(r"## (\d+)\. .+ \((\d{4}-\d{2}-\d{2})\)", heading) for heading in headings]
    assert headings
    assert None not in matches, headings
    numbers = [int(match[1]) for match in matches if match]
    dates = [match[2] for match in matches if match]
    assert numbers == list(range(1, len(headings) + 1))
    assert dates == sorted(dates)


def test_every_decision_says_how_it_would_be_found_wrong_or_what_was_weighed() -> None:
    for section in (ROOT / "DECISIONS.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        assert body.strip(), title


def test_the_goldens_switch_of_the_documents_is_the_one_that_tests_obey() -> None:
    told = set(re.findall(r"\b(\w*UPDATE_GOLDENS)=1", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
    this = Path(__file__)
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py") if path != this]
    obeyed = {name for source in sources for name in re.findall(r"\b\w*UPDATE_GOLDENS\b", source)}
    assert told == obeyed


# --- commands ------------------------------------------------------------------------------------------------------


def fenced_lines(document: Path) -> Iterator[str]:
    """Yield the lines of a document's blocks of shell commands."""
    language: str | None = None
    for line in document.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        if line.startswith("```"):
            language = line[3:].strip() if language is None else None
        elif language == "bash" or (language == "" and line.startswith(("duplex-gateway ", "python "))):
            yield line


def command_lines() -> list[tuple[str, list[str]]]:
    """Return the documents' commands: where, and their words."""
    return [
        (by_name(document), shlex.split(command, comments=True))
        for document in DOCUMENTS
        for line in fenced_lines(document)
        for command in line.split(" && ")
    ]


def help_of(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit):
        main([*words, "--help"])
    return capsys.readouterr().out


def test_the_documents_hold_commands() -> None:
    assert len(command_lines()) > 10


@pytest.mark.parametrize(
    ("document", "words"), command_lines(), ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else value
)
def test_a_command_in_a_document_can_be_given(
    document: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    environment = {entry.env for entry in table()}
    while re.match(r"[A-Z_]+=", words[0]):
        assert words[0].split("=")[0] in environment | {"UPDATE_GOLDENS"}, words
        words = words[1:]
    program, arguments = Path(words[0]).name, words[1:]
    flags = [word for word in arguments if re.fullmatch(r"--[\w-]+", word)]
    match program:
        case "duplex-gateway":
            assert arguments[0] in help_of(capsys)
            told = help_of(capsys, *arguments[: 2 if arguments[0] == "turnlab" else 1])  # that one has benches
            assert all(re.search(rf"{flag}\b", told) for flag in flags), words
        case "duplex-server":
            with pytest.raises(SystemExit):
                duplex_server.main(["--help"])
            told = capsys.readouterr().out
            assert all(re.search(rf"{flag}\b", told) for flag in flags), words
        case "python" | "python3" if arguments[0] == "-m":
            spec = importlib.util.find_spec(arguments[1])
            assert spec is not None, words
            if arguments[1].startswith("clients."):
                source = Path(str(spec.origin)).read_text(encoding="utf-8")
                assert all(f'"{flag}"' in source for flag in flags), words
        case "make":
            targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            assert set(arguments) - {"-s"} <= set(targets), words
        case "pip":
            assert arguments[0] == "install"
        case "docker":
            assert arguments[0] in {"build", "run", "compose"}
            files = [arguments[at + 1] for at, word in enumerate(arguments) if word == "-f"]
            assert all((ROOT / file).is_file() for file in files), words
        case _:
            raise AssertionError(f"{document}: what is {program}? {words}")
    for word in arguments:
        if word.startswith(("tests/", "clients/", "docker/")):
            assert (ROOT / word).exists(), f"{document}: {word}"


def test_inline_commands_and_flags_of_the_readme_exist(capsys: pytest.CaptureFixture[str]) -> None:
    commands, serve = help_of(capsys), help_of(capsys, "serve")
    for ticked in TICKED.findall(README):
        words = ticked.split()
        if words[0] == "duplex-gateway" and len(words) > 1:
            assert words[1] in commands, ticked
        if words[0].startswith("--"):
            assert words[0] in serve, ticked


def test_environment_names_of_the_readme_are_settings() -> None:
    environment = {entry.env for entry in table()}
    for name in re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", README):
        if name != "OPENAI_":
            assert name in environment, name


def test_the_readmes_url_is_where_the_gateway_listens_and_its_client_calls() -> None:
    (port,) = {entry.default for entry in table() if entry.name == "port"}
    for found in set(re.findall(r"127\.0\.0\.1:(\d+)/v1", README + play_wav.DEFAULT_URL)):
        assert int(found) in {port, 8080}  # 8080: somebody's chat server


# --- nothing of the machine on which it was written ----------------------------------------------------------------

FOREIGN = {
    "a work folder": re.compile(r"(?<![\w.])/" + r"work/"),
    "root's home": re.compile(r"(?<![\w.])/" + r"root/"),
    "somebody's home": re.compile(r"(?<![\w.])/(?:" + r"home|Users)/\w"),
    "a package registry": re.compile("pypi" + r"\.org|python" + r"hosted|mirror[\w-]*\.\w+/" + "simple"),
}
LEGITIMATE = {
    ("tests/models/test_openai_chat.py", "somebody's home"),  # a path that a server leaked, which must not be shown
}
NOT_OURS = {".git", ".coverage", ".DS_Store", ".env", "duplex-gateway.toml"}  # may lie in a working tree
TEXTS = {".py", ".md", ".toml", ".jsonl", ".json", ".yml", ".yaml", ".sh", ".txt", ".cpu", ".cuda", ""}


def texts() -> list[Path]:
    """Return every text of ours."""
    inside = (path for room in (*ROOMS, ".ci") for path in (ROOT / room).rglob("*"))
    files = [path for path in (*ROOT.iterdir(), *inside) if path.is_file() and path.suffix in TEXTS]
    return sorted(path for path in files if "__pycache__" not in path.parts and path.name not in NOT_OURS)


def test_no_text_names_a_folder_of_somebodys_machine_or_a_registry() -> None:
    assert len(texts()) > 100
    found = set()
    for path in texts():
        text = path.read_text(encoding="utf-8")
        found |= {(by_name(path), what) for what, pattern in FOREIGN.items() if pattern.search(text)}
    assert found == LEGITIMATE
