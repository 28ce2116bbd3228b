"""Does the microphone hear the agent? The share of the input's energy that the audio which was sent explains.

A client without echo cancellation sends the agent's voice back, 20 to 40 dB down, late, and coloured by the room. We
know every sample that was sent, so no model of speech is needed: a filter that maps the sent audio to the input either
predicts the input or it does not. Whatever of a frame it predicts before it has learned from that frame is echo; of a
person's voice that is nothing.

Two steps. `gateway.echo_lag` finds how late the echo comes, by correlation. A lag is believed if a filter at that lag
predicts the end of what it was found on; until then its likeness alone is the evidence. The filter, some taps per
frequency between short-time spectra (a convolutive transfer function), is fitted by least squares in which frames that
it can't explain weigh little, so that a user who speaks over the agent does not spoil it.

Figures were measured 2026-11-29 on one synthetic voice, recordings of several readers and made-up rooms; the constants
were tuned on the same. `tests/models/test_self_hearing_voices.py` prints what comes of it, not each figure here.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gateway.echo_lag import EARLIEST, SENT_SPAN, WINDOW, likeliest_lag
from models.interfaces import VAD_FRAME_SAMPLES
from protocol.audio_time import Samples

_HOP = VAD_FRAME_SAMPLES // 2
_TAPS = 6
_LEAD = 1
"""The filter spans 80 ms of the room from one hop (16 ms) before the lag: at a reverberation time of 0.4 s, 94 % of the
echo's energy."""

LATEST: Samples = SENT_SPAN + EARLIEST - WINDOW - _TAPS * _HOP
"""The latest echo that is looked for: 1.27 s after the estimate. The client may play 600 ms after it, and its sound
take 400 ms through the air and its buffers."""

_SOONEST: Samples = EARLIEST + _LEAD * _HOP

_BINS = slice(7, 116)
"""Bins of 31.25 Hz from 219 to 3594 Hz: speech's energy, also through a telephone; no hum, no hiss."""

_MEMORY = 0.99
"""A hop's weight falls by this per hop: about 1.6 s of echo count."""

_STIFFNESS = 2.0 * 0.5 ** -np.array([-1.0, 0, 1, 2, 3, 4])
"""How strongly each tap is held at zero, in units of one hop's evidence: later ones more, as rooms decay (tuned on
rooms of 0.2 to 0.4 s)."""

_LEARNING_STEP = 4
"""Hops that a new filter learns from at a time, when it catches up with the window that its lag was found on."""

CANDIDATE_LIKENESS = 0.25
SURE_LIKENESS = 0.5
"""Likeness from which a lag is tried, and that which makes the share 1 by itself. Of speech over other speech 93 % stay
below the first, 99.4 % below the second."""

LOCK_SHARE = 0.1
"""A lag is believed if its filter predicted this share of the window's end; of a person's voice the mean, at a lag
given beforehand, was below 0.01."""

_REACH_LIMITS = 0.35, 0.9
_FIRST_REACH = 0.4
_REACH_STEP = 0.05
"""Of pure echo a filter predicts so much: little while it is young or the room long. The share is told relative to what
the filter reaches when it predicts anything at all, an average within these limits (chosen)."""

_POOR_SHARE = 0.25
_POOR_FRAMES = 10
"""After so many frames in a row of which less is predicted (320 ms), a better lag is sought: the known one may be wrong
or have changed, or somebody speaks."""

_NOISE_ABOVE_LEAST = 1.5
"""The noise's mean energy per hop over the least energy among half a second of hops (chosen)."""

_MOST_NOISE = 0.75
"""At most this much of a frame's energy counts as noise, which nothing has to explain (chosen)."""

_Spectra = NDArray[np.complex64]
_Energies = NDArray[np.float32]


