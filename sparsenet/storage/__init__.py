"""Save and load models: a directory with one safetensors file and a manifest. Nothing is ever unpickled.

::

    model/
      manifest.json                       the metadata; the name, type and shape of each array
      arrays-<16 hex digits>.safetensors  the arrays; the digits are the first of the file's SHA-256

The commit point of `save` is the rename of the manifest. A data file is complete and on disk under its own name before
a manifest refers to it. It is removed only when no manifest refers to it. If the process is killed at any moment, the
directory holds the old model or the new one. The next `save` removes the leftovers of a killed process.

`load` trusts nothing. The manifest ends with the SHA-256 of its own content, and holds the size and SHA-256 of the data
file. The list of arrays in the manifest determines every byte of the safetensors header. The header is therefore
compared, not parsed. Nothing is allocated before all sizes agree with the length of the file.
"""

from sparsenet.storage.directory import load, load_as, load_mapped, metadata, prepare, remove, save
from sparsenet.storage.format import MANIFEST, ModelError, size
from sparsenet.storage.strings import pack_strings, unpack_strings

__all__ = [
    "MANIFEST",
    "ModelError",
    "load",
    "load_as",
    "load_mapped",
    "metadata",
    "pack_strings",
    "prepare",
    "remove",
    "save",
    "size",
    "unpack_strings",
]
