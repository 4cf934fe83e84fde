"""Names for the arrays that travel through the library, by what they hold."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]
#: Places in another array, as NumPy's own functions return them.
Places = NDArray[np.intp]
Bytes = NDArray[np.uint8]
AnyArray = NDArray[Any]
#: An array of any library that keeps the array API standard.
Array = Any


def namespace(array: Array) -> Any:
    """Return the functions of the library that an array belongs to.

    >>> namespace(np.zeros(3)).__name__
    'numpy'
    """
    if isinstance(array, np.ndarray):
        return np
    from array_api_compat import array_namespace

    return array_namespace(array)
