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
