"""Words and their concepts, as four arrays: the words' bytes in sorted order, and for each the numbers it leads to."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from recado.semantics.archive import Arrays


class WordTable:
    """Words sorted by their UTF-8 bytes; a word's number is its place."""

    def __init__(self, arrays: Arrays) -> None:
        self._texts = arrays["texts"].tobytes()
        self._starts: list[int] = arrays["text_starts"].tolist()
        self.concepts: npt.NDArray[np.int32] = arrays["concepts"]
        self.concept_starts: npt.NDArray[np.int32] = arrays["concept_starts"]

    @staticmethod
    def arrays(words: dict[str, list[int]]) -> Arrays:
        """What a table of these words is made of."""
        items = sorted((word.encode(), concepts) for word, concepts in words.items())
        return {
            "texts": np.frombuffer(b"".join(word for word, _ in items), np.uint8),
            "text_starts": starts(len(word) for word, _ in items),
            "concepts": np.array([number for _, numbers in items for number in numbers], np.int32),
            "concept_starts": starts(len(numbers) for _, numbers in items),
        }

    def __len__(self) -> int:
        return len(self._starts) - 1

    def text(self, number: int) -> str:
        return self._texts[self._starts[number] : self._starts[number + 1]].decode()

    def find(self, word: str) -> int | None:
        """The word's number, if it is there."""
        wanted = word.encode(errors="replace")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._texts[self._starts[middle] : self._starts[middle + 1]] < wanted:
                low = middle + 1
            else:
                high = middle
        there = low < len(self) and self._texts[self._starts[low] : self._starts[low + 1]] == wanted
        return low if there else None

    def senses(self, word: str) -> tuple[int, ...]:
        """The concepts of a word; none for one that is not there."""
        number = self.find(word)
        if number is None:
            return ()
        start, end = self.concept_starts[number], self.concept_starts[number + 1]
        return tuple(self.concepts[start:end].tolist())


def starts(lengths: Any) -> npt.NDArray[np.int32]:
    """Where each of the lists with these lengths begins in one flat array, and where the last one ends."""
    return np.cumsum([0, *lengths], dtype=np.int64).astype(np.int32)
