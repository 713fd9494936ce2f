"""What one run may show, and what it has shown so far."""

__all__ = ["IMAGE_BYTES", "Allowance", "allowance"]

# What the model's side takes of one picture, less what base64 adds.
IMAGE_BYTES = 3_500_000
RUN_BYTES = 10_000_000
RUN_DISPLAYS = 16
# Documents are text to a model: one may have this part of the answer's. With its escapes it must fit into a frame.
TEXT_PART, TEXT_BYTES = 4, 2_000_000


class Allowance:
    """Of the run that is under way."""

    def __init__(self) -> None:
        self.run = self.cell = 0
        self.text_bytes = 0
        self.count = self.size = self.saved = 0

    def begin(self, run: int, cell: int, text_bytes: int) -> None:
        """A run begins that may have so much text in its answer."""
        self.run, self.cell, self.text_bytes = run, cell, text_bytes
        self.count = self.size = self.saved = 0

    def take(self, size: int, *, is_text: bool) -> bool:
        """Whether one more can be shown; counts it if so."""
        most = min(TEXT_BYTES, self.text_bytes // TEXT_PART) if is_text else IMAGE_BYTES
        if size > most or self.count >= RUN_DISPLAYS or self.size + size > RUN_BYTES:
            return False
        self.count += 1
        self.size += size
        return True


allowance = Allowance()
