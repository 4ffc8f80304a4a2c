# SPDX-License-Identifier: Apache-2.0
"""``json`` and ``graph`` leaves: handmade bytes, damage, and graphs with and without torch-geometric. Only read."""

from __future__ import annotations

import copy
import json
import pickle
import struct
import sys
import types
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from damage import damaged, error_of
from stoker.exceptions import CorruptDataError
from stoker.streaming.serializers import (
    GraphSerializer,
    JsonSerializer,
    PickleSerializer,
    TensorSerializer,
    default_serializers,
    find_serializer,
)
from stoker.types import Graph

JSON, GRAPH = JsonSerializer(), GraphSerializer()


@pytest.fixture(autouse=True)
def without_pyg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoker._optional.find", lambda module: None)


# ---- json: an encoder written from the description of the bytes


def u32(number: int) -> bytes:
    return struct.pack("<I", number)


def text(value: str) -> bytes:
    data = value.encode()
    return u32(len(data)) + data


def cell(value: Any) -> bytes:
    if value is None:
        return b"\x10"
    if isinstance(value, bool):
        return b"\x14" + bytes([value])
    if isinstance(value, str):
        return b"\x11" + text(value)
    return (
        b"\x12" + struct.pack("<q", value)
        if isinstance(value, int)
        else b"\x13" + struct.pack("<d", value)
    )


def document(value: Any) -> bytes:
    return b"\x00" + text(json.dumps(value))


def tagged(value: Any) -> bytes:
    """Return the compact form of a value: the narrowest tag that holds it."""
    if isinstance(value, dict):
        return b"\x05" + u32(len(value)) + b"".join(text(k) + tagged(v) for k, v in value.items())
    if not isinstance(value, list):
        return {0x10: b"\x0b", 0x11: b"\x07", 0x12: b"\x08", 0x13: b"\x09", 0x14: b"\x0a"}[
            cell(value)[0]
        ] + cell(value)[1:]
    kinds = {type(v) for v in value}
    count = u32(len(value))
    if kinds <= {str}:
        return b"\x01" + count + b"".join(map(text, value))
    if kinds == {int}:
        return b"\x02" + count + struct.pack(f"<{len(value)}q", *value)
    if kinds == {float}:
        return b"\x03" + count + struct.pack(f"<{len(value)}d", *value)
    if kinds == {bool}:
        return b"\x04" + count + bytes(value)
    if kinds == {dict} and len({tuple(v) for v in value}) == 1 and value[0] and flat(value):
        keys = list(value[0])
        cells = b"".join(cell(row[key]) for row in value for key in keys)
        return b"\x06" + count + u32(len(keys)) + b"".join(map(text, keys)) + cells
    return document(value)


def flat(rows: list[dict[str, Any]]) -> bool:
    return not any(isinstance(v, (dict, list)) for row in rows for v in row.values())


INTS = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(allow_nan=False, width=64)
SCALARS = st.none() | st.booleans() | INTS | FLOATS | st.text(max_size=8)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        | st.lists(INTS)
        | st.lists(FLOATS)
        | st.lists(st.booleans())
        | st.lists(st.fixed_dictionaries({"a": SCALARS, "é": SCALARS}), max_size=3)
    ),
    max_leaves=20,
)


def exactly(value: Any) -> str:
    """Tell 1 from 1.0 and True, and -0.0 from 0.0."""
    return repr(value)


@given(VALUES)
def test_json_reads_every_tag(value: Any) -> None:
    assert exactly(JSON.deserialize(tagged(value))) == exactly(value)


@given(st.lists(SCALARS) | st.dictionaries(st.text(), SCALARS))
def test_json_reads_plain_text(value: Any) -> None:
    assert exactly(JSON.deserialize(json.dumps(value).encode())) == exactly(value)
    assert exactly(JSON.deserialize(document(value))) == exactly(value)


def test_json_keeps_the_order_of_keys() -> None:
    keys = ["b", "a", "c"]
    assert list(JSON.deserialize(tagged(dict.fromkeys(keys, 1)))) == keys
    assert list(JSON.deserialize(tagged([dict.fromkeys(keys, 1)]))[0]) == keys


