"""A headless Chromium, driven by its chromedriver in the protocol of WebDriver: JSON over HTTP.

https://www.w3.org/TR/webdriver2/ has the protocol, https://chromedevtools.github.io/devtools-protocol/ what is sent by
``command``.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tidemark.testing.deadline import wait_until
from tidemark.testing.missing import lacks

OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # Root has none.
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--lang=en-GB",
)

ANSWER_SECONDS = 60
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""What the protocol calls a reference to an element."""

_PORTS = 10
"""So often chromedriver may choose a port: it takes one of IPv6, and ends where another process has it in IPv4."""

_STARTED = re.compile(r"started successfully on port (\d+)")


def no_chromium() -> str | None:
    """Why there is none; None if there is one."""
    names = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return lacks(f"there is no {' and no '.join(names)}", "apt-get install chromium chromium-driver") if names else None


class Chromium:
    """A browser with one window.

    Args:
        port: Where its chromedriver listens.
        folder: For its profile, which is new.
    """

    def __init__(self, port: int, folder: Path) -> None:
        self._port = port
        self._session = ""
        binary = shutil.which("chromium")
        options = {"binary": binary, "args": [*OPTIONS, f"--user-data-dir={folder}"]}
        wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        self._session = self._send("POST", "/session", {"capabilities": wanted})["sessionId"]

    def quit(self) -> None:
        """Ends the browser."""
        self._send("DELETE", "")

    def open(self, url: str) -> None:
        """Loads a page."""
        self._send("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: object) -> Any:
        """The value that a script returns in the page."""
        return self._send("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def element(self, selector: str) -> str:
        """The first element that a CSS selector matches."""
        found: str = self._send("POST", "/element", {"using": "css selector", "value": selector})[_ELEMENT]
        return found

    def elements(self, selector: str) -> list[str]:
        """All elements that a CSS selector matches."""
        return [one[_ELEMENT] for one in self._send("POST", "/elements", {"using": "css selector", "value": selector})]

    def name(self, element: str) -> str:
        """What assistive technology calls an element."""
        found: str = self._send("GET", f"/element/{element}/computedlabel")
        return found

    def role(self, element: str) -> str:
        """What assistive technology takes an element for."""
        found: str = self._send("GET", f"/element/{element}/computedrole")
        return found

    def press(self, keys: str) -> None:
        """Presses and releases keys where the focus is, such as U+E004 for Tab."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._send("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def text(self, selector: str = "body") -> str:
        """The text of an element as it is shown."""
        found: str = self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        return found

    def sees(self, selector: str) -> bool:
        """Whether an element is there and shown."""
        return bool(self.run("return document.querySelector(arguments[0])?.checkVisibility() ?? false", selector))

    def command(self, name: str, **parameters: object) -> Any:
        """Sends a command of the DevTools protocol."""
        return self._send("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def size(self, width: int, height: int, *, scale: float = 1, phone: bool = False) -> None:
        """Gives the page so many pixels of CSS."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )

    def prefer(self, **features: str) -> None:
        """Sets what the person prefers: ``color_scheme="dark"``, ``reduced_motion="reduce"``."""
        named = [{"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in features.items()]
        self.command("Emulation.setEmulatedMedia", features=named)

    def picture(self, *, whole: bool = False) -> bytes:
        """What the window shows, or the whole page, as a PNG."""
        shot = self.command("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])

    def complaints(self) -> list[str]:
        """What the page has written to its console as errors and warnings since the last time."""
        entries = self._send("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def _send(self, method: str, path: str, body: object = None) -> Any:
        whole = path if path == "/session" else f"/session/{self._session}{path}"
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_SECONDS)) as connection:
            data = None if method != "POST" else json.dumps(body or {})
            connection.request(method, whole, data, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            value = json.loads(answer.read())["value"]
        assert answer.status == 200, f"{method} {path}: {value['error']}: {value['message']}"
        return value


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser with a new profile; it ends with the context."""
    driver = shutil.which("chromedriver")
    assert driver is not None, no_chromium()
    with tempfile.TemporaryDirectory(prefix="tidemark-chromium-", ignore_cleanup_errors=True) as folder:
        said = Path(folder, "driver.log")
        # What the browser keeps of its own must not be that of the person who runs the tests.
        environment = {**os.environ, "HOME": folder, "TMPDIR": folder}
        started, port = _started(driver, said, environment)
        try:
            browser = Chromium(port, Path(folder, "profile"))
            try:
                yield browser
            finally:
                browser.quit()
        finally:
            started.terminate()
            started.wait(timeout=60)


def _started(driver: str, said: Path, environment: Mapping[str, str]) -> tuple[subprocess.Popen[bytes], int]:
    """A chromedriver, and where it listens."""
    for _ in range(_PORTS):
        with said.open("wb") as file:
            process = subprocess.Popen([driver, "--port=0"], stdout=file, stderr=file, env=environment)
        try:
            wait_until(partial(_is_decided, process, said), 60, "chromedriver listens, or has ended")
        except AssertionError:
            process.kill()
            process.wait()
            raise
        if (found := _STARTED.search(said.read_text())) is not None:
            return process, int(found[1])
    raise AssertionError(f"chromedriver does not start: {said.read_text()}")


def _is_decided(process: subprocess.Popen[bytes], said: Path) -> bool:
    return process.poll() is not None or _STARTED.search(said.read_text()) is not None
