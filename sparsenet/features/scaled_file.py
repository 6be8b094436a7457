"""Scale the points of a file into another file, which training reads."""

from __future__ import annotations

from pathlib import Path

from sparsenet.core.progress import parts_done
from sparsenet.core.rows import as_matrix
from sparsenet.data.point_file import PointWriter, StoredPoints
from sparsenet.data.streamed_rows import StreamedRows
from sparsenet.features.scaling import Scaling


def scaled_file(points: StoredPoints, scaling: Scaling, verbose: bool | None = False) -> StreamedRows:
    """Scale all points, block by block, into a temporary file of the same folder; this also checks the blocks.

    The file has no name, so its room is free again when the process ends, however that happens.
    """
    n = points.shape[0]
    with PointWriter(Path(points.path), temporary=True) as writer, parts_done(n, "scaling", verbose) as on_points:
        for _, block in points.blocks():
            writer.append(as_matrix(scaling.apply(block)))
            on_points(block.shape[0])
        return StreamedRows(writer.finish(points.shape[1]))
