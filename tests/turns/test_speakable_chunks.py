from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.turns import speakable_chunks as limits
from gateway.turns.speakable_chunks import Chunk, SpeakableChunks

RB34 = (
    "## Plan\n- **First**, open `main.py`.\n- Then see [the docs](https://example.com/a_b?q=1).\n"
    "| a | b |\n|---|---|\n🎉 Done!"
)
RB35 = "Dr. Lee walked 6.28 km by 10:45 a.m. and paid $7.25 for version 2.1.0 of the app."
RB49 = " ".join(f"{'abcdefgh'[i % 8] * (1 + i % 9)}" for i in range(163)) + " and the very last word is pineapple"


def split(pieces: Iterable[str], language: str = "en") -> list[Chunk]:
    splitter = SpeakableChunks(language)
    return [chunk for piece in pieces for chunk in splitter.feed(piece)] + splitter.finish()


def tokens(text: str, length: int) -> list[str]:
    return [text[at : at + length] for at in range(0, len(text), length)]


def spoken(text: str, language: str = "en") -> list[str]:
    return [chunk.spoken for chunk in split(text, language)]


def raw(text: str) -> list[str]:
    ends = [chunk.text_end for chunk in split(text)]
    return [text[a:b] for a, b in zip([0, *ends], ends, strict=False)]


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_rb34_markdown_is_spoken_as_words(length: int) -> None:
    said = [chunk.spoken for chunk in split(tokens(RB34, length))]
    assert said == ["Plan. First, open main dot py.", "Then see the docs.", "a, b. Done!"]


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_rb35_numbers_versions_prices_and_abbreviations_end_no_sentence(length: int) -> None:
    assert [chunk.spoken for chunk in split(tokens(RB35, length))] == [
        "Doctor Lee walked 6.28 kilometers by 10 45 AM and paid",
        "7 dollars and 25 cents for version 2 point 1 point 0 of the app.",
    ]


@pytest.mark.parametrize("length", [1, 4])
def test_rb49_a_long_sentence_without_punctuation_streams_whole_words_and_loses_none(length: int) -> None:
    chunks = split(tokens(RB49, length))
    assert " ".join(chunk.spoken for chunk in chunks) == RB49
    assert len(chunks) > 4
    assert len(chunks[0].spoken.split()) == limits.FIRST_CHUNK_WORDS
    assert max(len(chunk.spoken.split()) for chunk in chunks) <= limits.MAX_CHUNK_WORDS
    assert chunks[-1].spoken.endswith("very last word is pineapple")


def test_rb36_text_after_the_filter_is_said_in_one_piece() -> None:
    assert split(["Hello ", "there."]) == [Chunk(text_end=12, spoken="Hello there.", first=True)]


def test_the_first_piece_ends_at_a_clause_and_only_it_is_first() -> None:
    chunks = split("Well, sure thing, I can do that for you, my friend. Then what?")
    assert [chunk.spoken for chunk in chunks] == [
        "Well, sure thing,", "I can do that for you, my friend.", "Then what?"]  # fmt: skip
    assert [chunk.first for chunk in chunks] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("Abcde abcd, and so on it goes", False),
        ("Abcde abcde, and so on it goes", True),
        ("Abcdef abcde, and so", True),
    ],
)
def test_a_clause_ends_the_first_piece_from_the_least_size_on(text: str, first: bool) -> None:
    assert (spoken(text)[0] == text.split(",")[0] + ",") is first


def test_a_boundary_is_decided_by_the_next_character_and_not_before() -> None:
    splitter = SpeakableChunks()
    assert splitter.feed("It weighs about 6.") == []
    assert splitter.feed("28") == []
    assert splitter.feed(" tons or so.") == []
    assert [chunk.spoken for chunk in splitter.feed("\n")] == ["It weighs about 6.28 tons or so."]
    assert splitter.finish() == []


