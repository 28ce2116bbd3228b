"""What a client measures by itself, of servers that have no meter of ours: by arrival, with the network in it. Pure.

Answer, yield and stop mean what they mean to the gateway's meter. What is known here is better: where the user's clips
lie, so that a clip is one utterance, whatever its pauses are taken for.
"""

from __future__ import annotations

from collections.abc import Sequence

from clients.heard_replies import Reply, heard_of
from clients.microphone import Utterance
from clients.observed_figures import Figures
from clients.realtime_connection import StampedEvent
from clients.wav_audio import RATE_HZ

LEAST_VOICE_S = 0.064
"""So much voice makes an overlap; what comes later is not what the user spoke over (the meter's)."""

DECIDED_AFTER_S = 1.0
"""An agent that is still heard so long after the user's voice goes on (the meter's)."""

LAST_WORD_S = 0.5
"""One whose player was emptied and that still speaks so long after the user's voice has not given way (the meter's)."""


PLAYER_DELAY_S = 0.15
"""How far away the meter's player is: it still plays when the end of speech is told so soon behind its last sound, as
it always is where audio comes at the pace of speech, a little early or late. The agent gave way when that was told."""


def own_figures(
    events: Sequence[StampedEvent], turns: Sequence[Utterance], cut_ins: Sequence[Utterance], started_at_s: float
) -> Figures:
    """Return the figures of a conversation whose microphone was opened at `started_at_s`.

    Answers count from the last speech sample by level to the first audible sample in a player without delay, 0 if it
    came before: breath and noise hold a level up when the last word is over. An answer begins after the utterance does
    and before the next one, and outlasts it; what is cut within the utterance doesn't, and a nod answers nothing.

    Where the agent is heard as an utterance begins, yield and stop count from its first speech sample. The agent gives
    way with `speech_started`, on which clients empty their player, or with the cancelled end of its response, or before
    that with its last sound; or it had said all anyway, or goes on. The next utterance over
    the agent shuts the account of the one before, as in the meter.
    """
    figures = Figures("client")
    heard = heard_of(events)
    spoken = [(started_at_s + said.onset / RATE_HZ, started_at_s + said.end / RATE_HZ) for said in (*turns, *cut_ins)]
    spoken.sort()
    for (onset_s, end_s), (next_s, _) in zip(spoken, [*spoken[1:], (float("inf"), 0.0)], strict=True):
        answers = (reply for reply in heard.replies if onset_s <= reply.begins_s < next_s and reply.ends_s > end_s)
        answer = next(answers, None)
        if answer is None:
            figures.unanswered += 1
        else:
            figures.answer_ms.append(round(max(0.0, answer.begins_s - end_s) * 1000, 1))
    over = [(onset_s, end_s, _heard_at(onset_s, heard.replies)) for onset_s, end_s in spoken]
    overlaps = [(onset_s, end_s, reply) for onset_s, end_s, reply in over if reply is not None]
    known_s = [*(onset_s + LEAST_VOICE_S for onset_s, _, _ in overlaps), float("inf")]
    for (onset_s, end_s, reply), until_s in zip(overlaps, known_s[1:], strict=True):
        _count_overlap(figures, reply, heard.emptied_s, onset_s, end_s, until_s)
    return figures


def _heard_at(onset_s: float, replies: Sequence[Reply]) -> Reply | None:
    """Return the reply that an utterance is over, None if it is over none."""
    return next((reply for reply in replies if reply.speaks_at(onset_s, onset_s + LEAST_VOICE_S)), None)


def _count_overlap(
    figures: Figures, reply: Reply, emptied_s: Sequence[float], onset_s: float, end_s: float, until_s: float
) -> None:
    """Count what came of an utterance from `onset_s` to `end_s` over a reply, as far as it is seen until `until_s`."""
    decided_s = min(end_s + DECIDED_AFTER_S, until_s)
    cancelled_s = [reply.over_s] if reply.over_s is not None and reply.status == "cancelled" else []
    told_s = min((when_s for when_s in (*emptied_s, *cancelled_s) if onset_s < when_s < decided_s), default=None)
    if told_s is not None and not _speaks_on(reply, told_s, min(max(told_s, end_s) + LAST_WORD_S, until_s)):
        last = [sound for sound in reply.sounds if sound.came_s <= told_s][-1]
        cut = told_s in reply.cuts_s
        silent = not cut and last.ends_s + PLAYER_DELAY_S <= told_s
        yielded_s = last.came_s if silent else told_s
        if yielded_s <= onset_s or (_over(reply, told_s) and not cut):
            figures.ended += 1
            return
        figures.yield_ms.append(round((yielded_s - onset_s) * 1000, 1))
        figures.stop_ms.append(round(((told_s if cut else last.ends_s) - onset_s) * 1000, 1))
    elif told_s is None and _over(reply, decided_s) and reply.ends_s < decided_s:
        figures.ended += 1
    else:
        figures.went_on += 1


def _over(reply: Reply, when_s: float) -> bool:
    return reply.over_s is not None and reply.over_s < when_s


def _speaks_on(reply: Reply, told_s: float, by_s: float) -> bool:
    """Return whether the server goes on with a reply although it told of the user's voice at `told_s`."""
    return not _over(reply, by_s) and any(told_s < sound.came_s <= by_s for sound in reply.sounds)
