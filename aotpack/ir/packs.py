"""Packs: names of weights that follow each other in memory, of all methods of a package."""

from collections.abc import Iterable
from typing import TypeAlias

Packs: TypeAlias = tuple[tuple[str, ...], ...]


def fits(group: tuple[str, ...], packs: Packs) -> bool:
    """True if the weights of a group can follow each other where those of each pack do."""
    return all(
        not {*group} & {*pack} or _is_within(group, pack) or _is_within(pack, group)
        for pack in packs
    )


def packs_of(weights: Iterable[tuple[str, bool]]) -> Packs:
    """The packs among weights in memory order: names, and whether each follows the one before."""
    found: list[list[str]] = []
    for name, follows in weights:
        if follows:
            found[-1].append(name)
        else:
            found.append([name])
    return tuple(tuple(pack) for pack in found if len(pack) > 1)


def largest(packs: Iterable[tuple[str, ...]]) -> Packs:
    """The packs that lie in no other, each once; all fit each other."""
    distinct = tuple(dict.fromkeys(packs))
    return tuple(
        pack
        for pack in distinct
        if not any(pack != other and _is_within(pack, other) for other in distinct)
    )


def _is_within(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    size = len(part)
    return any(whole[start : start + size] == part for start in range(len(whole) - size + 1))
