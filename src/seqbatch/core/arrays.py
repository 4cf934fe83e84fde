"""Type aliases for arrays (Floats, Integers, Bools, ...) and the array-API namespace lookup."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: Indices into another array, as returned by NumPy functions.
Places = NDArray[np.intp]
Bytes = NDArray[np.uint8]
AnyArray = NDArray[Any]
#: An array of any library that implements the array API standard.
Array = Any


def namespace(array: Array) -> Any:
    """Return the array-API namespace (NumPy, PyTorch, ...) that an array belongs to.

    >>> namespace(np.zeros(3)).__name__
    'numpy'
    """
    if isinstance(array, np.ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)
