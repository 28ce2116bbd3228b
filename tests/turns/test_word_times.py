"""A voice that tells when its words end: the marks that follow, and what remains of a reply that is cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.turns.inputs import GenerationEnded, SynthesisEnded, SynthesizedSpeech, TextDelta, WordEnd
from gateway.turns.observations import OverlapJudged
from gateway.turns.settings import BargeIn
from protocol.audio_time import Samples, samples_from_ms
from protocol.backend_events import OutputAudio, OutputSpoken, OutputTextDelta, PlayoutCut
from protocol.speech import SpeechPart
from tests.simulation.conversation import Conversation, server_vad

TEXT = "Sure, it costs $7.25 at **most**. That is version 2.1.0 of Dr. Lee's app."
SPOKEN = "Sure, it costs 7 dollars and 25 cents at most. That is version 2 point 1 point 0 of Doctor Lee's app."
WORD: Samples = samples_from_ms(300)


def answered(conversation: Conversation) -> Conversation:
    conversation.silence(300)
    conversation.speak(800)
    conversation.silence(500)
    while not conversation.responses():
        conversation.silence(20)
    return conversation


def heard_part(conversation: Conversation, *, whole: bool = False) -> SpeechPart:
    """Return what the session keeps of the conversation's one reply."""
    speech = SpeechPart(whole=whole)
    for output in conversation.outputs:
        match output:
            case OutputTextDelta(delta=delta):
                speech.text += delta
            case OutputAudio(pcm=pcm):
                speech.audio_sent += len(pcm) // 2
            case OutputSpoken(text_end=text_end, audio_end=audio_end):
                speech.mark(text_end, audio_end)
            case PlayoutCut(heard=heard):
                speech.gateway_cut = heard
            case _:
                pass
    return speech


def test_each_word_is_marked_where_it_ends_as_soon_as_its_audio_is_sent() -> None:
    conversation = answered(Conversation(llm="One two three four.", word_times=True, piece_ms=400))
    conversation.run_dry()
    sent, marked, order = 0, [], []
    for output in conversation.outputs:
        if isinstance(output, OutputAudio):
            sent += len(output.pcm) // 2
            order.append(sent // WORD)
        elif isinstance(output, OutputSpoken):
            assert output.audio_end <= sent
            marked.append((output.text_end, output.audio_end // WORD))
            order.append("word")
    assert marked == [(3, 1), (7, 2), (13, 3), (19, 4), (19, 4)]  # the last one says that the chunk is over
    assert order == [1, "word", 2, "word", 4, "word", "word", "word"]


@settings(max_examples=60, deadline=None)
@given(st.integers(100, 7_000), st.sampled_from([60, 100, 250, 300, 700]))
def test_a_reply_that_is_cut_keeps_exactly_the_words_whose_end_was_heard(after_ms: int, piece_ms: int) -> None:
    conversation = answered(
        Conversation(llm=TEXT, word_times=True, piece_ms=piece_ms, piece_every_ms=piece_ms * 9 // 10)
    )
    conversation.silence(after_ms)
    conversation.speak(200)
    cuts = conversation.all(PlayoutCut)
    if not cuts:
        return  # nothing played yet, or nothing any more
    words_heard = SPOKEN.split()[: cuts[0].heard // WORD]
    reply = TEXT.split()
    expected = next(n for n in range(len(reply), -1, -1) if spoken_length(reply[:n]) <= len(words_heard))
    assert heard_part(conversation).heard_text() == " ".join(reply[:expected])


def spoken_length(words: list[str]) -> int:
    more = {"$7.25": 4, "2.1.0": 4}  # beyond the one word that each is in the reply
    return sum(1 + more.get(word, 0) for word in words)


def test_a_word_that_the_cut_falls_into_is_not_kept_even_if_it_is_the_first() -> None:
    text = "Incomprehensibilities are unlikely."
    conversation = answered(Conversation(llm=text, word_times=True, word_ms=2_000, piece_every_ms=95))
    conversation.silence(1_600)
    conversation.speak(100)
    (cut,) = conversation.all(PlayoutCut)
    assert samples_from_ms(1_000) < cut.heard < samples_from_ms(2_000)
    assert conversation.all(OutputSpoken) == []
    assert heard_part(conversation).heard_text() == ""


@pytest.mark.parametrize("word_times", [True, False])
def test_a_reply_that_is_heard_to_its_end_is_kept_whole(word_times: bool) -> None:
    conversation = answered(Conversation(llm=TEXT, word_times=word_times))
    conversation.run_dry()
    speech = heard_part(conversation, whole=True)
    assert speech.heard_text() == TEXT
    assert not speech.cut_short


@pytest.mark.parametrize(
    ("words", "marks"),
    [
        ((WordEnd(3, 100), WordEnd(7, 240)), [(3, 100), (7, 240)]),
        ((WordEnd(3, 100), WordEnd(7, 241)), [(3, 100)]),  # not in the audio that was sent
        ((WordEnd(7, 240), WordEnd(3, 100)), [(7, 240)]),  # runs backwards
        ((WordEnd(2, 100), WordEnd(3, 100), WordEnd(3, 120)), [(3, 100)]),  # half a word ends nothing
        ((WordEnd(3, -1),), []),
        ((WordEnd(99, 200),), [(11, 200)]),
    ],
)
def test_word_times_that_cannot_be_are_void(words: tuple[WordEnd, ...], marks: list[tuple[int, int]]) -> None:
    conversation = Conversation(server_vad(), engines=False)
    response_id = conversation.create()
    conversation.feed(TextDelta(response_id, "One two so."))
    conversation.feed(GenerationEnded(response_id, "stop"))
    conversation.feed(SynthesizedSpeech(response_id, 0, bytes(480), words))
    assert [(mark.text_end, mark.audio_end) for mark in conversation.all(OutputSpoken)] == marks
    conversation.feed(SynthesisEnded(response_id, 0))
    assert conversation.all(OutputSpoken)[-1].text_end == 11


def test_a_voice_that_says_many_words_in_no_time_can_be_spoken_over() -> None:
    conversation = Conversation(server_vad(barge_in=BargeIn.JUDGED), engines=False)
    response_id = conversation.create()
    conversation.silence(300)
    conversation.feed(TextDelta(response_id, "One two so. And then there is more to say about all of it."))
    conversation.feed(SynthesizedSpeech(response_id, 0, bytes(2 * 5)))
    conversation.feed(SynthesisEnded(response_id, 0))
    conversation.feed(SynthesizedSpeech(response_id, 1, bytes(2 * 48_000)))
    conversation.silence(300)
    conversation.speak(1_500)
    assert conversation.all(OverlapJudged)