def test_the_first_piece_is_not_cut_after_a_leaning_word_a_number_or_a_title() -> None:
    assert spoken("one two six ten one two six the box is")[0] == "one two six ten one two six the box"
    assert spoken("one two six ten one two six 10 box is")[0] == "one two six ten one two six 10 box"
    assert spoken("one two six ten one two six Dr. Lee is")[0] == "one two six ten one two six Doctor Lee"


def test_long_words_end_the_first_piece_by_size() -> None:
    assert (
        raw("Donaudampfschifffahrt Elektrizitätswerke Aktiengesellschaft heute")[0].split()[-1] == "Aktiengesellschaft"
    )


@pytest.mark.parametrize(
    "whole",
    [
        "Version 2.1.0 costs 1,000 or 6.28 at 10:45 now.",
        "Ask Dr. Lee, e.g. by mail, i.e. now.",
        "In the U.S. J. R. R. Tolkien (Prof. of old) is read.",
        "See https://a.org/b.c?d=e,f;g:h and joe.doe@x.org today.",
        "We met at 10 a.m. and then at 3 p.m. on day 5.",
        "Take No. 5 and pens etc. with you.",
    ],
)
def test_later_pieces_are_whole_sentences(whole: str) -> None:
    assert raw("This is the start. " + whole + " And the end is here.")[1:] == [whole + " ", "And the end is here."]


@pytest.mark.parametrize(
    "pieces",
    [
        ["He told me “no.” ", "I do not agree (really!) ", "**That is bold.** ", "Done with it 🎉."],
        ["I said that to No. ", "Then it was over."],
        ["Now read vol. 3 of it. ", "It took me 5 min. ", "It ended on p. 5. ", "So be it."],
        ["Take 100 - 20 = 80 here. ", "So be it."],
        ["Bring some pens etc. ", "Then we can go home."],
        ["We met at 10 a.m.\n", "and it went on well"],
        ["We met at 10 a.m. \n", "and it went on well"],
        ["So happy and so am I. ", "Then it was over."],
        ["It is what it is… ", "So let us go on."],
        ["It is what it is... ", "So let us go on."],
        ["We could go there - ", "If you want to."],
        ["We could go there — ", "If you want to."],
        ["We could go there—", "If you want to."],
        ["Go to https://a.org/x. ", "Then come back here."],
        ["It is the end of 2024. ", "Then 2025 came."],
    ],
)
def test_boundaries_are_found_where_they_are(pieces: list[str]) -> None:
    assert raw("".join(pieces)) == pieces


@pytest.mark.parametrize(
    "pieces",
    [
        ["你好，我叫小明。", "今天天气很好！", "我们去「公园。」", "请问你要不要来？？", "Python很有用。"],
        ["今日はとても、", "いい天気ですね。", "そうですよね！ ", "はい"],
        ["नमस्ते मेरे प्यारे दोस्त। ", "यह एक परीक्षण है।"],
        ["مرحبا بالعالم الجميل، ", "كيف حالك اليوم؟ ", "أنا بخير۔ شكرا"],
        ["我很喜欢 Python，", "因为它有 3.5 倍那么快。", "你说得对！"],
    ],
)
def test_signs_of_other_scripts_are_boundaries(pieces: list[str]) -> None:
    assert raw("".join(pieces)) == pieces


def test_cjk_text_without_signs_is_limited_by_characters() -> None:
    chunks = split("我们一直说下去" * 30, "zh")
    assert "".join(chunk.spoken for chunk in chunks) == "我们一直说下去" * 30
    assert len(chunks[0].spoken) == limits.FIRST_CHUNK_SIZE // limits.CJK_SIZE
    assert max(len(chunk.spoken) for chunk in chunks) == limits.MAX_CHUNK_SIZE // limits.CJK_SIZE


def test_a_long_sentence_is_cut_at_a_clause_only_when_long() -> None:
    clause = "and so on it goes, "  # 19 characters
    pieces = raw("This is the start. " + clause * 6 + "until the end.")
    assert pieces == ["This is the start. ", clause * 5, clause + "until the end."]


