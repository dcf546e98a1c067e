"""Functions of which torch.export takes the example's sizes, written for all sizes.

``functions`` by name, ``parts`` (what cuts a tensor), ``ranges`` (numbers in steps, windows),
``transforms`` (of Fourier), ``shapes`` (what torch asks of sizes), ``elements`` (at places that
data or sizes decide), with ``scans`` and ``remainders``, and ``declared`` (what a declaration tells
of a size). Where no size is dynamic they are torch's own.
"""

from aotpack.trace.operators.any_length.functions import OF_ANY_LENGTH as OF_ANY_LENGTH
from aotpack.trace.operators.any_length.functions import affine_points as affine_points
from aotpack.trace.operators.any_length.ranges import WINDOWS as WINDOWS
from aotpack.trace.operators.any_length.ranges import WITH_OUT as WITH_OUT
from aotpack.trace.operators.any_length.ranges import counted as counted
from aotpack.trace.operators.any_length.ranges import frequencies as frequencies
from aotpack.trace.operators.any_length.ranges import half_frequencies as half_frequencies
from aotpack.trace.operators.any_length.shapes import shapes_of_any_length as shapes_of_any_length
