"""Ephemeral keys (`ek_…`): signed, expiring, and with the session's settings inside.

Any replica with the same secret can check them and nothing is shared between replicas. A key travels in a header line
or in a subprotocol entry, of which servers and proxies take 8 KiB; settings that would make it longer than
`MAX_KEY_CHARACTERS` (long instructions, many tools) stay in this process and the key carries a reference to them, so
that it opens sessions here only. So do settings with keys of MCP servers: an ephemeral key is signed, not sealed, and
the page that holds it may not read them.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from itsdangerous import BadData, URLSafeSerializer

from protocol.mcp_servers import holds_secrets

PREFIX = "ek_"
_MARK = "."
"""Separates payload and signature. OpenAI's keys have none, nor have the dummies that people write."""

MAX_KEY_CHARACTERS = 4_096
"""Half of the shortest usual limit of a header line (chosen); `websockets` and nginx take 8 KiB."""

KEPT_BYTES = 32 * 2**20
"""Most bytes of settings that are kept for keys (chosen); the oldest leave first: theirs were most likely used."""

_SALT = b"duplex-gateway ephemeral keys"
_DERIVED_BYTES = 32


class KeyRefused(Exception):
    """A key has our form, but opens nothing (any more). The text says why and begins as OpenAI's does."""


@dataclass(frozen=True, slots=True)
class EphemeralKey:
    """A key and the moment from which on it opens nothing, in seconds since the epoch."""

    value: str
    expires_at_s: int


def is_ephemeral(key: str) -> bool:
    """Say whether `key` has the form of our ephemeral keys, whatever its worth. `ek_local` has not."""
    return key.startswith(PREFIX) and _MARK in key


def signing_key(signing_secret: str, api_key: str) -> bytes:
    """Return the key to sign with: derived from the secret, else from the API key, else random (ends with the process).

    Derived slowly, as pages hold signed keys and could otherwise try short secrets out.
    """
    for kind, secret in ((b"secret", signing_secret), (b"api key", api_key)):
        if secret:
            return hashlib.scrypt(secret.encode(), salt=_SALT + kind, n=2**14, r=8, p=1, dklen=_DERIVED_BYTES)
    return secrets.token_bytes(_DERIVED_BYTES)


class EphemeralKeys:
    """Issues and opens keys. `now_s` tells the seconds since the epoch. Used from the event loop only."""

    def __init__(self, key: bytes, now_s: Callable[[], float] = time.time) -> None:
        # SHA-256 instead of the default SHA-1; the payload is compressed where that makes it shorter.
        signer = {"digest_method": hashlib.sha256}
        self._serializer = URLSafeSerializer(key, salt=_SALT, signer_kwargs=signer)
        self._now_s = now_s
        self._kept = _KeptSettings(KEPT_BYTES)

    def issue(self, session: Mapping[str, Any], lifetime_s: int) -> EphemeralKey:
        """Return a key that opens sessions with the settings `session` for `lifetime_s`."""
        expires_at_s = int(self._now_s()) + lifetime_s
        # The nonce makes every key another one.
        payload = {"nonce": secrets.token_urlsafe(6), "expires_at": expires_at_s}
        value = self._sealed({**payload, "session": session})
        if len(value) > MAX_KEY_CHARACTERS or holds_secrets(session.get("tools") or ()):
            reference = secrets.token_urlsafe(16)
            packed = self._serializer.dump_payload(session)
            self._kept.put(reference, _Kept(packed, expires_at_s), self._now_s())
            value = self._sealed({**payload, "kept": reference})
        return EphemeralKey(value, expires_at_s)

    def session_of(self, key: str) -> dict[str, Any]:
        """Return the settings that a key carries. Raises KeyRefused if it is forged, expired or another process's."""
        try:
            # A subprotocol may hold any byte, as a surrogate; no key of ours does.
            payload = self._serializer.loads(key.removeprefix(PREFIX).encode("ascii", "replace"))
        except BadData:
            raise KeyRefused("Incorrect API key provided: this ephemeral key was not issued here.") from None
        if self._now_s() >= payload["expires_at"]:
            raise KeyRefused("Incorrect API key provided: this ephemeral key has expired.")
        if "session" in payload:
            return cast(dict[str, Any], payload["session"])
        packed = self._kept.get(payload["kept"])
        if packed is None:
            raise KeyRefused(
                "Incorrect API key provided: the settings of this ephemeral key are too large or too secret to travel "
                "in it and are not kept here (any more). Create another one."
            )
        return cast(dict[str, Any], self._serializer.load_payload(packed))

    def _sealed(self, payload: Mapping[str, Any]) -> str:
        token = self._serializer.dumps(payload)
        return PREFIX + (token if isinstance(token, str) else token.decode("ascii"))


@dataclass(frozen=True, slots=True)
class _Kept:
    packed: bytes
    expires_at_s: int


class _KeptSettings:
    """Packed settings by reference, at most `limit_bytes` of them."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._entries: OrderedDict[str, _Kept] = OrderedDict()

    def put(self, reference: str, entry: _Kept, now_s: float) -> None:
        for expired in [name for name, kept in self._entries.items() if kept.expires_at_s <= now_s]:
            self._drop(expired)
        self._entries[reference] = entry
        self._size_bytes += len(entry.packed)
        while self._size_bytes > self._limit_bytes:
            self._drop(next(iter(self._entries)))

    def get(self, reference: str) -> bytes | None:
        entry = self._entries.get(reference)
        return None if entry is None else entry.packed

    def _drop(self, reference: str) -> None:
        self._size_bytes -= len(self._entries.pop(reference).packed)
