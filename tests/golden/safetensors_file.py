#!/usr/bin/env python3
"""Reads and writes safetensors files with the standard library alone, strictly by the format's text
(https://github.com/huggingface/safetensors#format), to check Adret's files from outside.

tests/golden/safetensors_file.py FILE

prints each tensor as "name dtype shape first-element", sorted by name, and the metadata.
"""
import json
import struct
import sys

CODES = {"F32": "f", "F64": "d", "I32": "i", "I64": "q", "U8": "B", "BOOL": "?"}


def write(path, tensors, metadata=None):
    """tensors: {name: (dtype, shape, flat values)}."""
    header, body = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, values) in tensors.items():
        data = struct.pack(f"<{len(values)}{CODES[dtype]}", *values)
        header[name] = {"dtype": dtype, "shape": list(shape),
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def unique(pairs):
    keys = [key for key, _ in pairs]
    assert len(set(keys)) == len(keys), f"a key comes twice: {keys}"
    return dict(pairs)


def read(path):
    """The inverse of write: (tensors, metadata)."""
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack_from("<Q", content)
    assert content[8:9] == b"{", "the header does not begin with '{'"
    header = json.loads(content[8:8 + length].decode(), object_pairs_hook=unique)
    metadata = header.pop("__metadata__", {})
    body = content[8 + length:]
    tensors, place = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == place, f"{name} begins at {begin}, the tensor before ends at {place}"
        place = end
        count = 1
        for size in entry["shape"]:
            count *= size
        code = CODES[entry["dtype"]]
        assert end - begin == count * struct.calcsize(code), name
        assert (8 + length + begin) % struct.calcsize(code) == 0, f"{name} is not aligned"
        tensors[name] = (entry["dtype"], entry["shape"], struct.unpack(f"<{count}{code}", body[begin:end]))
    assert place == len(body), "bytes follow the last tensor"
    return tensors, metadata


def main():
    tensors, metadata = read(sys.argv[1])
    for name in sorted(tensors):
        dtype, shape, values = tensors[name]
        print(name, dtype, "x".join(map(str, shape)) or "scalar", f"{values[0]:g}")
    print("metadata", json.dumps(metadata, sort_keys=True))


if __name__ == "__main__":
    main()
