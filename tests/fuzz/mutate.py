"""Damage to files: at random places, and where the structure of a format makes it count."""

import gzip
import io
import json
import pickletools
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

Mutate = Callable[[bytes, random.Random], bytes]

NUMBERS = (0, 1, -1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
TOKENS = (b"NaN", b"1e999", b"-1", b"99999999999999999999", b"", b"null", b'"', b",", b"\n", b"\0", b"\xff", b"{", b"[")
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    3,
    1 << 40,
    1.5,
    float("nan"),
    "",
    "x",
    "/",
    [],
    [[]],
    [1, 2],
    {},
    {"x": 0},
)
FORMATS = tuple(order + code for order in "<>" for code in "BHIQ")
MAX_EDITS = 4


def damage(content: bytes, rng: random.Random) -> bytes:
    """A few edits without regard for the format."""
    for _ in range(rng.randint(1, MAX_EDITS)):
        content = rng.choice(_EDITS)(content, rng)
    return content


def _flip(content: bytes, rng: random.Random) -> bytes:
    if not content:
        return content
    changed, at = bytearray(content), rng.randrange(len(content))
    changed[at] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(content: bytes, rng: random.Random) -> bytes:
    at = rng.randint(0, len(content))
    new = rng.randbytes(rng.randint(1, 16))
    return content[:at] + new + content[at + len(new) :]


def _number(content: bytes, rng: random.Random) -> bytes:
    form = rng.choice(FORMATS)
    size = struct.calcsize(form)
    at = rng.randint(0, len(content)) if rng.random() < 0.5 else rng.randint(0, min(64, len(content)))
    return content[:at] + struct.pack(form, rng.choice(NUMBERS) & (256**size - 1)) + content[at + size :]


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randint(0, len(content))]


def _remove(content: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(content))
    return content[:start] + content[start + rng.randint(1, 64) :]


def _repeat(content: bytes, rng: random.Random) -> bytes:
    start = rng.randint(0, len(content))
    piece = content[start : start + rng.randint(1, 256)]
    return content[:start] + piece * rng.randint(2, 5) + content[start + len(piece) :]


def _token(content: bytes, rng: random.Random) -> bytes:
    """Replace something that looks like a number or a word."""
    found = list(re.finditer(rb"[0-9.+-]+|[A-Za-z_]+", content[:4096]))
    if not found:
        return content
    word = rng.choice(found)
    return content[: word.start()] + rng.choice(TOKENS) + content[word.end() :]


_EDITS: tuple[Mutate, ...] = (_flip, _flip, _overwrite, _number, _number, _cut, _remove, _repeat, _token)


