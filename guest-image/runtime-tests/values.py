"""Random values for randomised tests."""

import random
from typing import Any


def json_value(chance: random.Random, depth: int = 4) -> Any:
    """Any JSON value."""
    kind = chance.randrange(9 if depth else 7)
    if kind == 0:
        return chance.choice((None, True, False, "", 0, -0.0, [], {}))
    if kind == 1:
        return chance.choice((1, -1)) * chance.getrandbits(chance.choice((3, 31, 53, 64, 65, 200, 5000)))
    if kind == 2:
        return chance.choice((chance.random(), 1e308, 5e-324, -1.5e-7, 1e22, 123456789.123456789))
    if kind < 7:
        letters = 'a"\\/\b\f\n\r\t\0\x7f\x1bé€\u2028\u2029\ufeff\ufffe\U0001f600{}[]<&\'!'
        return "".join(chance.choice(letters) for _ in range(chance.choice((1, 5, 50))))
    if kind == 7:
        return [json_value(chance, depth - 1) for _ in range(chance.randrange(5))]
    return {str(json_value(chance, 0)): json_value(chance, depth - 1) for _ in range(chance.randrange(5))}
