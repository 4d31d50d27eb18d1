"""Data sets: where they come from, what their files mean, images and labels in memory."""

from shiftproof.data.sets import Dataset, Images, datasets, load_dataset

__all__ = ["Dataset", "Images", "datasets", "load_dataset"]