def test_a_sentence_beyond_the_limit_is_cut_at_its_last_clause() -> None:
    words = "abcdefgh " * 20
    assert raw("This is the start. There is a clause, " + words + "end.")[:2] == [
        "This is the start. ", "There is a clause, "]  # fmt: skip


def test_many_short_words_are_limited_by_their_number() -> None:
    pieces = raw("This is the start. " + "ab " * 100)
    assert [len(piece.split()) for piece in pieces[1:]] == [40, 40, 20]
    pieces = raw("This is the start. " + "ab " * 10 + "ab, " + "ab " * 50)
    assert [len(piece.split()) for piece in pieces[1:]] == [11, 40, 10]


def test_code_spans_and_links_are_never_cut() -> None:
    link = "[the docs. Or, not](https://a.org/b (c, d. e))"
    code = "`one. two, three! four`"
    assert raw(f"Look at {code} now, and then at {link} there. And go.") == [
        f"Look at {code} now, ", f"and then at {link} there. ", "And go."]  # fmt: skip


def test_brackets_that_are_no_link_are_words() -> None:
    assert raw("See what [1] says. Then go on.") == ["See what [1] says. ", "Then go on."]


def test_an_unclosed_span_ends_with_its_line_or_at_the_limit() -> None:
    assert raw("An `open span, here.\nAnd then. More of it. Yes.")[:2] == [
        "An `open span, here.\n",
        "And then. More of it. ",
    ]
    pieces = raw("[" + "so, it goes " * 40)
    assert "".join(pieces) == "[" + "so, it goes " * 40
    assert len(pieces) > 2


def test_a_word_beyond_any_limit_is_cut_but_an_address_is_not() -> None:
    assert [len(piece) for piece in raw("x" * 450)] == [200, 200, 50]
    assert len(raw("https://a.org/" + "x" * 450)) == 1


def test_a_long_word_is_not_cut_before_a_combining_mark() -> None:
    pieces = raw("x" * 200 + "e\u0301" + "x")
    assert pieces == ["x" * 200, "e\u0301x"]
    pieces = raw("x" * 199 + "e\u0301\u0301" + "x")
    assert pieces == ["x" * 199 + "e\u0301\u0301", "x"]


def test_numbers_are_cut_between_when_there_is_nothing_else() -> None:
    pieces = raw("123456 " * 40)
    assert "".join(pieces) == "123456 " * 40
    assert max(map(len, pieces)) <= 60
    assert all(piece.split()[-1] == "123456" for piece in pieces)


def test_words_that_grow_when_spoken_are_cut_again() -> None:
    text = "This is the start. " + "vs. it e.g. me " * 12 + "end."
    assert max(len(said) for said in spoken(text)) <= limits.MAX_CHUNK_SIZE
    assert " ".join(spoken(text)).count("versus it for example me") == 12


def test_a_word_that_grows_beyond_the_limit_is_said_whole() -> None:
    assert len(spoken("This is the start. " + "e.g.,-" * 33)) == 2


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_code_blocks_are_not_spoken_and_what_comes_before_is_said_at_once(fence: str) -> None:
    splitter = SpeakableChunks()
    text = f"Run:\n{fence}python\nx = 1. Then, y.\n``\n{fence}"
    assert [chunk.spoken for piece in tokens(text, 2) for chunk in splitter.feed(piece)] == ["Run:"]
    assert splitter.feed("") == []
    assert [chunk.spoken for chunk in splitter.feed("\nThat was all of it. ")] == ["That was all of it."]
    assert splitter.finish() == []


def test_a_code_block_in_a_list_and_one_on_one_line_are_not_spoken() -> None:
    assert spoken("- ```sh\n  ls. a\n  ```\n- Then go. ") == ["Then go."]
    assert spoken("```ls -l``` is a command. ") == ["is a command."]


def test_an_unclosed_code_block_is_silent_to_the_end_and_the_last_chunk_says_so() -> None:
    text = "Run this now:\n```\nx = 1. Then"
    assert split(text) == [Chunk(14, "Run this now:", first=True), Chunk(len(text), "", first=False)]


