"""A package that an agent imports and the stack lacks."""

from __future__ import annotations

from harness.checks import end_rules


def test_a_missing_package_is_told_where_it_goes() -> None:
    mend = end_rules._package({"type": "ModuleNotFoundError", "message": "No module named 'numpy.linalg'"})
    assert "numpy into WORKSPACE/requirements.txt" in mend
    assert "make up" in mend
    assert end_rules._package({"type": "ImportError", "message": "No module named 'numpy'"}) == ""
    assert end_rules._package({"type": "ModuleNotFoundError", "message": "something else"}) == ""