def change_json(value: Any, rng: random.Random) -> Any:
    """Change, remove or add one entry somewhere in a JSON value."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        name = rng.choice(list(value))
        if rng.random() < 0.1:
            return {key: entry for key, entry in value.items() if key != name}
        return value | {name: change_json(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = rng.randrange(len(value))
        if rng.random() < 0.1:
            return value[:at] + value[at + 1 :]
        return [*value[:at], change_json(value[at], rng), *value[at + 1 :]]
    if isinstance(value, int) and not isinstance(value, bool) and rng.random() < 0.5:
        return rng.choice((value + 1, value - 1, -value, value * 1000))
    return rng.choice(VALUES)


def damage_safetensors(content: bytes, rng: random.Random) -> bytes:
    """Change entries of the two JSON headers, with a length that fits; half of the time without the checksum."""
    length = int.from_bytes(content[:8], "little")
    try:
        head = json.loads(content[8 : 8 + length])
        ours = json.loads(head["__metadata__"]["shiftmatch"])
    except (ValueError, LookupError, TypeError):
        return damage(content, rng)
    if rng.random() < 0.3:
        return damage(content, rng)
    if rng.random() < 0.5:
        ours.pop("checksum", None)
    for _ in range(rng.randint(1, MAX_EDITS)):
        if rng.random() < 0.7:
            ours = change_json(ours, rng)
        else:
            tensors = change_json({name: entry for name, entry in head.items() if name != "__metadata__"}, rng)
            head = {"__metadata__": head["__metadata__"], **(tensors if isinstance(tensors, dict) else {})}
    head["__metadata__"] = {"shiftmatch": json.dumps(ours)}
    text = json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + length :]


def damage_json(content: bytes, rng: random.Random) -> bytes:
    """Change entries, or the text."""
    return json.dumps(change_json(json.loads(content), rng)).encode() if rng.random() < 0.6 else damage(content, rng)


def damage_zip(content: bytes, rng: random.Random) -> bytes:
    """Damage the files inside and pack them again, so that their checksums are right; or damage the archive."""
    if rng.random() < 0.4:
        return damage(content, rng)
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            inside = old.read(name)
            new.writestr(name, damage(inside, rng) if rng.random() < 0.7 else inside)
    return packed.getvalue()


def damage_gzip(content: bytes, rng: random.Random) -> bytes:
    """Damage what is packed and pack it again; or damage the packed bytes."""
    if rng.random() < 0.4:
        return damage(content, rng)
    inside = gzip.decompress(content)
    return gzip.compress((damage_tar if len(inside) > TAR_BLOCK else damage)(inside, rng), mtime=0)


TAR_BLOCK, TAR_CHECKSUM = 512, slice(148, 156)


def damage_tar(content: bytes, rng: random.Random) -> bytes:
    """Damage the header of an entry, with a checksum that fits; or the archive."""
    if rng.random() < 0.4:
        return damage(content, rng)
    at = TAR_BLOCK * rng.randrange(2)
    header = bytearray(damage(content[at : at + TAR_BLOCK], rng)[:TAR_BLOCK].ljust(TAR_BLOCK, b"\0"))
    header[TAR_CHECKSUM] = b" " * 8
    header[TAR_CHECKSUM] = b"%06o\0 " % sum(header)
    return content[:at] + bytes(header) + content[at + TAR_BLOCK :]


PNG_SIGNATURE = 8


def damage_png(content: bytes, rng: random.Random) -> bytes:
    """Damage, double or drop one chunk, with a length and a checksum that fit; or damage the file."""
    if rng.random() < 0.3:
        return damage(content, rng)
    chunks, at = [], PNG_SIGNATURE
    while at < len(content):
        length = int.from_bytes(content[at : at + 4], "big")
        chunks.append(content[at + 4 : at + 8 + length])
        at += length + 12
    which = rng.randrange(len(chunks))
    edit = rng.random()
    if edit < 0.8:
        chunks[which] = chunks[which][:4] + damage(chunks[which][4:], rng)
    else:
        chunks[which : which + 1] = [chunks[which]] * (2 if edit < 0.9 else 0)
    packed = (struct.pack(">I", len(c) - 4) + c + struct.pack(">I", zlib.crc32(c)) for c in chunks)
    return content[:PNG_SIGNATURE] + b"".join(packed)


def damage_pickle(content: bytes, rng: random.Random) -> bytes:
    """Move, double, drop or replace operations of a pickle, each of them whole; or damage the bytes."""
    if rng.random() < 0.4:
        return damage(content, rng)
    starts = [at for _, _, at in pickletools.genops(content) if at is not None]
    operations = [content[a:b] for a, b in zip(starts, [*starts[1:], len(content)], strict=True)]
    for _ in range(rng.randint(1, MAX_EDITS)):
        at, other = rng.randrange(len(operations)), rng.randrange(len(operations))
        edit = rng.randrange(4)
        if edit == 0:
            operations[at], operations[other] = operations[other], operations[at]
        elif edit == 1:
            operations.insert(at, operations[other])
        elif edit == 2 and len(operations) > 1:
            del operations[at]
        else:
            operations[at] = rng.choice(SIMPLE_OPERATIONS)
    return b"".join(operations)


SIMPLE_OPERATIONS = tuple(
    code.code.encode("latin-1") for code in pickletools.opcodes if code.arg is None and code.code != "."
)
"""Operations of pickles that are one byte."""
