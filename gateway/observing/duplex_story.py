"""What a full-duplex conversation tells its observers besides its events: the floor, held voices, the model's state."""

from __future__ import annotations

from gateway.observing.conversation import Tell
from gateway.observing.kinds import Kind
from gateway.turns.duplex_calls import NO_TOOL_RESULT
from gateway.turns.duplex_notices import DuplexNotice, NoticeKind
from gateway.turns.duplex_observations import FloorTaken, FloorYielded, VoiceDropped, VoiceHeld
from gateway.turns.duplex_vocabulary import AnswerCall, DuplexOutput, SteerModel
from protocol.audio_time import ms_from_samples

_NOTICES = {
    NoticeKind.CONVERSATION_OPENING: Kind.MODEL_OPENING,
    NoticeKind.CONVERSATION_OPENED: Kind.MODEL_OPENED,
    NoticeKind.CONVERSATION_ENDED: Kind.MODEL_ENDED,
    NoticeKind.MODEL_FAILED: Kind.MODEL_FAILED,
    NoticeKind.MODEL_PACE: Kind.MODEL_PACE,
    NoticeKind.MODEL_BEHIND: Kind.MODEL_BEHIND,
    NoticeKind.MODEL_KEEPS_UP: Kind.MODEL_KEEPS_UP,
    NoticeKind.TOOL_RESULT_CUT: Kind.TOOL_RESULT_CUT,
}


class DuplexStory:
    """Tells one session's to `tell`."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._unheard_ms = 0.0

    def told(self, output: DuplexOutput | DuplexNotice) -> bool:
        """Tell of what was said, and return whether it was none of the events that any backend has."""
        tell = self._tell
        match output:
            case DuplexNotice(kind=NoticeKind.MODEL_PACE, fields=fields):
                unheard_ms = float(fields["silence_ms"]) + float(fields["too_old_ms"])
                tell(Kind.MODEL_PACE, **fields, unheard_ms=unheard_ms - self._unheard_ms)
                self._unheard_ms = unheard_ms
            case DuplexNotice(kind=kind, fields=fields):
                tell(_NOTICES[kind], **fields)
            case FloorTaken(response_id=response_id, by=by, start=start):
                tell(Kind.FLOOR_TAKEN, response_id=response_id, by=by, output_ms=ms_from_samples(start))
            case FloorYielded(response_id=response_id, by=by, end=end):
                tell(
                    Kind.FLOOR_YIELDED,
                    response_id=response_id,
                    by=by,
                    output_ms=ms_from_samples(end),
                    quiet_ms=ms_from_samples(max(0, end - output.voiced_until)),
                    spoken=output.spoken,
                )
            case VoiceHeld(item_id=item_id, start=start):
                tell(Kind.VOICE_HELD, item_id=item_id, audio_start_ms=ms_from_samples(start))
            case VoiceDropped(item_id=item_id, start=start, end=end, words=words, echo=echo):
                tell(
                    Kind.VOICE_DROPPED,
                    item_id=item_id,
                    audio_start_ms=ms_from_samples(start),
                    audio_end_ms=ms_from_samples(end),
                    words=words,
                    reason="the agent's own voice" if echo else "no more than a nod",
                )
            case SteerModel(command=command, text=text):
                tell(Kind.MODEL_STEERED, command=command, text=text)
            case AnswerCall(output=result):
                tell(Kind.TOOL_READ, characters=len(result), timed_out=result == NO_TOOL_RESULT)
            case _:
                return False
        return True
