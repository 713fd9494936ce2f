# The C half of `collections`.
from collections import deque as deque
