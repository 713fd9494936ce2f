"""Figures drawn in a container with matplotlib, by the official Python MCP SDK over stdio.

    figures_job.py -- BRIDGE ARGUMENTS...

The figure that is left open at the end of a cell, a figure as the last expression, `runtime.show`, a saved one as a
resource; arrays and data frames as text. Every picture is read to its last byte.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import os
import struct
import sys
import time
from typing import Any
import zlib

from main_job import Report

from mcp import Client, StdioServerParameters

CAPABILITIES = "resource://mcp-server-code-execution-mode/capabilities"


def png_size(data: bytes) -> tuple[int, int]:
    """Width and height of a whole PNG of 8-bit RGBA; an error where it is anything else."""
    if not data.startswith(b"\x89PNG\r\n\x1a\n"):
        raise ValueError("no PNG")
    chunks: list[tuple[bytes, bytes]] = []
    at = 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, content = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if struct.pack(">I", zlib.crc32(kind + content)) != data[at + 8 + length : at + 12 + length]:
            raise ValueError(f"{kind!r} is damaged")
        chunks.append((kind, content))
        at += 12 + length
    if chunks[0][0] != b"IHDR" or chunks[-1] != (b"IEND", b""):
        raise ValueError("no beginning or no end")
    width, height, depth, colours = struct.unpack_from(">IIBB", chunks[0][1])
    pixels = zlib.decompress(b"".join(content for kind, content in chunks if kind == b"IDAT"))
    if (depth, colours) != (8, 6) or len(pixels) != height * (1 + 4 * width):
        raise ValueError("its pixels are not all there")
    if len(set(pixels)) < 10:
        raise ValueError("there is nothing in it")
    return width, height


class Cells:
    """Runs cells and looks at what they show."""

    def __init__(self, client: Client, report: Report) -> None:
        self.client = client
        self.report = report

    async def run(self, code: str, warning: str = "") -> tuple[str, list[bytes], dict[str, str]]:
        """The text, the pictures, the addresses of new files by name. Anything on stderr but this warning fails."""
        start = time.monotonic()
        result = await self.client.call_tool("run_python", {"code": code, "timeout": 120})
        print(f"\n>>> {code!r} ({time.monotonic() - start:.2f} s)")
        structured: dict[str, Any] = result.structured_content or {}
        stderr = structured.get("stderr", "")
        expected = stderr.startswith(warning) and stderr.count("\n") == (1 if warning else 0)
        if structured.get("status") != "success" or not expected:
            self.report.check("it succeeds, and says nothing else on stderr", False, structured)
        images = [block for block in result.content if block.type == "image"]
        if any(image.mime_type != "image/png" for image in images):
            self.report.check("pictures are PNG", False, images)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        links = {block.name: str(block.uri) for block in result.content if block.type == "resource_link"}
        return text, [base64.b64decode(image.data) for image in images], links

    async def read(self, address: str) -> bytes:
        """A resource whose content is binary."""
        content = (await self.client.read_resource(address)).contents[0]
        return base64.b64decode(getattr(content, "blob", ""))


async def figures(cells: Cells) -> None:
    check = cells.report.check
    text, _, _ = await cells.run(
        "import time\nstart = time.monotonic()\nimport matplotlib.pyplot as plt\n"
        "print(f'first import: {time.monotonic() - start:.2f} s')"
    )
    print(text)

    _, images, links = await cells.run("plt.plot([1, 2, 3])\nplt.savefig('out/same.png', bbox_inches='tight')")
    saved = await cells.read(links["same.png"])
    check("a figure that is left open is shown at the end of the cell, once", images == [saved], (links, len(images)))
    width, height = png_size(images[0])
    check("as a picture of about 640 by 480", 450 < width <= 640 and 350 < height <= 480, (width, height))
    text, images, _ = await cells.run("import matplotlib.pyplot as plt; plt.plot([1,2,3])")
    check(
        "also where the cell ends with the line that draws", [png_size(image) for image in images] == [(width, height)]
    )
    check("whose value is the answer's text", text.startswith("[<matplotlib.lines.Line2D object"), text)
    _, images, _ = await cells.run("None")
    check("and not again", images == [])

    text, images, _ = await cells.run(
        "fig, ax = plt.subplots(figsize=(4, 3))\nax.bar(['a', 'b'], [1, 2])\nax.set_title('été')\nfig"
    )
    check("a figure as the last expression", len(images) == 1 and png_size(images[0])[0] < 450, len(images))
    check("needs no words", text.startswith("shown: image/png ("), text)
    _, images, _ = await cells.run("runtime.show(fig)\nprint('between')\nruntime.show(fig)")
    check("runtime.show(fig), twice", len(images) == 2 and images[0] == images[1], len(images))

    _, images, links = await cells.run("fig.savefig('/workspace/out/fig.png', dpi=100)")
    data = await cells.read(links["fig.png"])
    check("a file in out is a resource, and of the size it was drawn with", png_size(data) == (400, 300))
    check("and is not shown besides", images == [])

    _, images, _ = await cells.run("plt.title('\\u65e5')", "UserWarning: Glyph 26085")
    check("what is not in the font is told of, and the figure shown", len(images) == 1)


async def values(cells: Cells) -> None:
    check = cells.report.check
    text, _, _ = await cells.run("import numpy as np\nnp.arange(6).reshape(2, 3)")
    check("an array as text", text == "array([[0, 1, 2],\n       [3, 4, 5]])", text)
    text, _, _ = await cells.run("float(np.linalg.norm(np.ones((300, 300)) @ np.ones((300, 300))))")
    check("its algebra", text == "90000.0", text)
    text, _, _ = await cells.run(
        "import pandas as pd\nframe = pd.DataFrame({'city': ['Oslo', 'Rome'], 'people': [0.7, 2.8]})\nframe"
    )
    check(
        "a data frame as Markdown",
        text == "|  | city | people |\n| --- | --- | --- |\n| 0 | Oslo | 0.7 |\n| 1 | Rome | 2.8 |",
        text,
    )
    _, images, _ = await cells.run("frame.plot.bar(x='city');")
    check("and as a figure", len(images) == 1 and png_size(images[0])[0] > 450, len(images))


async def manual(cells: Cells) -> None:
    text, _, _ = await cells.run("print(capability_summary(), end='')")
    cells.report.check(
        "the manual names what is installed", "\nInstalled: contourpy 1.4.0, cycler 0.12.1, " in text, text
    )
    contents = (await cells.client.read_resource(CAPABILITIES)).contents[0]
    cells.report.check(
        "and so does the resource", getattr(contents, "text", "").startswith(f"{text}\nLimits: "), contents
    )


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", nargs="+")
    command, *arguments = parser.parse_args().command
    report = Report()
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(server, read_timeout_seconds=300) as client:
        cells = Cells(client, report)
        await figures(cells)
        await values(cells)
        await manual(cells)
    print(f"\n{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