class SelfHearing:
    """One session's ear for the agent's voice. Not thread-safe.

    A call takes three times as long as the VAD for a frame; while a lag is sought, seven times.
    """

    def __init__(self) -> None:
        self.lag: Samples | None = None
        """How much later than estimated the agent's audio comes back; None while that isn't known."""
        self._filter = _EchoFilter()
        self._reach = _FIRST_REACH
        self._poor = 0

    def share(self, heard: NDArray[np.int16], sent: NDArray[np.int16]) -> float:
        """Return the share (0…1) of the last VAD frame of `heard` that is the agent's voice.

        `heard` is the last `WINDOW` samples of the input. `sent` is the `SENT_SPAN` samples of the agent's audio that
        play up to `-EARLIEST` after the time of the input's end.
        """
        spectra = _spectra(heard)
        noise = _NOISE_ABOVE_LEAST * float(_energies(spectra).min())
        explained = 0.0
        if self.lag is not None:
            explained = self._filter.explain(spectra[-2:], _references(sent, self.lag, 2), noise)
            self._poor = 0 if explained > _POOR_SHARE else self._poor + 1
        likely = 0.0
        if self.lag is None or self._poor >= _POOR_FRAMES:
            lag, likeness = likeliest_lag(heard, sent)
            likely = (likeness - CANDIDATE_LIKENESS) / (SURE_LIKENESS - CANDIDATE_LIKENESS)
            if likely > 0:
                explained = max(explained, self._try(min(max(lag, _SOONEST), LATEST), sent, spectra, noise, explained))
        return min(1.0, max(likely, self._relative(explained)))

    def shift(self, samples: Samples) -> None:
        """Take note that the same input counts as `samples` later than before: its clock was corrected."""
        if self.lag is not None:
            moved = self.lag + samples
            self.lag = moved if _SOONEST <= moved <= LATEST else None

    def _try(self, lag: Samples, sent: NDArray[np.int16], spectra: _Spectra, noise: float, known: float) -> float:
        """Let a new filter learn at `lag` step by step; return the share of the last step that it predicted.

        If it predicts more than is `known`, and enough to believe in, the lag is the session's from now on.
        """
        model, references = _EchoFilter(), _references(sent, lag, len(spectra))
        first = len(spectra) % _LEARNING_STEP
        shares = [
            model.explain(spectra[at : at + _LEARNING_STEP], references[at : at + _LEARNING_STEP], noise)
            for at in range(first, len(spectra), _LEARNING_STEP)
        ]
        if max(shares[-2:]) <= max(known, LOCK_SHARE):
            return 0.0
        self.lag, self._filter, self._poor = lag, model, 0
        return shares[-1]

    def _relative(self, explained: float) -> float:
        if explained > LOCK_SHARE:
            self._reach += _REACH_STEP * (explained - self._reach)
            self._reach = min(max(self._reach, _REACH_LIMITS[0]), _REACH_LIMITS[1])
        return min(1.0, explained / self._reach)


class _EchoFilter:
    """Taps per frequency that map the sent audio's short-time spectra to the input's."""

    def __init__(self) -> None:
        bins = _BINS.stop - _BINS.start
        self._taps = np.zeros((bins, _TAPS), np.complex64)
        self._power = np.zeros((bins, _TAPS, _TAPS), np.complex64)
        self._cross = np.zeros((bins, _TAPS), np.complex64)
        self._hops = 0.0

    def explain(self, spectra: _Spectra, references: _Spectra, noise: float) -> float:
        """Return the share of the energy above `noise` (per hop) that the filter predicts; then learn from the same.

        `spectra` is complex [hops, bins] of the input, `references` complex [hops, bins, taps] of the sent audio.
        """
        residual = spectra - np.einsum("hbt,bt->hb", references, self._taps)
        energy, left = float(_energies(spectra).sum()), float(_energies(residual).sum())
        self._learn(spectra, references, residual)
        if left >= energy:
            return 0.0
        return (energy - left) / (energy - min(len(spectra) * noise, _MOST_NOISE * energy))

    def _learn(self, spectra: _Spectra, references: _Spectra, residual: _Spectra) -> None:
        """Fit the taps to these hops, too. A hop weighs by the inverse of what could not be predicted of it."""
        left = np.abs(residual) ** 2
        smooth = sum(np.roll(left, shift, axis=1) for shift in (-2, -1, 0, 1, 2)) / 5
        fading = _MEMORY ** np.arange(len(spectra) - 1, -1, -1)[:, None]
        weights = fading / (smooth + 0.1 * left.mean(axis=1, keepdims=True) + 1.0)
        weighted = np.conj(references) * weights[:, :, None].astype(np.float32)
        faded = _MEMORY ** len(spectra)
        self._power = faded * self._power + np.matmul(weighted.transpose(1, 2, 0), references.transpose(1, 0, 2))
        self._cross = faded * self._cross + np.einsum("hbt,hb->bt", weighted, spectra)
        self._hops = faded * self._hops + float(fading.sum())
        per_hop = np.einsum("btt->b", self._power).real / (_TAPS * self._hops)
        held = (per_hop[:, None] * _STIFFNESS + 1e-6)[:, :, None] * np.eye(_TAPS)
        taps = np.linalg.solve(self._power + held, self._cross[:, :, None])
        self._taps = taps[:, :, 0].astype(np.complex64)


def _spectra(samples: NDArray[np.int16]) -> _Spectra:
    """Return the short-time spectra (complex [hops, bins]): windows of one VAD frame, half overlapping."""
    frames = np.lib.stride_tricks.sliding_window_view(samples, VAD_FRAME_SAMPLES)[::_HOP]
    return np.fft.rfft(frames * _HANN, axis=1)[:, _BINS].astype(np.complex64)


def _references(sent: NDArray[np.int16], lag: Samples, hops: int) -> _Spectra:
    """Return what the last `hops` hops of the input are predicted from (complex [hops, bins, taps], newest first)."""
    end = len(sent) + EARLIEST - lag + _LEAD * _HOP
    begin = end - VAD_FRAME_SAMPLES - (hops + _TAPS - 2) * _HOP
    return np.lib.stride_tricks.sliding_window_view(_spectra(sent[begin:end]), _TAPS, axis=0)[:, :, ::-1]


def _energies(spectra: _Spectra) -> _Energies:
    """Return the energy of each hop."""
    energies: _Energies = (np.abs(spectra) ** 2).sum(axis=1)
    return energies


_HANN = np.hanning(VAD_FRAME_SAMPLES + 1)[:-1].astype(np.float32)
