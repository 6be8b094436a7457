"""Parse decimal text into correctly rounded float32 or float64, bit-identical to ``csrc/io/decimal.h``."""

from __future__ import annotations

import math
from typing import Any, cast

import numba
import numpy as np
from numpy.typing import NDArray

from sparsenet.kernels.numba.numba_common import Function
from sparsenet.kernels.types import U8

_POWERS_OF_TEN = np.array([float(f"1e{i}") for i in range(23)])
_DOT, _PLUS, _MINUS = ord("."), ord("+"), ord("-")
_LOWER_E, _UPPER_E = ord("e"), ord("E")
_SLACK = 2.0**-50  # see round_fast in csrc/io/decimal.h
_MAX_EXPONENT = 99999
# Later digits only matter if any is non-zero: a single digit is kept for all of them.
_MAX_DIGITS = 800


def exact_jit(function: Function) -> Function:
    """Compile like `numba_common.jit`, but without fast-math, so that every operation rounds as written."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return cast(Function, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # no writable cache directory: compile in each process
        return cast(Function, numba.njit(**options)(function))


@exact_jit
def is_digit(c: int) -> bool:
    """Return whether a byte is an ASCII digit."""
    return 48 <= c <= 57


@exact_jit
def scan_decimal(text: U8, p: int) -> tuple[int, np.uint64, int, bool]:
    """Return the end of the number at `p` (-1 for none), its mantissa, its exponent, and whether these are exact."""
    mantissa = np.uint64(0)
    start = p
    while is_digit(text[p]):
        mantissa = mantissa * np.uint64(10) + np.uint64(text[p] - 48)
        p += 1
    digits = p - start
    exponent = 0
    if text[p] == _DOT:
        p += 1
        start = p
        while is_digit(text[p]):
            mantissa = mantissa * np.uint64(10) + np.uint64(text[p] - 48)
            p += 1
        exponent = start - p
        digits -= exponent
    if digits == 0:
        return -1, mantissa, 0, False
    if text[p] == _LOWER_E or text[p] == _UPPER_E:
        p, written = _scan_exponent(text, p + 1)
        if p < 0:
            return -1, mantissa, 0, False
        exponent += written
    return p, mantissa, exponent, digits <= 19 and abs(exponent) <= _MAX_EXPONENT


@exact_jit
def _scan_exponent(text: U8, p: int) -> tuple[int, int]:
    sign = -1 if text[p] == _MINUS else 1
    if text[p] == _MINUS or text[p] == _PLUS:
        p += 1
    if not is_digit(text[p]):
        return -1, 0
    written = 0
    while is_digit(text[p]):
        if written < 1 << 40:
            written = written * 10 + (text[p] - 48)
        p += 1
    return p, sign * written


@exact_jit
def read_double(text: U8, p: int) -> tuple[int, float]:
    """Read a finite number; return its end, or -1 for none, and the nearest float64."""
    negative = text[p] == _MINUS
    start = p + 1 if negative or text[p] == _PLUS else p
    end, mantissa, exponent, exact = scan_decimal(text, start)
    if end < 0:
        return -1, 0.0
    if exact and -22 <= exponent <= 22 and mantissa <= np.uint64(1 << 53):
        value = _scaled(mantissa, exponent)
    else:
        value = round_exactly(text, start, end, 52, 1023)
    if not np.isfinite(value):
        return -1, 0.0
    return end, -value if negative else value


@exact_jit
def read_float(text: U8, p: int) -> tuple[int, np.float32]:
    """Read a finite number; return its end, or -1 for none, and the nearest float32."""
    negative = text[p] == _MINUS
    start = p + 1 if negative or text[p] == _PLUS else p
    end, mantissa, exponent, exact = scan_decimal(text, start)
    if end < 0:
        return -1, np.float32(0)
    certain = False
    value = np.float32(0)
    if exact and -22 <= exponent <= 22:
        near = _scaled(mantissa, exponent)
        value = np.float32(near * (1 - _SLACK))
        certain = value == np.float32(near * (1 + _SLACK))
    if not certain:
        value = np.float32(round_exactly(text, start, end, 23, 127))
    if not np.isfinite(value):
        return -1, np.float32(0)
    return end, -value if negative else value


@exact_jit
def _scaled(mantissa: np.uint64, exponent: int) -> float:
    if exponent < 0:
        return float(np.float64(mantissa) / _POWERS_OF_TEN[-exponent])
    return float(np.float64(mantissa) * _POWERS_OF_TEN[exponent])


# --- the slow, exact path: big integers of 32-bit limbs, least significant first -------------------------------


@exact_jit
def round_exactly(text: U8, start: int, end: int, fraction_bits: int, bias: int) -> float:
    """Round a decimal to a binary format with `fraction_bits` and an exponent `bias`.

    Steps from a guess to the nearest value, comparing exactly with midpoints.
    """
    digits, exponent = _digits(text, start, end)
    if len(digits) == 0 or len(digits) + exponent < -400:
        return 0.0
    if len(digits) + exponent > 400:
        return np.inf
    largest = ((2 * bias + 1) << fraction_bits) - 1  # the bits of the largest finite value
    bits = _guess(digits, exponent, fraction_bits, bias, largest)
    while bits <= largest:
        side = _compare_to_midpoint(digits, exponent, bits, fraction_bits, bias)
        if side < 0 or (side == 0 and bits % 2 == 0):
            break
        bits += 1
    while bits > 0:
        side = _compare_to_midpoint(digits, exponent, bits - 1, fraction_bits, bias)
        if side > 0 or (side == 0 and bits % 2 == 0):
            break
        bits -= 1
    if bits > largest:
        return np.inf
    mantissa, power = _unpack(bits, fraction_bits, bias)
    return math.ldexp(np.float64(mantissa), power)


@exact_jit
def _digits(text: U8, start: int, end: int) -> tuple[U8, int]:
    """Return the significant digits of a decimal and the exponent of the last digit."""
    digits = np.empty(min(end - start, _MAX_DIGITS + 1), np.uint8)
    n, exponent, after_dot, more = 0, 0, False, False
    p = start
    while p < end and text[p] != _LOWER_E and text[p] != _UPPER_E:
        if text[p] == _DOT:
            after_dot = True
        elif n < _MAX_DIGITS:
            if n > 0 or text[p] != 48:
                digits[n] = text[p] - 48
                n += 1
            exponent -= after_dot
        else:
            more = more or text[p] != 48
            exponent += not after_dot
        p += 1
    if more:
        digits[n] = 1
        n += 1
        exponent -= 1
    if p < end:
        _, written = _scan_exponent(text, p + 1)
        exponent += written
    return digits[:n], exponent


@exact_jit
def _guess(digits: U8, exponent: int, fraction_bits: int, bias: int, largest: int) -> int:
    """Return the bits of a value at most a few steps from the decimal."""
    near = 0.0
    kept = min(len(digits), 18)
    for i in range(kept):
        near = near * 10 + digits[i]
    power = exponent + len(digits) - kept
    while power > 0 and np.isfinite(near):
        step = min(power, 22)
        near *= _POWERS_OF_TEN[step]
        power -= step
    while power < 0 and near > 0:
        step = min(-power, 22)
        near /= _POWERS_OF_TEN[step]
        power += step
    if near == 0:
        return 0
    if not np.isfinite(near):
        return largest
    mantissa, exponent2 = math.frexp(near)  # near = mantissa * 2^exponent2, mantissa in [0.5, 1)
    biased = exponent2 - 1 + bias
    if biased >= 2 * bias + 1:
        return largest
    if biased <= 0:
        return int(math.ldexp(near, bias - 1 + fraction_bits))
    return ((biased - 1) << fraction_bits) + int(math.ldexp(mantissa, fraction_bits + 1))


@exact_jit
def _unpack(bits: int, fraction_bits: int, bias: int) -> tuple[int, int]:
    """Return integers with ``value = mantissa * 2^power``."""
    mantissa = bits & ((1 << fraction_bits) - 1)
    biased = bits >> fraction_bits
    if biased > 0:
        return mantissa | (1 << fraction_bits), biased - bias - fraction_bits
    return mantissa, 1 - bias - fraction_bits


@exact_jit
def _compare_to_midpoint(digits: U8, exponent: int, bits: int, fraction_bits: int, bias: int) -> int:
    """Compare the decimal with the midpoint between the value of `bits` and the next one: -1, 0 or 1."""
    mantissa, power = _unpack(bits, fraction_bits, bias)
    mantissa, power = 2 * mantissa + 1, power - 1
    left = np.zeros(200, np.uint64)  # 6,400 bits: enough for 801 digits and the exponents
    right = np.zeros(200, np.uint64)
    for digit in digits:
        _multiply_add(left, np.uint64(10), np.uint64(digit))
    right[0] = np.uint64(mantissa & 0xFFFFFFFF)
    right[1] = np.uint64(mantissa >> 32)
    for _ in range(abs(exponent)):
        _multiply_add(left if exponent > 0 else right, np.uint64(10), np.uint64(0))
    for _ in range(abs(power)):
        _multiply_add(right if power > 0 else left, np.uint64(2), np.uint64(0))
    for i in range(len(left) - 1, -1, -1):
        if left[i] != right[i]:
            return 1 if left[i] > right[i] else -1
    return 0


@exact_jit
def _multiply_add(number: NDArray[np.uint64], factor: np.uint64, carry: np.uint64) -> None:
    for i in range(len(number)):
        total = number[i] * factor + carry
        number[i] = total & np.uint64(0xFFFFFFFF)
        carry = total >> np.uint64(32)