def test_json_reads_nan_bit_for_bit() -> None:
    odd = struct.pack("<Q", 0x7FF8_0000_DEAD_BEEF)
    found = JSON.deserialize(b"\x09" + odd)
    assert struct.pack("<d", found) == odd


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "json leaf, byte 0: expected 1 bytes of a tag, found 0 bytes"),
        (b"\x0c", r"byte 0: expected one of the tags \[0, 1, .*\], found 12"),
        (b"\x10", "found 16"),
        (b"\x20", "found 32"),
        (b"{", "byte 0: expected JSON text, found '{'"),
        (b'"\xff"', "byte 0: expected JSON text in UTF-8"),
        (b"\x00" + text("[1,"), "byte 5: expected JSON text, found"),
        (b"\x00" + u32(9) + b"1", "byte 5: expected 9 bytes of JSON text, found 1 bytes"),
        (b"\x01" + u32(2) + text("a"), "byte 10: expected 4 bytes of the length of a text"),
        (b"\x02" + u32(2**32 - 1), "of ints, found 0 bytes"),
        (b"\x03" + u32(1) + bytes(7), "expected 8 bytes of floats, found 7 bytes"),
        (b"\x04" + u32(3) + bytes(2), "expected 3 bytes of bools, found 2 bytes"),
        (b"\x05" + u32(1) + text("k"), "of a tag, found 0 bytes"),
        (b"\x06" + u32(2**32 - 1) + u32(0), "4294967295 records of 0 keys"),
        (b"\x06" + u32(2**31) + u32(1) + text("k"), "2147483648 records of 1 keys"),
        (
            b"\x06" + u32(1) + u32(1) + text("k") + b"\x07",
            r"one of the tags \[16, 17, 18, 19, 20\]",
        ),
        (b"\x07" + u32(1) + b"\xff", "byte 5: expected text in UTF-8"),
        (b"\x08" + bytes(7), "expected 8 bytes of an int, found 7 bytes"),
        (b"\x0b\x0b", "byte 1: expected the end, found 1 more bytes"),
        ((b"\x05" + u32(1) + text("")) * 100_000, "nested too deep"),
        (b"[" * 100_000, "nested too deep"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_damaged_json(data: bytes, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        JSON.deserialize(data)


SAMPLE = {
    "texts": ["a", "bé"],
    "rows": [{"k": "x", "n": 1, "f": 2.5, "b": True, "z": None}] * 2,
    "deep": {"ints": [1, 2], "floats": [0.5], "flags": [True, False]},
    "mixed": [1, "a", None],
    "one": [7, "s", 1.5, False, None][0],
}


@settings(max_examples=300)
@given(damaged(tagged(SAMPLE)))
def test_json_mutations(data: bytes) -> None:
    error = error_of(JSON.deserialize, data)
    assert error is None or str(error).startswith("json leaf, byte ")
    assert error is None or type(error) is CorruptDataError


@given(st.binary(max_size=60))
def test_json_of_any_bytes(data: bytes) -> None:
    error = error_of(JSON.deserialize, data)
    assert error is None or str(error).startswith("json leaf, byte ")
    assert error is None or type(error) is CorruptDataError


def test_every_cut_of_a_json_leaf_is_noticed() -> None:
    whole = tagged(SAMPLE)
    assert JSON.deserialize(whole) == SAMPLE
    for size in range(len(whole)):
        with pytest.raises(CorruptDataError):
            JSON.deserialize(whole[:size])


# ---- graph


def graph_leaf(fields: list[tuple[str, int, bytes]], version: int = 3) -> bytes:
    """Return the bytes of a graph: (name, kind, payload) per field."""
    width = ">H" if version == 3 else ">B"
    parts = [b"LDGR", bytes([version]), struct.pack(width, len(fields))]
    for name, kind, payload in fields:
        encoded = name.encode()
        parts += [struct.pack(width, len(encoded)), encoded]
        parts += [] if version == 1 else [bytes([kind])]
        parts += [struct.pack(">I", len(payload)), payload]
    return b"".join(parts)


def tensor_field(name: str, tensor: torch.Tensor) -> tuple[str, int, bytes]:
    return name, 0, TensorSerializer().serialize(tensor)[0]


def meta_field(tree: Any, paths: list[list[Any]], fields: list[str], kind: str = "data") -> Any:
    meta = {"_tree": tree, "_paths": paths, "_fields": fields, "_cls": kind}
    return "_meta", 1, pickle.dumps(meta)


MARK = "__ldgr_t__"
X, EDGES = torch.arange(6.0).reshape(3, 2), torch.tensor([[0, 1], [1, 2]])
PLAIN_FIELDS = [
    tensor_field("x", X),
    tensor_field("edge_index", EDGES),
    meta_field(
        {"num_nodes": 3, "x": MARK, "edge_index": MARK, "name": "é"},
        [["x"], ["edge_index"]],
        ["x", "edge_index"],
    ),
]
HETERO_FIELDS = [
    tensor_field("paper.x", X),
    tensor_field("a__to__b.edge_index", EDGES),
    meta_field(
        {"paper": {"x": MARK}, ("a", "to", "b"): {"edge_index": MARK}},
        [["paper", "x"], [("a", "to", "b"), "edge_index"]],
        ["paper.x", "a__to__b.edge_index"],
        "hetero",
    ),
]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_graph(version: int) -> None:
    graph = GRAPH.deserialize(graph_leaf(PLAIN_FIELDS, version))
    assert type(graph) is Graph
    assert not graph.hetero
    assert list(graph.data) == ["num_nodes", "x", "edge_index", "name"]
    assert (graph.num_nodes, graph.name) == (3, "é")
    assert torch.equal(graph.x, X)
    assert torch.equal(graph.edge_index, EDGES)
    with pytest.raises(AttributeError, match="no attribute 'y'"):
        _ = graph.y


@pytest.mark.parametrize("version", [1, 2, 3])
def test_graph_without_structure(version: int) -> None:
    graph = GRAPH.deserialize(graph_leaf(PLAIN_FIELDS[:2], version))
    assert list(graph.data) == ["x", "edge_index"]
    assert torch.equal(graph.x, X)


def test_graph_of_nothing() -> None:
    assert GRAPH.deserialize(graph_leaf([])).data == {}


def test_heterogeneous_graph() -> None:
    graph = GRAPH.deserialize(graph_leaf(HETERO_FIELDS))
    assert graph.hetero
    assert torch.equal(graph.paper["x"], X)
    mapping = graph.to_mapping()
    assert torch.equal(mapping["a", "to", "b"]["edge_index"], EDGES)
    mapping["paper"]["x"] = None
    assert graph.paper["x"] is not None, "the dicts are copies"


def test_graph_can_be_copied() -> None:
    graph = GRAPH.deserialize(graph_leaf(PLAIN_FIELDS))
    for twin in (copy.copy(graph), copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert torch.equal(twin.x, X)


def test_graphs_that_are_pickles() -> None:
    serializer = find_serializer("graph:pickle", default_serializers())
    assert type(serializer) is PickleSerializer
    assert serializer.deserialize(pickle.dumps({"x": [1]})) == {"x": [1]}


def test_graph_only_reads() -> None:
    assert not GRAPH.can_serialize(Graph({}))
    with pytest.raises(TypeError, match="only reads"):
        GRAPH.serialize(Graph({}))


@pytest.mark.parametrize("kind", ["Data", "HeteroData"])
def test_graph_with_torch_geometric(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package = types.ModuleType("torch_geometric")
    data = types.ModuleType("torch_geometric.data")
    for name in ("Data", "HeteroData"):
        made = type(
            name, (), {"from_dict": classmethod(lambda cls, mapping: (cls.__name__, mapping))}
        )
        setattr(data, name, made)
    monkeypatch.setitem(sys.modules, "torch_geometric", package)
    monkeypatch.setitem(sys.modules, "torch_geometric.data", data)
    monkeypatch.setattr("stoker._optional.find", lambda module: package)
    fields = PLAIN_FIELDS if kind == "Data" else HETERO_FIELDS
    name, mapping = GRAPH.deserialize(graph_leaf(fields))
    assert name == kind
    assert type(mapping) is dict
    assert ("x" in mapping) == (kind == "Data")


def test_torch_geometric_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    with pytest.raises(ModuleNotFoundError, match="Run: pip install torch_geometric"):
        Graph({"x": X}).to_pyg()


GOOD = graph_leaf(PLAIN_FIELDS)
META = ("_meta", 1, b"")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "graph leaf, byte 0: expected 4 bytes of magic, found 0 bytes"),
        (b"LDGX" + GOOD[4:], r"byte 0: expected b'LDGR', found b'LDGX'"),
        (b"LDGR\x04" + GOOD[5:], r"expected one of the versions \(1, 2, 3\), found 4"),
        (GOOD[:6], "the number of fields, found 1 bytes"),
        (GOOD[:-1], "of field '_meta', found"),
        (GOOD + b"x", "expected the end, found 1 more bytes"),
        (graph_leaf([("x", 2, b"")]), "expected kind 0 or 1 of field 'x', found 2"),
        (graph_leaf([("x", 0, b"abc")]), "a tensor in field 'x' of a graph"),
        (graph_leaf([("_meta", 1, b"abc")]), "a pickle in field '_meta' of a graph"),
        (graph_leaf([("_meta", 1, pickle.dumps(7))]), r"the structure of the fields \['_meta'\]"),
        (graph_leaf([("_meta", 1, pickle.dumps({}))]), "KeyError"),
        (graph_leaf([meta_field({"x": MARK}, [], [])]), "KeyError"),
        (graph_leaf([meta_field({"x": MARK}, [["x"]], ["y"])]), "KeyError: 'y'"),
        (graph_leaf([meta_field({}, [["x"]], [])]), "ValueError"),
        (graph_leaf([meta_field([], [], [])]), "AttributeError"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_damaged_graph(data: bytes, message: str) -> None:
    with pytest.raises(CorruptDataError, match=message):
        GRAPH.deserialize(data)


def test_graph_pickle_with_a_huge_object_number() -> None:
    """LONG_BINPUT with number 2**31 - 1 would make the unpickler ask for gigabytes."""
    data = graph_leaf([("_meta", 1, b"\x80\x04N" + b"r\xff\xff\xff\x7f" + b".")])
    with pytest.raises(CorruptDataError, match="an object numbered 2147483647"):
        GRAPH.deserialize(data)


def test_every_cut_of_a_graph_is_noticed() -> None:
    for size in range(len(GOOD)):
        with pytest.raises(CorruptDataError):
            GRAPH.deserialize(GOOD[:size])


@settings(max_examples=200)
@given(st.data(), st.sampled_from([1, 2, 3]))
def test_graph_mutations(data: st.DataObject, version: int) -> None:
    """Only outside the pickle: what a changed pickle does is up to its bytes."""
    whole = graph_leaf([*PLAIN_FIELDS[:2], tensor_field("é", torch.zeros(0, 3))], version)
    try:
        graph = GRAPH.deserialize(data.draw(damaged(whole)))
    except CorruptDataError:
        return
    assert type(graph) is Graph
