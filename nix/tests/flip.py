"""Changes one bit in the middle of a file: `flip.py FILE`."""

import os
import sys

with open(sys.argv[1], "r+b") as file:
    middle = os.fstat(file.fileno()).st_size // 2
    file.seek(middle)
    byte = file.read(1)[0]
    file.seek(middle)
    file.write(bytes([byte ^ 1]))
