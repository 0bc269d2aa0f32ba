"""The picture of the console in README.md shows the console as it is now."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tests.interop.browser import chromium
from tests.interop.console_picture import SCHEMES, path_of, pictures

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]

MOST_BYTES = 150_000
SAME = 0.985
"""Share of the squares of eight pixels that must look alike: fonts differ a little between machines."""

COMPARED = """(async () => {
  const squares = async (source) => {
    const image = new Image();
    image.src = source;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width >> 3, image.height >> 3];
    const drawn = canvas.getContext("2d");
    drawn.imageSmoothingQuality = "high";
    drawn.drawImage(image, 0, 0, canvas.width, canvas.height);
    return [canvas.width, canvas.height, drawn.getImageData(0, 0, canvas.width, canvas.height).data];
  };
  const [[wide, high, one], [width, height, two]] = [await squares(%s), await squares(%s)];
  if (wide !== width || Math.abs(high - height) > 2) return 0;
  let alike = 0;
  const count = Math.min(one.length, two.length) / 4;
  for (let at = 0; at < count; at++) {
    alike += [0, 1, 2].every((colour) => Math.abs(one[4 * at + colour] - two[4 * at + colour]) < 40);
  }
  return alike / count;
})()"""


def as_address(picture: bytes) -> str:
    return json.dumps(f"data:image/png;base64,{base64.b64encode(picture).decode()}")


def test_the_picture_in_the_readme_is_that_of_the_console_of_today(tmp_path: Path) -> None:
    now = pictures(tmp_path)
    with chromium() as browser:
        for scheme in SCHEMES:
            shown = path_of(scheme).read_bytes()
            assert len(shown) <= MOST_BYTES
            alike = browser.value(COMPARED % (as_address(shown), as_address(now[scheme])))
            assert alike >= SAME, (
                f"{path_of(scheme)} is old, {alike:.1%} of it looks the same: `make picture` writes it"
            )
