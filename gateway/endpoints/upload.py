"""Reads the form of an upload, bounded in size, number and time, and answers what is none as OpenAI does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from gateway.endpoints.access import Refusal
from gateway.endpoints.errors import Refused

MAX_UPLOAD_BYTES = 25 * 2**20
"""Largest upload (OpenAI's own limit)."""

UPLOAD_DEADLINE_S = 60.0
"""How long an upload may take to arrive (chosen: 25 MiB at 3.5 Mbit/s)."""

MAX_FIELDS = 64
MAX_FIELD_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Upload:
    """A form: its fields in order, and its one file, None if it has none."""

    fields: tuple[tuple[str, str], ...]
    file: bytes | None


async def uploaded(request: Request, file_field: str) -> Upload:
    """Return the request's form, whose file is the field `file_field`. Raises Refused."""
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "multipart/form-data":
        message = (
            f"Unsupported content type: '{kind[:80]}'. This API method only accepts 'multipart/form-data' requests."
        )
        raise Refused(Refusal(400, message, code="unsupported_content_type"))
    if _declared(request) > MAX_UPLOAD_BYTES:
        raise _too_large()
    parser = MultiPartParser(
        request.headers, _bounded(request), max_files=1, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES
    )
    try:
        async with asyncio.timeout(UPLOAD_DEADLINE_S):
            form = await parser.parse()
    except TimeoutError:
        raise Refused(Refusal(408, "The body of your request took too long to arrive.")) from None
    except ClientDisconnect:
        raise Refused(Refusal(400, "The body of your request ended too early.")) from None
    except MultiPartException:
        raise Refused(Refusal(400, "We could not parse the multipart form in the body of your request.")) from None
    try:
        fields = tuple((name, value) for name, value in form.multi_items() if isinstance(value, str))
        file = form.get(file_field)
        return Upload(fields, await file.read() if isinstance(file, UploadFile) else None)
    finally:
        await form.close()


def _declared(request: Request) -> int:
    text = request.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


async def _bounded(request: Request) -> AsyncGenerator[bytes, None]:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_UPLOAD_BYTES:
            raise _too_large()
        yield chunk


def _too_large() -> Refused:
    message = f"Maximum content size limit ({MAX_UPLOAD_BYTES}) exceeded."
    return Refused(Refusal(413, message, code="request_too_large"))
