"""The package as a whole: its names, its layers, what it imports."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import shiftproof

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "shiftproof"

PUBLIC = {
    "ConversionError",
    "Frame",
    "GHS1d",
    "GHS2d",
    "GHS3d",
    "GHSUp1d",
    "GHSUp2d",
    "GHSUp3d",
    "Hermite",
    "Local",
    "RollFirst",
    "RollToPivot",
    "Steady",
    "assert_shift_equivariant",
    "assert_shift_invariant",
    "calibrate",
    "circular_shift",
    "consistency",
    "conversion_report",
    "convert",
    "create_downsample",
    "create_model",
    "finetune",
    "gauss_hermite",
    "ghs2d",
    "load_model",
    "measure",
    "moments",
    "reconstruct",
    "register_method",
    "shift_error",
    "upsample",
}


def run(code: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=check)


def test_public_names() -> None:
    """The inventory: these names and no others, each importable, each documented."""
    assert set(shiftproof.__all__) == PUBLIC
    assert set(dir(shiftproof)) == PUBLIC | {"__version__"}
    for name in PUBLIC:
        assert getattr(shiftproof, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'convolve'"):
        _ = shiftproof.convolve


def test_lazy_table_and_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    imported = {
        alias.asname
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("shiftproof.")
        for alias in node.names
    }
    assert imported == PUBLIC


def test_names_are_not_shadowed_by_modules() -> None:
    """A module of the same name would replace the function as soon as it is imported."""
    modules = {p.stem for p in SOURCE.iterdir()}
    assert not modules & PUBLIC


def test_import_is_lazy() -> None:
    """`import shiftproof` imports no torch; nor does the help of the command line."""
    run("import sys, shiftproof; assert 'torch' not in sys.modules")
    code = "import sys; from shiftproof.commands.main import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    assert "cameraman" in run(code + "assert 'torch' not in sys.modules and 'numpy' not in sys.modules").stdout


def test_core_needs_torch_and_numpy_only() -> None:
    """Layers, measure and numerics work where no extra is installed."""
    blocked = ("matplotlib", "PIL", "skimage", "rich", "scipy", "onnx", "hypothesis")
    code = f"import sys\nfor m in {blocked}: sys.modules[m] = None\n"
    code += "import torch, shiftproof as sp\nfor n in sp.__all__: getattr(sp, n)\n"
    code += "sp.assert_shift_invariant(sp.GHS2d(), torch.rand(1, 1, 6, 6))\n"
    run(code)


def test_the_package_is_typed() -> None:
    assert (SOURCE / "py.typed").exists()
