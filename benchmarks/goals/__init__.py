"""One module for each group of targets; each has `lines(patience)`, an iterator of lines."""
