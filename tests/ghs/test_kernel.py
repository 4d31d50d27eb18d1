"""Kernels: their text form, the one text for what means the same, what is refused, and the scale of a local one."""

import dataclasses
import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from shiftproof.ghs.kernel import GHS, GHS_PAPER, LARGEST_ORDER, Hermite, Kernel, Local, _half_gain, parse_kernel

KERNELS = st.one_of(
    st.builds(Local, st.integers(0, 64), st.floats(0.1, 10)),
    st.builds(
        Hermite,
        st.sampled_from(["N", "4N", "N/2", 7]),
        st.sampled_from(["rule", "0.5*band", 0.25]) | st.floats(0.01, 9),
        st.sampled_from(["zero", "periodic"]),
        gain=st.sampled_from(["paper", "unit"]),
        taper=st.sampled_from(["none", "gaussian"]),
    ),
    st.builds(Hermite, st.integers(1, 99), projection=st.just("least-squares"), taper=st.just("none")),
)


@given(kernel=KERNELS)
def test_a_kernel_is_its_text(kernel: Kernel) -> None:
    """The text names every field, and reads back to an equal kernel."""
    assert parse_kernel(str(kernel)) == kernel
    assert parse_kernel(kernel) is kernel
    assert all(f"{field.name}=" in str(kernel) for field in dataclasses.fields(kernel))


def test_the_texts_of_the_two_named_kernels() -> None:
    """They stand in records and exported networks: a change of a default or of the order of fields shows here."""
    rest = "extension=periodic, projection=quadrature, gain=unit, taper=gaussian"
    assert str(GHS) == f"hermite(orders=4N, sigma=band, {rest})"
    rest = "extension=zero, projection=quadrature, gain=paper, taper=none"
    assert str(GHS_PAPER) == f"hermite(orders=N, sigma=rule, {rest})"
    assert str(Local()) == "local(order=2, width=1.0)"


def test_the_text_follows_the_fields() -> None:
    """In a changed copy, and in one from a pickle; kernels are values: equal, hashable, not to be changed."""
    changed = dataclasses.replace(GHS, orders="2 * N", gain="paper")
    assert parse_kernel(str(changed)) == changed != GHS
    assert "orders=2N" in str(changed)
    for kernel in (changed, Local(3, 0.5)):
        copy = pickle.loads(pickle.dumps(kernel))
        assert (copy, str(copy), hash(copy)) == (kernel, str(kernel), hash(kernel))
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(kernel, dataclasses.fields(kernel)[1].name, 3.0)
    assert Local(3) != Local(3, 2.0)
    assert repr(Local(3)) == "Local(order=3, width=1.0)"


def test_what_means_the_same_has_one_text() -> None:
    for orders, plain in (("4 * N", "4N"), (" N / 2 ", "N/2"), ("3*M/4", "3M/4"), (5, 5)):
        assert Hermite(orders).orders == plain
        assert f"(orders={plain}, " in str(Hermite(orders))
    for sigma, short in (("1 * rule", "rule"), ("1*band", "band"), ("11*band", "11*band"), (" .5 * band", ".5*band")):
        assert Hermite(sigma=sigma).sigma == short
        assert f", sigma={short}, " in str(Hermite(sigma=sigma))
    assert ", sigma=2.0, " in str(Hermite(sigma=2))
    assert ", width=2.0)" in str(Local(width=2))


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("hermite", Hermite()),
        ("HERMITE()", Hermite()),
        ("local( )", Local()),
        ("local(,,)", Local()),
        ("Local(order=0)", Local(0)),
        ("local(order=64,)", Local(64)),
        ("local(order=+3, width=1e-1)", Local(3, 0.1)),
        ("local(width=2)", Local(2, 2.0)),
        ("local(width = 0.5 , order = 1)", Local(1, 0.5)),
        ("hermite(sigma=2)", Hermite(sigma=2.0)),
        ("hermite(orders=3*N/2, taper=none, extension=zero)", Hermite("3N/2", extension="zero", taper="none")),
        ("hermite(taper=none, projection=least-squares)", Hermite(projection="least-squares", taper="none")),
    ],
)
def test_texts_of_a_kernel(text: str, kernel: Kernel) -> None:
    """Any case of its name, any order of its fields, spaces, a comma too many."""
    assert parse_kernel(text) == kernel
    assert str(parse_kernel(text)) == str(kernel)


