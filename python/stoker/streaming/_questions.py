# SPDX-License-Identifier: Apache-2.0
"""Functions of a user's that are asked about stored samples, or about single leaves of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stoker import _core
from stoker.exceptions import InvalidArgumentError
from stoker.streaming._transforms import leaf_numbers
from stoker.streaming.index import DatasetIndex
from stoker.streaming.item_loader import BaseItemLoader, PyTreeLoader
from stoker.streaming.item_loader.pytree import LeafReader
from stoker.streaming.reader import EncryptedSource, SampleSource
from stoker.streaming.serializers import Serializer

Function = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked about each sample.

    Attributes:
        argument: that gave the functions, for messages.
        of: a function of the sample, or one for each leaf number.
        index: of the dataset.
        serializers: name -> serializer.
    """

    argument: str
    of: Function | dict[int, Function]
    index: DatasetIndex
    serializers: dict[str, Serializer]

    def ask(self, source: SampleSource, items: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """Yield (item number, answer of every function that is asked, as an iterator) of every item, read in this order.

        What a function raises is raised with a note that names the sample.
        """
        answers = self._answers(source)
        for item in items:
            try:
                yield item, answers(item)
            except Exception as error:
                error.add_note(
                    f"({self.argument}, sample {item} of the dataset in {self.index.directory})"
                )
                raise

    def _answers(self, source: SampleSource) -> Callable[[int], list[Any]]:
        if callable(self.of):
            function = self.of
            return lambda item: [function(source.get(item, True))]
        if not isinstance(source, (_core.SampleReader, EncryptedSource)):
            msg = f"{self.argument} by leaf needs the items' bytes."  # `resolve_question` has seen to it
            raise InvalidArgumentError(msg)
        read, config = source.item, self.index.config
        leaves = [(LeafReader(config, self.serializers, n), one) for n, one in self.of.items()]

        def answers(item: int) -> list[Any]:
            data = read(item, True)  # noqa: FBT003 - mirrors the C++ signature
            return [function(leaf(data)) for leaf, function in leaves]

        return answers


def resolve_question(
    argument: str,
    given: Any,
    index: DatasetIndex,
    serializers: dict[str, Serializer],
    loader: BaseItemLoader,
) -> Question:
    """Return what a user wants to be asked.

    Args:
        argument: its name.
        given: a function of the sample; or a dict from a key of the sample (or a tuple of keys, for nested ones) to a
            function of that leaf.
        index: of the dataset.
        serializers: name -> serializer.
        loader: item loader of the dataset.

    Raises:
        InvalidArgumentError: anything else, or a key that leads to no leaf.
    """
    if callable(given):
        return Question(argument, given, index, serializers)
    if not isinstance(given, Mapping) or not given or not all(map(callable, given.values())):
        msg = f"{argument} must be a callable, or a dict of callables by key of the sample, found {given!r}."
        raise InvalidArgumentError(msg)
    numbers = leaf_numbers(argument, [k if isinstance(k, tuple) else (k,) for k in given], index)
    if type(loader) is not PyTreeLoader:
        msg = f"{argument}: leaves by key need PyTreeLoader itself; give a function of the sample instead."
        raise InvalidArgumentError(msg)
    by_leaf = dict(zip(numbers, given.values(), strict=True))
    return Question(argument, by_leaf, index, serializers)
