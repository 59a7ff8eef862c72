"""Headless Chromium, for tests of pages and for the pictures of docs/: screenshots, and scripts that run in a page.

The tests that use it have the mark `browser`; where there is no Chromium they are left out (see conftest.py).
"""

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
    "--allow-file-access-from-files",
)  # fmt: skip

# Collects errors from the start, and writes the result of the script where --dump-dom shows it.
_BEFORE = """<script>
window.pageErrors = [];
window.addEventListener("error", e => window.pageErrors.push(String(e.message)));
document.addEventListener("securitypolicyviolation", e => window.pageErrors.push(e.violatedDirective));
</script>"""
_AFTER = """<script>
window.addEventListener("load", async () => {
  let result;
  try { result = await (async () => { SCRIPT })(); }
  catch (e) { result = {exception: String(e)}; }
  const pre = document.createElement("pre");
  pre.id = "result-of-test";
  pre.textContent = JSON.stringify({result, errors: window.pageErrors});
  document.body.append(pre);
});
</script>"""


def chromium() -> str | None:
    """The path of Chromium, or of a browser that takes the same arguments; None if there is none."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def run_in_page(page: str, script: str):
    """Runs JavaScript in a page after it has loaded.

    Args:
      page: the page's HTML.
      script: the body of an async function; what it returns has to be JSON.

    Returns:
      What the script returned. Raises AssertionError if it, or a script of the page, failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "page.html")
        file.write_text(_BEFORE + page + _AFTER.replace("SCRIPT", script))
        dom = _run(folder, "--dump-dom", "--virtual-time-budget=5000", file.as_uri())
    match = re.search(r'<pre id="result-of-test">(.*?)</pre>', dom, re.S)
    assert match, f"the page's script wrote no result:\n{dom[-2000:]}"
    answer = json.loads(html.unescape(match[1]))
    assert not answer["errors"], answer["errors"]
    result = answer.get("result")
    assert not (isinstance(result, dict) and "exception" in result), result
    return result


def screenshot(page: str, file, width: int = 1000, height: int = 600) -> None:
    """Writes a picture of a page's upper left part, as PNG."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "page.html")
        source.write_text(page)
        _run(
            folder,
            f"--screenshot={Path(file).absolute()}",
            f"--window-size={width},{height}",
            source.as_uri(),
        )


def _run(folder, *arguments: str) -> str:
    command = [chromium(), *_FLAGS, f"--user-data-dir={folder}/profile", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    if result.returncode:
        sys.stderr.write(result.stderr[-3000:])
        result.check_returncode()
    return result.stdout
