# SPDX-License-Identifier: Apache-2.0
"""pytree: flatten, rebuild, and the stored spec."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker import pytree
from stoker.exceptions import DatasetFormatError, SampleStructureError

leaves = st.one_of(st.integers(), st.text(), st.none(), st.binary())
keys = st.one_of(st.text(max_size=5), st.integers())
samples = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4).map(OrderedDict),
        st.lists(inner, max_size=4).map(lambda v: deque(v, maxlen=7)),
        st.dictionaries(keys, inner, max_size=4).map(lambda v: defaultdict(list, v)),
    ),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    """Equal with equal container types, order of keys, maxlen and factory."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        extra = getattr(a, "default_factory", None) is getattr(b, "default_factory", None)
        return extra and list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple, deque)):
        bounded = getattr(a, "maxlen", None) == getattr(b, "maxlen", None)
        return bounded and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


@given(samples)
def test_round_trip_through_the_stored_text(sample: Any) -> None:
    flat, spec = pytree.flatten(sample)
    stored = pytree.from_json(pytree.to_json(spec))
    assert stored == spec
    assert stored.num_leaves == len(flat) == len(stored.paths())
    assert same(pytree.unflatten(stored, flat), sample)


@given(samples)
def test_flatten_as_gives_the_leaves_of_flatten(sample: Any) -> None:
    flat, spec = pytree.flatten(sample)
    again: list[Any] = []
    pytree.flatten_as(spec, sample, again)
    assert again == flat


def test_the_stored_text_is_the_one_litdata_writes() -> None:
    _, spec = pytree.flatten({"l": [1, 2], "d": {"t": (1,)}})
    leaf = {"type": None, "context": None, "children_spec": []}
    assert json.loads(pytree.to_json(spec)) == [
        1,
        {
            "type": "builtins.dict",
            "context": '["l", "d"]',
            "children_spec": [
                {"type": "builtins.list", "context": "null", "children_spec": [leaf, leaf]},
                {
                    "type": "builtins.dict",
                    "context": '["t"]',
                    "children_spec": [
                        {"type": "builtins.tuple", "context": "null", "children_spec": [leaf]}
                    ],
                },
            ],
        },
    ]


def test_paths_lead_to_the_leaves() -> None:
    _, spec = pytree.flatten({"image": 1, "boxes": [(2, 3)]})
    assert spec.paths() == ["['image']", "['boxes'][0][0]", "['boxes'][0][1]"]


def test_keys_may_come_in_another_order() -> None:
    _, spec = pytree.flatten({"a": 1, "b": 2})
    out: list[Any] = []
    pytree.flatten_as(spec, {"b": 20, "a": 10}, out)
    assert out == [10, 20]


@pytest.mark.parametrize(
    ("first", "other", "expected", "found"),
    [
        ((1, 2), (1, 2, 3), "tuple of length 2", "length 3"),
        ({"a": [1, 2]}, {"a": [1]}, "['a']", "length 1"),
        ({"a": 1}, {"b": 1}, "the keys ['a']", "['b']"),
        ({"a": 1}, {"a": 1, "b": 1}, "the keys ['a']", "['a', 'b']"),
        ({"a": [1]}, {"a": (1,)}, "[*]", "a tuple"),
        ({"a": {"b": 1}}, {"a": 1}, "{'b': *}", "an int"),
    ],
)
def test_another_structure_is_named(first: Any, other: Any, expected: str, found: str) -> None:
    _, spec = pytree.flatten(first)
    with pytest.raises(SampleStructureError) as error:
        pytree.flatten_as(spec, other, [])
    assert expected in str(error.value)
    assert found in str(error.value)


def test_what_the_format_cannot_store_is_refused() -> None:
    point = namedtuple("point", "x y")  # noqa: PYI024 - a plain one is what users have
    with pytest.raises(SampleStructureError, match="namedtuple"):
        pytree.flatten({"p": point(1, 2)})
    with pytest.raises(SampleStructureError, match="dict key"):
        pytree.flatten({(1, 2): 3})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[2, null]",
        '[1, {"type": "os.system", "context": null, "children_spec": []}]',
        "[1]",
        "nonsense",
        '[1, {"type": "builtins.dict", "context": "[\\"a\\"]", "children_spec": []}]',
    ],
)
def test_a_spec_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(DatasetFormatError, match="data_spec"):
        pytree.from_json(text)


def test_a_dataset_cannot_choose_what_a_defaultdict_calls() -> None:
    _, spec = pytree.flatten(defaultdict(list, a=1))
    text = pytree.to_json(spec).replace('"list"', '"exit"')
    assert pytree.from_json(text).extra is None