def test_three_backticks_in_a_line_or_after_a_forced_cut_are_no_fence() -> None:
    assert spoken("Use ```ls. a, b``` for it. ") == ["Use ls. a, b for it."]
    assert spoken("x" * 200 + "```y z. ")[1:] == ["y z."]


def test_silent_text_makes_no_chunk_but_counts_in_the_next() -> None:
    assert split("---------------\n\n🎉 Hi there") == [Chunk(len("---------------\n\n🎉 Hi there"), "Hi there", True)]
    assert split("*** ") == [Chunk(4, "", True)]
    assert split("") == []


def test_lines_of_lists_headings_and_paragraphs_end_a_piece() -> None:
    text = "# A fine heading\n1. The first item\n2. The second\nA line of a paragraph\nand more of it\n\nThe next one"
    assert spoken(text) == [
        "A fine heading.",
        "1, The first item.",
        "2, The second.",
        "A line of a paragraph and more of it.",
        "The next one",
    ]


def test_languages_that_nobody_listed_keep_their_abbreviations() -> None:
    assert spoken("Det är Dr. Lee som kommer.", "sv") == ["Det är Dr. Lee som kommer."]


FRAGMENTS = st.sampled_from(
    "Hello world the Dr. e.g. a.m. No. 5 6.28 $7.25 10:45 2.1.0 U.S. https://a.org/x.y `co de` [li nk](u) [ ] ( ) ` `` "
    '``` ~~~ \n \n\n . , ; : ! ? … — – - * ** # | |---| > 1. 你好 。 ， 「 」 です ー 🎉 ’ " extraordinarily'.split(" ")
)
TEXTS = st.lists(st.tuples(FRAGMENTS, st.sampled_from(["", " ", " ", " ", "\n"])), max_size=60).map(
    lambda parts: "".join(fragment + space for fragment, space in parts)
)


@settings(max_examples=300, deadline=None)
@given(TEXTS, st.data())
def test_pieces_do_not_depend_on_the_tokens_and_partition_the_text(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=30)))
    chunks = split(text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True))
    assert chunks == split([text]) == split(text)
    ends = [chunk.text_end for chunk in chunks]
    assert ends == sorted(set(ends))
    assert (ends[-1] if ends else 0) == len(text)
    assert [chunk.first for chunk in chunks] == [True, *[False] * (len(chunks) - 1)][: len(chunks)]
    assert all(any(map(str.isalnum, chunk.spoken)) for chunk in chunks[:-1])
    assert max((len(chunk.spoken) for chunk in chunks), default=0) <= limits.MAX_CHUNK_SIZE


WORDS = st.lists(st.from_regex(r"[b-z]{3,12}", fullmatch=True), min_size=1, max_size=120)
JOINTS = st.sampled_from([" ", " ", " ", ", ", ". ", "\n", "\n\n", "\n- ", " **", "** ", "? ", "\n## ", " | ", " 🎉 "])


def test_signs_that_nobody_says_do_not_pile_up() -> None:
    splitter = SpeakableChunks()
    for _ in range(10_000):
        splitter.feed("- ")
        assert len(splitter._buffer) <= 2 * limits.MAX_RAW_SIZE
    assert [chunk.text_end for chunk in splitter.finish()][-1] == 20_000


@settings(max_examples=200, deadline=None)
@given(WORDS, st.data())
def test_nothing_is_lost_or_said_twice(words: list[str], data: st.DataObject) -> None:
    joints = data.draw(st.lists(JOINTS, min_size=len(words), max_size=len(words)))
    text = "".join(word + joint for word, joint in zip(words, joints, strict=True))
    assert re.findall(r"[a-z]+", " ".join(spoken(text))) == words
    sizes = [len(said) for said in spoken(text)]
    assert all(size >= limits.MIN_CHUNK_SIZE for size in sizes[:-1])
