"""How long and how many reductions are split, and into how many parts.

Measured on an H200 (docs/measurements/h200_few_long_rows.csv).
"""

from dataclasses import dataclass
from math import ceil

from aotpack.devices import Gpu, rounded_down
from aotpack.ir.kernels.tiles import WARP


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits for a GPU. With ``is_host`` parts are for processors, as many as for the GPU."""

    gpu: Gpu
    is_host: bool = False

    @property
    def row_programs(self) -> int:
        """As many of four warps as run at once: [4,2^22] took 19.5 us by a quarter, 19.0 by all."""
        return self.gpu.threads_at_once // (4 * WARP)

    @property
    def column_programs(self) -> int:
        """Programs that run at once, with the registers that sums of columns take."""
        return 8 * self.gpu.multiprocessors

    @property
    def most_parts(self) -> int:
        """Parts of a row: one program merges them while the GPU is otherwise idle.

        [1,2^26] took 69.0 us in 2048 parts, 66.6 in 528 (fp32, H200, 2026-11-21).
        """
        return 4 * self.gpu.multiprocessors

    @property
    def enough_readers(self) -> int:
        """Programs that read at half of the bandwidth of memory."""
        return ceil(self.gpu.bandwidth / 1e6 / self.gpu.read_rate / 2)

    @property
    def worth_a_launch(self) -> int:
        """Elements, of 4 bytes, that are read in the time of the second kernel's launch."""
        return self.gpu.launch_bytes // 4

    @property
    def longest_unsplit(self) -> int:
        """Elements of a row that one program reads in the time of a launch.

        Of 32768 elements two to eight sums are quicker whole, of 65536 in parts (H200, 2026-11-22).
        """
        return rounded_down(self.gpu.read_rate * self.gpu.launch / 2)

    @property
    def longest_column(self) -> int:
        """Rows that a program keeps in registers for at least 16 columns."""
        return self.gpu.longest_row // 16

    @property
    def shortest_row_part(self) -> int:
        """Elements: a quarter of what a program can keep in registers."""
        return max(2, self.gpu.longest_row // 4)

    @property
    def shortest_column_part(self) -> int:
        """Rows of a program's 32 columns, with as many elements together."""
        return max(2, self.shortest_row_part // 32)