def test_a_text_may_leave_out_defaults() -> None:
    assert parse_kernel("local") == Local()
    assert str(Local(2)) == "local(order=2, width=1.0)"
    assert parse_kernel(" Hermite( orders = 4N ,) ") == GHS
    assert parse_kernel("hermite(orders=3, sigma=0.5)") == Hermite(3, 0.5)
    assert str(Hermite(sigma=2)) == str(Hermite(sigma=2.0))
    assert Hermite("4 * N", " 1 * band") == GHS
    assert Hermite("N / 2", "0.5 * rule") == Hermite("N/2", "0.5*rule")
    assert str(Local(width=2)) == str(Local(width=2.0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("loca(order=2)", "`kernel` .='loca'. must be one of 'hermite', 'local'. Did you mean 'local'?"),
        ("local(order=2", "must look like 'local.order=2.' or 'hermite.orders=N.'"),
        ("local(2)", "'2' must be one of order, width, each once, with its value after '='"),
        ("local(order=1, order=2)", "'order=2' must be one of order, width, each once"),
        ("local(taper=none)", "'taper=none' must be one of order, width"),
        ("local(order=-1)", "`order` .=-1. must be at least 0"),
        ("local(order=65)", "`order` .=65. must be at most 64"),
        ("local(order=x)", "`order` .='x'. must be an integer, not str"),
        ("local(width=0)", "`width` .=0.0. must be positive and finite"),
        ("hermite(sigma=wide)", "`sigma` .='wide'. must be a positive number"),
        (3, "`kernel` .=3. must be Hermite.*, Local.*, or the text of one"),
        (None, "`kernel` .=None. must be Hermite.*, Local.*, or the text of one"),
        ("", "`kernel` .=''. must look like"),
        ("local(order=2))", "must look like 'local.order=2.'"),
        ("local(order=2) local", "must look like 'local.order=2.'"),
        ("local order=2", "must look like 'local.order=2.'"),
        ("local(order=2, 1.0)", "'1.0' must be one of order, width, each once, with its value after '='"),
        ("local(ORDER=2)", "'ORDER=2' must be one of order, width"),
        ("local(order)", "'order' must be one of order, width, each once, with its value after '='"),
        ("local(=2)", "'=2' must be one of order, width"),
        ("local(text=2)", "'text=2' must be one of order, width"),
        ("local(order=)", "`order` .=''. must be an integer, not str"),
        ("local(order==2)", "`order` .='=2'. must be an integer, not str"),
        ("local(order=2.0)", "`order` .=2.0. must be an integer, not float"),
        ("local(width=inf)", "`width` .=inf. must be positive and finite"),
        ("local(width=wide)", "`width` .='wide'. must be a number, not str"),
        ("hermite(orders=0)", "`orders` .=0. must be at least 1"),
        ("hermite(orders=K)", "`orders` .='K'. must be an integer of at least 1, or a multiple or fraction of"),
        ("hermite(orders=2.5)", "`orders` .=2.5. must be an integer, not float"),
        ("hermite(sigma=-1)", "`sigma` .=-1.0. must be positive and finite"),
        ("hermite(sigma=nan)", "`sigma` .=nan. must be positive and finite"),
        ("hermite(sigma=0*band)", "`sigma` .=0.0. must be positive and finite"),
        ("hermite(extension=reflect)", "`extension` .='reflect'. must be one of 'zero', 'periodic'"),
        ("hermite(projection=fit)", "`projection` .='fit'. must be one of 'quadrature', 'least-squares'"),
        ("hermite(gain=2)", "`gain` .=2. must be one of 'paper', 'unit'"),
        ("hermite(taper=cosine)", "`taper` .='cosine'. must be one of 'none', 'gaussian'"),
        ("hermite(projection=least-squares)", "`projection='least-squares'` fits .* and `taper='gaussian'` uses every"),
    ],
)
def test_texts_that_are_no_kernel(text: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        parse_kernel(text)


def test_half_gain_is_where_it_is_said_to_be() -> None:
    for order in (0, 1, 5, 64):
        z = (Local(order).scale(1) * math.pi) ** 2 / 2
        assert special.gammaincc(order + 1, z) == pytest.approx(0.5, abs=1e-12)


def test_half_gain_of_every_order() -> None:
    """The median of a gamma distribution, as scipy has it."""
    for order in range(LARGEST_ORDER + 1):
        assert _half_gain(order) == pytest.approx(special.gammainccinv(order + 1, 0.5), rel=1e-13)


@pytest.mark.parametrize("stride", [1, 2, 2.5, 7])
@pytest.mark.parametrize("width", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("order", [0, 2, 64])
def test_gain_of_a_local_kernel_at_the_limit_of_its_output(order: int, width: float, stride: float) -> None:
    """Q(m + 1, w^2 s^2 / 2) is one half at the frequency pi / stride, which a wider kernel takes for a higher one."""
    frequency = math.pi / stride / width
    z = (frequency * Local(order, width).scale(stride)) ** 2 / 2
    assert special.gammaincc(order + 1, z) == pytest.approx(0.5, abs=1e-12)
