"""Models on disk: a directory with one safetensors file and a manifest. Nothing is ever unpickled.

::

    model/
      manifest.json                       metadata, and name, type and shape of each array
      arrays-<16 hex digits>.safetensors  the arrays; the digits begin the SHA-256 of the file

The commit point of `save` is the rename of the manifest. A data file is complete and on disk under its own
name before a manifest refers to it, and goes only when none does: kill the process at any moment, and the
directory holds the old model or the new one. What a killed process left over, the next `save` removes.

`load` believes nothing. The manifest ends with the SHA-256 of all that precedes it, and holds the size and
SHA-256 of the data file. What it says of the arrays determines every byte of the safetensors header, so the
header is compared, not parsed; and nothing is allocated before all sizes agree with the length of the file.
"""

from sparsenet.storage.directory import load, load_as, metadata, prepare, remove, save
from sparsenet.storage.format import MANIFEST, ModelError, size
from sparsenet.storage.strings import pack_strings, unpack_strings

__all__ = [
    "MANIFEST",
    "ModelError",
    "load",
    "load_as",
    "metadata",
    "pack_strings",
    "prepare",
    "remove",
    "save",
    "size",
    "unpack_strings",
]
