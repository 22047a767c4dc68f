"""One disagreement between what Mallow says and what an oracle says."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Disagreement:
    """`where`: the tool and the machine's state; `said` by Mallow, `right` by whom; `command` shows it."""

    oracle: str
    row: str
    where: str
    said: str
    right: str
    command: str
