"""Data sets: by name, from `.npz` files, or from arrays in memory."""

from evenstream.data.arrays import from_arrays
from evenstream.data.dataset import CoarseLabels, Dataset, Label
from evenstream.data.known import DATASETS, DatasetInfo, dataset_info, register_dataset
from evenstream.data.loading import (
    DatasetRow,
    FileStatus,
    data_root,
    get,
    import_files,
    list_datasets,
    load_dataset,
    verify,
)

__all__ = [
    "DATASETS",
    "CoarseLabels",
    "Dataset",
    "DatasetInfo",
    "DatasetRow",
    "FileStatus",
    "Label",
    "data_root",
    "dataset_info",
    "from_arrays",
    "get",
    "import_files",
    "list_datasets",
    "load_dataset",
    "register_dataset",
    "verify",
]
