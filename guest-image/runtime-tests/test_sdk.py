"""The official SDK, which is named `mcp` as well, in the same image as the runtime: both can be
imported."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
import sys

import pytest

from guest import OLDER_PYTHON, RUNTIME, Guest
from host import Host, server, tool

SDK = {
    "__init__.py": "from . import types as types\nfrom .client import ClientSession\n__all__ = ['ClientSession', 'types']\n",
    "types.py": "class Tool: pass\n",
    "client/__init__.py": "import mcp.types as types\nfrom mcp.shared.errors import McpError\nclass ClientSession:\n    tool = types.Tool\n",
    "shared/__init__.py": "",
    "shared/errors.py": "class McpError(Exception): pass\n",
    "server/__init__.py": "",
}
Start = Callable[[Path], Host]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a guest whose Python has this folder as its site-packages."""

    def started(packages: Path) -> Host:
        library = tmp_path / "lib" / f"python{sys.version[:4]}"
        library.mkdir(parents=True)
        (library / "site-packages").symlink_to(packages)
        entry = tmp_path / "entry.py"
        real = RUNTIME / "entry.py"
        entry.write_text(
            f"import sys\nsys.prefix = {str(tmp_path)!r}\n__file__ = {str(real)!r}\nexec(compile(open(__file__).read(), __file__, 'exec'))\n"
        )
        monkeypatch.delenv("GUEST_PYTHON", raising=False)
        monkeypatch.setenv("GUEST_ENTRY", str(entry))
        return Host(Guest(tmp_path))

    assert OLDER_PYTHON.exists()
    return started


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    """Site-packages with a package that is built like the SDK."""
    for name, text in SDK.items():
        file = tmp_path / "packages" / "mcp" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "packages"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import mcp.types\nmcp.types.Tool.__module__, mcp.types.__file__.endswith('/site-packages/mcp/types.py')", "('mcp.types', True)"),
        ("from mcp import ClientSession\nClientSession.__module__, ClientSession.tool.__name__", "('mcp.client', 'Tool')"),
        ("mcp.ClientSession is __import__('mcp.client', fromlist=['x']).ClientSession", "True"),
        ("from mcp import types, runtime\ntypes.Tool.__name__, runtime is mcp.runtime", "('Tool', True)"),
        ("import pickle\nfrom mcp.shared.errors import McpError\ntype(pickle.loads(pickle.dumps(McpError()))) is McpError", "True"),
        ("[name for name in ('ClientSession', 'runtime', 'servers', 'types') if name not in dir(mcp)]", "[]"),
        ("import mcp.server\nfrom mcp.servers.s import echo\nmcp.server is not mcp.servers, echo.server", "(True, 's')"),
        ("try:\n    from mcp import nothing\nexcept ImportError as error:\n    text = str(error)\ntext.partition(' (')[0]", "\"cannot import name 'nothing' from 'mcp'\""),
    ],
)
def test_the_sdk_and_the_runtime_can_both_be_imported(start: Start, sdk: Path, code: str, expected: str) -> None:
    host = start(sdk)
    assert host.value(code, [server("s", tool("echo"))]) == expected
    assert host.value("await mcp_s.echo()") == "{}"
    host.guest.close()


def test_an_sdk_that_fails_to_import_says_why_and_leaves_the_runtime_alone(start: Start, sdk: Path) -> None:
    (sdk / "mcp" / "__init__.py").write_text("import missing_dependency\n")
    host = start(sdk)
    for _ in range(2):
        outcome = host.run("from mcp import ClientSession")
        assert outcome.error["message"] == "No module named 'missing_dependency'"
    assert host.value("runtime.list_servers_sync(), mcp.runtime is runtime") == "((), True)"
    host.guest.close()


def test_without_the_sdk_its_modules_are_missing_as_usual(host: Host) -> None:
    assert host.run("import mcp.types").error["message"] == "No module named 'mcp.types'"
    assert host.run("from mcp import ClientSession").error["message"].startswith("cannot import name 'ClientSession' from 'mcp'")
    assert host.run("mcp.ClientSession").error["message"] == "module 'mcp' has no attribute 'ClientSession'"


def test_the_official_sdk_works_in_a_guest(start: Start) -> None:
    try:
        packages = Path(str(distribution("mcp").locate_file("")))
    except PackageNotFoundError:
        pytest.skip("the SDK is not installed")
    # It may be installed for another Python.
    pytest.importorskip("pydantic_core", exc_type=ImportError)
    host = start(packages)
    code = """\
import mcp, mcp.types
from mcp import Client
from mcp.server import MCPServer

made = MCPServer("demo")

@made.tool()
def add(a: int, b: int) -> int:
    "Adds."
    return a + b

async with Client(made) as client:
    names = [tool.name for tool in (await client.list_tools()).tools]
    sum = (await client.call_tool("add", {"a": 1, "b": 2})).structured_content
names, sum, mcp.types.Tool.__name__, runtime is mcp.runtime
"""
    assert host.value(code) == "(['add'], {'result': 3}, 'Tool', True)"
    assert host.value("from mcp.servers.s import echo\nawait echo(n=1)", [server("s", tool("echo", {"n": {"type": "integer"}}))]) == "{'n': 1}"
    host.guest.close()
