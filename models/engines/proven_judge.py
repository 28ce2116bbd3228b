"""A judge on somebody's server counts only once it is proven there; a server that isn't up yet is asked again later."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any

from models.interfaces import EndOfTurnJudge, EngineError, Judgement, Utterance
from models.languages import languages_of

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 30.0
"""Shortest time between two tries (chosen: a server in the next container takes minutes to load its model)."""

_LATER = frozenset({"llm_unreachable", "llm_stream_broken", "eot_timeout"})
"""Failures that may pass by themselves; so may an HTTP status of 500 or more."""


class Unfit(Exception):
    """The server, or its model, can't judge, and another try would not change that. The text says why."""


class Proof(Enum):
    """What is known about a judge."""

    OPEN = auto()
    FIT = auto()
    UNFIT = auto()


class ProvenJudge:
    """EndOfTurnJudge that asks `judge` once `prove` has returned, and has no opinion before.

    `prove` raises Unfit, which is final, or EngineError; it runs again at the first pause after RETRY_AFTER_S where its
    failure may pass. It bounds its own time.
    """

    def __init__(
        self,
        judge: EndOfTurnJudge,
        prove: Callable[[], Awaitable[None]],
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = judge.name
        self.listens = judge.listens
        self.languages: frozenset[str] | None = languages_of(judge)
        self.proof = Proof.OPEN
        self._judge = judge
        self._prove = prove
        self._clock_s = clock_s
        self._next_try_s = 0.0
        self._trying: asyncio.Task[Proof] | None = None

    async def attempt(self) -> Proof:
        """Prove the judge, if that is still open, and return what is known then. Raises nothing."""
        if self._trying is None and self.proof is Proof.OPEN:
            self._trying = asyncio.create_task(self._try())
        return self.proof if self._trying is None else await asyncio.shield(self._trying)

    async def judge(self, utterance: Utterance) -> Judgement:
        """Return the judgement, of no opinion unless the judge is proven; see EndOfTurnJudge."""
        if self.proof is Proof.FIT:
            return await self._judge.judge(utterance)
        if self.proof is Proof.OPEN and self._trying is None and self._clock_s() >= self._next_try_s:
            self._trying = asyncio.create_task(self._try())
        return Judgement(None)

    async def aclose(self) -> None:
        """Stop a proof under way and close the judge."""
        if self._trying is not None:
            self._trying.cancel()
            await asyncio.gather(self._trying, return_exceptions=True)
        close: Any = getattr(self._judge, "aclose", None)
        if close is not None:
            await close()

    async def _try(self) -> Proof:
        try:
            await self._prove()
        except Unfit as reason:
            self.proof = Proof.UNFIT
            logger.info("the end-of-turn judge %r is off: %s", self.name, reason)
        except EngineError as error:
            if _may_pass(error):
                self._next_try_s = self._clock_s() + RETRY_AFTER_S
                logger.warning("the end-of-turn judge %r has to wait: %s", self.name, error.message)
            else:
                self.proof = Proof.UNFIT
                logger.info("the end-of-turn judge %r is off: %s", self.name, error.message)
        except Exception:  # a bug: the others judge, and the gateway starts
            self.proof = Proof.UNFIT
            logger.exception("the end-of-turn judge %r is off: its proof has a bug", self.name)
        else:
            self.proof = Proof.FIT
        finally:
            self._trying = None
        return self.proof


def _may_pass(error: EngineError) -> bool:
    import openai

    return error.code in _LATER or isinstance(error.__cause__, openai.InternalServerError)
